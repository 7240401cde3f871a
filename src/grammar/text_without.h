// Texts in which a marker has no place, or ends them: what stands around the calls in an answer,
// and values that are written as they are, up to a closing tag.
//
//   TextUpTo("</p>"): "a < b</p>", "</p>"     TextWithout("</p>"): "a < b", "", "</"
//
// The marker is looked for as Knuth, Morris and Pratt do: a rule for each number of its characters
// that have come.
#pragma once

#include <string_view>

#include "grammar/rules.h"

namespace weft::grammar {

// REQUIRES: `marker` is UTF-8 and not empty.
// Any text that the marker is no part of.
ExprId TextWithout(std::string_view marker, Rules& rules);
// Any text that ends with the marker, which it holds nowhere else.
ExprId TextUpTo(std::string_view marker, Rules& rules);

}  // namespace weft::grammar
