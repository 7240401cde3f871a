// Values as text: Python's str and repr of them.
#pragma once

#include "text/jinja/value.h"

namespace weft::jinja {

// What `{{ value }}` prints: True, None, 1.0, ['a', 1], a string as it is, nothing for undefined.
// Errors: kInvalidData for a function, and for more than 64 MiB or kMaxValueDepth levels.
Result<Text> ToText(const Value& value);
// The same with a string in quotes.
Result<Text> ToRepr(const Value& value);

}  // namespace weft::jinja
