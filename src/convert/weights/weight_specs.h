// Which tensors of a checkpoint become which weights of a package, by layer, with the shapes they
// must have.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "convert/model/model_config.h"
#include "convert/source/source_tensor.h"
#include "convert/weights/layer_weight.h"

namespace weft::convert {

// [layer] as in the package: 0 = embedding, 1..n = transformer layers, n + 1 = head. The names in
// `tensors` decide between the spellings that experts have; they are not checked.
std::vector<std::vector<WeightSpec>> SpecifyWeights(const ModelConfig& config,
                                                    const TensorMap& tensors);

// Every tensor of the specs is there with its shape and a type that weft converts. The error names
// the tensor, what was expected and what was found.
Status CheckWeights(const std::vector<std::vector<WeightSpec>>& specs, const TensorMap& tensors);

// How the rows of a piece lie in the checkpoint. REQUIRES: CheckWeights passed.
RowFormat FormatOf(const SourcePiece& piece, const TensorMap& tensors);
// Whether some of its rows are whole numbers with zero points. REQUIRES: CheckWeights passed.
bool HasZeroPoints(const WeightSpec& weight, const TensorMap& tensors);
// Bytes of the checkpoint that a weight is read from. REQUIRES: CheckWeights passed.
uint64_t SourceByteCount(const SourcePiece& piece, const TensorMap& tensors);
uint64_t SourceByteCount(const WeightSpec& weight, const TensorMap& tensors);

}  // namespace weft::convert
