// ModelProto bytes to a Model, without looking at external files and before any graph-level check
// (load.h does both).
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "onnx/graph.h"
#include "onnx/wire_reader.h"

namespace weft::onnx {

// Where bytes are parsed from: spans inside it become Slices of it.
struct ParseSource {
  Slice bytes;
  bool mapped = false;

  // REQUIRES: `part` lies in `bytes`.
  Slice SliceOf(ByteSpan part) const {
    return bytes.Sub(static_cast<size_t>(part.data() - bytes.bytes().data()), part.size());
  }
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// A TensorProto. External data becomes location, offset and byte_count without bytes.
Result<NamedTensor> ParseTensor(const ParseSource& source, ByteSpan message);

Result<Model> ParseModel(const ParseSource& source);

}  // namespace weft::onnx
