// Names that a chat template asks for and that the template language here has not. They are found
// by reading its tree, so that it is said before the first conversation.
#pragma once

#include <string>
#include <vector>

#include "text/jinja/ast.h"

namespace weft::jinja {

// One sentence for each name, with its line, in order.
std::vector<std::string> FindMissingNames(const Block& block);

}  // namespace weft::jinja
