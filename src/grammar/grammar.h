// Grammars from what people write: the whole answer of a model has to be a text of one. Each of
// these takes time and memory within limits (schema.h, gbnf.h, regex.h, automaton.h), a second or
// two at worst. Do not call them on a thread that others wait for.
//
// Errors: kInvalidArgument, kUnsupported and kLimitExceeded, with the place.
#pragma once

#include <boost/json/value.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/automaton.h"

namespace weft::grammar {

inline constexpr size_t kMaxChoices = 5'000;
inline constexpr size_t kMaxChoiceBytes = 65'536;  // of all together

using Compiled = Result<std::shared_ptr<const Automaton>>;

Compiled CompileSchema(const boost::json::value& schema);
Compiled CompileAnyObject();
Compiled CompileGbnf(std::string_view text);
Compiled CompileRegex(std::string_view pattern);
// One of the texts.
Compiled CompileChoice(const std::vector<std::string>& texts);

}  // namespace weft::grammar
