// Grammars in llama.cpp's form (GBNF): rules of literals, classes, groups and repeats.
//
//   root ::= "[" item ("," item)* "]"   # a comment
//   item ::= [0-9]{1,3} | "none"
//
// `root` is where a text begins. Literals and classes know \n \r \t \" \\ \[ \] \- \xHH \uHHHH
// \UHHHHHHHH, "." is any character but a line's end. A rule goes on in the next line inside of a
// group and behind "|". Refused, with the line: left recursion, tokens (<|name|>), rules that are
// used but not defined.
#pragma once

#include <string_view>

#include "base/result.h"
#include "grammar/rules.h"

namespace weft::grammar {

inline constexpr size_t kMaxGbnfBytes = 65'536;
inline constexpr size_t kMaxGbnfDepth = 100;  // of groups

// The rule `root`. Errors: kInvalidArgument and kUnsupported with the place; kLimitExceeded.
Result<RuleId> AddGbnf(std::string_view text, Rules& rules);

}  // namespace weft::grammar
