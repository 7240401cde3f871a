// Checkpoints that others have quantised, seen as what they stand for: a matrix for each projection
// under its usual name.
//
//   stored                                               | seen as
//   x.weight F8_E4M3, x.weight_scale_inv or weight_scale  | x.weight, FP8
//   x.qweight, x.qzeros, x.scales, x.g_idx (GPTQ)         | x.weight, whole numbers in groups
//   x.qweight, x.qzeros, x.scales (AWQ)                   | x.weight, the same
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "convert/source/source_tensor.h"

namespace weft::convert {

// Replaces the parts of quantised matrices in `tensors` by the matrices, as the
// 'quantization_config' of `config_json` says. Errors: kUnsupported names a method that weft does
// not convert; kInvalidData names a tensor whose parts do not fit.
Status PresentQuantised(std::string_view config_json, TensorMap* tensors);

}  // namespace weft::convert
