// The file that a join token is read from (`weft worker --token-file`).
#pragma once

#include <string>

#include "base/result.h"

namespace weft::apps {

// Its first line, without spaces around it. kNotFound, kIo: it cannot be read. kInvalidArgument:
// the line is empty, or longer than any token.
Result<std::string> ReadTokenFile(const std::string& path);

}  // namespace weft::apps
