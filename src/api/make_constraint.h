// From its source to the constraint of an answer, over the vocabulary of a model.
#pragma once

#include <memory>

#include "api/api_error.h"
#include "api/constraint_source.h"
#include "api/model_text.h"
#include "api/token_grammar.h"

namespace weft::api {

// On a thread that nobody waits for: takes up to a second or two. Errors: 400 naming the field that
// cannot be followed.
ApiResult<std::shared_ptr<const TokenGrammar>> MakeConstraint(ConstraintSource source,
                                                              const ModelText& text);

}  // namespace weft::api
