// The weights of layers with recurrent state.
#pragma once

#include <vector>

#include "convert/model/model_config.h"
#include "convert/source/source_tensor.h"
#include "convert/weights/layer_weight.h"

namespace weft::convert {

// Appends the weights of the mixer of `layer` (of the package), named
// "model.layers.<n>.linear_attn.<...>", "...conv.<...>" or "...mamba.<...>".
// REQUIRES: the mixer is recurrent.
void SpecifyRecurrent(const ModelConfig& config, uint32_t layer, const TensorMap& tensors,
                      std::vector<WeightSpec>* weights);

}  // namespace weft::convert
