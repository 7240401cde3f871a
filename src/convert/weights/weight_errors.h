// How far a package's matrices are from those of the checkpoint that it was made of.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "package/package.h"
#include "tensor/dtype.h"

namespace weft::convert {

struct WeightError {
  // Of experts: "model.layers.0.mlp.experts.down_proj.weight", which is all of a layer's.
  std::string name;
  DType dtype = DType::kF32;
  // sqrt(sum of squared differences / sum of squares of the checkpoint's values); 0 of zeros.
  double relative_rms = 0;
};

// Compares each matrix of the package with the same one of the checkpoint, which OpenSource opens.
// By layer; those of a layer's experts, which packages stack, come last.
// kInvalidArgument when the checkpoint has none of the package's matrices; kUnsupported for models
// with towers and packages without programs.
Result<std::vector<WeightError>> CompareWeights(const package::Package& package,
                                                const std::filesystem::path& checkpoint);

}  // namespace weft::convert
