// From config.json to a ModelConfig, by the rules of the families (families.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "convert/model/model_config.h"

namespace weft::convert {

// Parses and checks config.json. Errors: kUnsupported for an architecture or a feature that weft
// does not convert (named, with what is supported), kInvalidData for values out of range.
// `context_length`: positions to make the package for, up to those of the model; nullopt: as
// ReadRopes chooses. `embeds`: the model is to make embeddings, and may be one without a head.
Result<ModelConfig> ParseModelConfig(std::string_view config_json,
                                     std::optional<uint32_t> context_length = std::nullopt,
                                     bool embeds = false);

// "gemma, llama, ...": for help texts and messages.
std::string SupportedArchitectures();

}  // namespace weft::convert
