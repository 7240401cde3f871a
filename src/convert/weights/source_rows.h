// From a piece of a weight to the rows of the checkpoint that it is made of.
#pragma once

#include "convert/source/source_tensor.h"
#include "convert/weights/layer_weight.h"
#include "convert/weights/row_converter.h"

namespace weft::convert {

// The rows of a piece in the checkpoint's tensors, which outlive them. REQUIRES: CheckWeights
// passed.
SourceRows RowsOf(const WeightSpec& weight, const SourcePiece& piece, const TensorMap& tensors);

}  // namespace weft::convert
