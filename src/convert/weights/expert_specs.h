// The router and the experts of a sparse layer, in every spelling that checkpoints have.
#pragma once

#include <vector>

#include "convert/model/model_config.h"
#include "convert/source/source_tensor.h"
#include "convert/weights/layer_weight.h"

namespace weft::convert {

// Appends the weights of package layer `layer`: "mlp.router.weight" (and ".bias"), and for each
// expert, in a blob of its own, "gate_up_proj.weight" [2 * width, hidden] (gate rows, then up
// rows), "down_proj.weight" [hidden, width] and their ".bias"es. REQUIRES: a sparse layer.
void SpecifyExperts(const ModelConfig& config, uint32_t layer, const TensorMap& tensors,
                    std::vector<WeightSpec>* weights);

}  // namespace weft::convert
