// The tensors of a GGUF file under the names, and in the order of rows, of the Hugging Face
// checkpoint.
#pragma once

#include "base/result.h"
#include "convert/source/gguf.h"

namespace weft::convert {

// `model_type`: as in config.json. Tensors that no checkpoint of this family has are left out.
// Errors: kUnsupported for a tensor of a type that weft does not convert, kInvalidData for shapes
// that cannot be what their names say.
Result<TensorMap> HuggingFaceTensors(const GgufModel& model, const std::string& model_type,
                                     uint64_t head_columns);

}  // namespace weft::convert
