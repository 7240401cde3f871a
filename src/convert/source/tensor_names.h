// Names of tensors that families give otherwise than Llama does.
#pragma once

#include <string_view>

#include "convert/source/source_tensor.h"

namespace weft::convert {

// Tensors of a decoder that are called otherwise get the names that weights/weight_specs.h asks
// for; their own names are kept for messages. Nothing changes in other architectures.
// Whether they have the names of a model without a head: "layers.0..." for "model.layers.0...".
bool AreHeadless(const TensorMap& tensors);
// Gives such tensors the names that they have in one with a head.
void NameAsWithHead(TensorMap* tensors);

void RenameTensors(std::string_view architecture, TensorMap* tensors);

}  // namespace weft::convert
