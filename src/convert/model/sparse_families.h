// Families whose experts are chosen by scores with a bias or in groups, or with latent attention
// (families.h).
#pragma once

#include "base/result.h"
#include "convert/model/model_config.h"
#include "convert/source/json_reader.h"

namespace weft::convert {

// GLM-4.5 and GLM-4.6.
Status AdjustGlm4Moe(const JsonReader& config, ModelConfig* model);
// GLM-4.7-Flash.
Status AdjustGlm4MoeLite(const JsonReader& config, ModelConfig* model);
Status AdjustDeepseekV2(const JsonReader& config, ModelConfig* model);
Status AdjustDeepseekV3(const JsonReader& config, ModelConfig* model);
// Mistral Small 4.
Status AdjustMistral4(const JsonReader& config, ModelConfig* model);

}  // namespace weft::convert
