// Reads what a tokenizer.json says of its vocabulary: the sections "model" and "added_tokens".
#pragma once

#include "text/tokenizer/data.h"
#include "text/tokenizer/json_fields.h"

namespace weft {

// Fills the vocabulary, the model and the added tokens. Errors: kInvalidData naming the field;
// kUnsupported naming a model that weft does not have.
Status AddModel(const JsonFields& root, TokenizerData& data);

}  // namespace weft
