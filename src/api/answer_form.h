// What an answer has to be a text of: `response_format`, `structured_outputs` and `grammar` of a
// chat request.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/api_error.h"
#include "base/result.h"
#include "grammar/grammar.h"

namespace weft::api {

struct AnswerForm {
  enum class Kind { kJsonObject, kSchema, kRegex, kChoice, kGrammar };
  Kind kind = Kind::kJsonObject;
  boost::json::value schema;         // kSchema
  std::string text;                  // kRegex, kGrammar
  std::vector<std::string> choices;  // kChoice
  std::string field;                 // what errors call it

  // On a thread that nobody waits for (grammar.h).
  grammar::Compiled Compile() const;
};

// An object as vLLM has it, with exactly one of "json" (a schema, or its text), "json_object":
// true, "regex", "choice" and "grammar". `field` is what it is called in errors; "": it has no
// name.
ApiResult<AnswerForm> ReadForm(const boost::json::object& object, const std::string& field);

// The form that a request asks for, if it does. Two of the three fields at once are refused.
ApiResult<std::optional<AnswerForm>> ReadRequestedForm(const boost::json::object& request);

}  // namespace weft::api
