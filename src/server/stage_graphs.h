// StageGraphs: ranges of layers as ONNX graphs, which tabs with onnxruntime-web run. The server
// only serves them: who cuts them is handed in.
#pragma once

#include "base/bytes.h"
#include "base/result.h"

namespace weft::server {

class StageGraphs {
 public:
  virtual ~StageGraphs() = default;
  // The graph of layers [first_layer, end_layer), a range that the package has, serialised; weights
  // are named by the digests of the package's blobs. Any thread may call it, and may wait long.
  virtual Result<Slice> Cut(int first_layer, int end_layer) = 0;
};

}  // namespace weft::server
