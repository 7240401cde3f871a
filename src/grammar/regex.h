// Regular expressions as JavaScript has them, without what no automaton does: looking ahead or
// behind, backreferences, word boundaries. The rest: characters, ".", classes, \d \w \s and their
// complements, \t \n \r \f \v \0 \xHH \uHHHH \u{H}, groups with and without a name, |, * + ? {n}
// {n,} {n,m} and the same with a ? behind, which changes no text. "^" and "$" stand at the
// beginning and the end of the expression, or of each of its alternatives.
#pragma once

#include <functional>
#include <string_view>

#include "base/result.h"
#include "grammar/rules.h"

namespace weft::grammar {

inline constexpr size_t kMaxRegexBytes = 16'384;
inline constexpr size_t kMaxRegexDepth = 100;  // of groups

struct RegexOptions {
  // How one character of a set is written; by default as itself.
  std::function<ExprId(const CodePointSet&)> write;
  // The expression is looked for in a text, as JSON Schema does. Anything in front of it and behind
  // it is part of the text where no "^" and "$" says otherwise.
  bool searches = false;
};

// Errors: kInvalidArgument and kUnsupported with the place; kLimitExceeded.
Result<ExprId> AddRegex(std::string_view pattern, const RegexOptions& options, Rules& rules);

}  // namespace weft::grammar
