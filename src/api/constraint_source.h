// ConstraintSource: of what the constraint of an answer is made. It can be sent to another server
// of the same model, which makes the same constraint of it (make_constraint.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/answer_form.h"
#include "api/openai_request.h"
#include "base/result.h"

namespace weft::api {

struct ConstraintSource {
  std::optional<AnswerForm> form;  // nullopt: the answer may call, or has to
  // Its tools, its tool_choice and its ends_with_call count, where there is no form.
  ChatRequest calls;
  bool may_think = false;     // of CompileCalls
  std::string begins_behind;  // of TokenGrammar

  std::string ToJson() const;
  // kInvalidData: it is nothing that ToJson gives.
  static Result<ConstraintSource> FromJson(std::string_view text);
};

}  // namespace weft::api
