// The tokenizer and chat template of a GGUF file as the files that a Hugging Face checkpoint has.
#pragma once

#include "base/result.h"
#include "convert/source/gguf.h"
#include "convert/source/source.h"

namespace weft::convert {

// Adds tokenizer.json, tokenizer_config.json and generation_config.json to `source`, or a warning
// that says why there is none. Errors: kInvalidData names the key of the metadata.
Status AddGgufText(const GgufMetadata& metadata, Source* source);

}  // namespace weft::convert
