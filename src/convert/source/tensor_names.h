// Names of tensors that families give otherwise than Llama does.
#pragma once

#include <string_view>

#include "convert/source/source_tensor.h"

namespace weft::convert {

// Tensors of a decoder that are called otherwise get the names that weights/weight_specs.h asks
// for; their own names are kept for messages. Nothing changes in other architectures.
void RenameTensors(std::string_view architecture, TensorMap* tensors);

}  // namespace weft::convert
