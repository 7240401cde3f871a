// Which tensors of a checkpoint become which weights of a package, by layer, with the shapes they
// must have.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "convert/model_config.h"
#include "convert/source_tensor.h"

namespace weft::convert {

enum class WeightRole {
  kVector,      // norm weights and biases: always f32
  kMatrix,      // a projection of a transformer layer: as --quant says
  kVocabulary,  // embedding table and output head: at least q8
};

// One weight of the package: rows [first_row, first_row + shape[0]) of a checkpoint tensor.
struct PlannedWeight {
  std::string name;    // of the weight in the package, e.g. "model.layers.0.mlp.up_proj.weight"
  std::string source;  // of the tensor in the checkpoint
  WeightRole role = WeightRole::kMatrix;
  std::vector<uint64_t> shape;  // [columns] or [rows, columns]
  uint64_t first_row = 0;
  std::vector<uint64_t> source_shape;  // of the whole tensor
};

// [layer] as in the package: 0 = embedding, 1..n = transformer layers, n + 1 = head.
std::vector<std::vector<PlannedWeight>> PlanWeights(const ModelConfig& config);

// Every planned tensor is there with its shape and a type that weft converts. The error names the
// tensor, what was expected and what was found.
Status CheckWeights(const std::vector<std::vector<PlannedWeight>>& plan, const TensorMap& tensors);

// "model.layers.3." for package layer 4.
std::string LayerPrefix(uint32_t package_layer);

}  // namespace weft::convert
