// The weights of layers with recurrent state.
#pragma once

#include <vector>

#include "convert/model/model_config.h"
#include "convert/weights/layer_weight.h"

namespace weft::convert {

// Appends the weights of the Gated DeltaNet of `layer` (of the package), named
// "model.layers.<n>.linear_attn.<...>".
void SpecifyDeltaNet(const ModelConfig& config, uint32_t layer, std::vector<WeightSpec>* weights);

}  // namespace weft::convert
