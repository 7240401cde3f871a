// The metadata of a GGUF file, told as the config.json that the model has on Hugging Face. So a
// package has one form whatever it was made from.
#pragma once

#include <boost/json.hpp>
#include <string>

#include "base/result.h"
#include "convert/source/gguf.h"

namespace weft::convert {

// Errors: kUnsupported names the architecture or feature, kInvalidData the key and its value.
Result<boost::json::object> HuggingFaceConfig(const GgufModel& model);

// "gemma2, gpt-oss, ...": the values of general.architecture that are known.
std::string SupportedGgufArchitectures();

}  // namespace weft::convert
