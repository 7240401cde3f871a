// Families whose layers carry recurrent state (families.h).
#pragma once

#include "base/result.h"
#include "convert/model/model_config.h"
#include "convert/source/json_reader.h"

namespace weft::convert {

// Qwen3.5 and what follows it: three layers of Gated DeltaNet, then one of gated attention.
Status AdjustQwen35(const JsonReader& config, ModelConfig* model);

}  // namespace weft::convert
