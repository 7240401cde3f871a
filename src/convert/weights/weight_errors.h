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
  std::string name;
  DType dtype = DType::kF32;
  // sqrt(sum of squared differences / sum of squares of the checkpoint's values); 0 of zeros.
  double relative_rms = 0;
};

struct WeightErrors {
  std::vector<WeightError> matrices;  // by layer
  size_t left_out = 0;                // matrices of experts, which packages stack
};

// Compares each matrix of the package with the same one of the checkpoint, which OpenSource opens.
// kInvalidArgument when the checkpoint has none of the package's matrices; kUnsupported for models
// with towers and packages without programs.
Result<WeightErrors> CompareWeights(const package::Package& package,
                                    const std::filesystem::path& checkpoint);

}  // namespace weft::convert
