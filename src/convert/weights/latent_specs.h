// The weights of multi-head latent attention.
#pragma once

#include <vector>

#include "convert/model/model_config.h"
#include "convert/source/source_tensor.h"
#include "convert/weights/layer_weight.h"

namespace weft::convert {

// Of package layer `layer`. REQUIRES: config.latent.
void SpecifyLatent(const ModelConfig& config, uint32_t layer, const TensorMap& tensors,
                   std::vector<WeightSpec>* weights);

}  // namespace weft::convert
