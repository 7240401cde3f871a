// Finds the layers of a decoder graph (dynamic-graph-partitioning 6.2.3) without trusting names. A
// decoder's residual stream is the chain of values on every path from the embedding to the logits
// (dominators, ignoring edges that carry only shapes). The caches present.<i> tell which stretch of
// that chain is which layer. The cut before layer i is the last value of the chain on which
// present.<i> depends. Values that leave the residual stream after it belong to layer i. Values
// that leave the residual stream after it belong to layer i.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "onnx/decoder_io.h"
#include "onnx/graph.h"

namespace weft::onnx {

// The residual stream between two layers: float values [batch, sequence, hidden].
struct Boundary {
  std::string value;
  ElementType type = ElementType::kUndefined;
  int64_t columns = -1;  // where they are not LayeredModel::hidden_size
};

// A decoder whose layers are known. Layers are the planner's: 0 = embedding, 1..n = transformer
// layers, n + 1 = final norm and output head. The model is stripped, its constants are folded, and
// at each boundary a fused skip norm is taken apart.
struct LayeredModel {
  Model model;
  DecoderIo io;
  std::string embedding;             // the value that the embedding table gives
  std::vector<Boundary> boundaries;  // [k]: between layer k and layer k + 1; n + 1 of them
  int64_t hidden_size = -1;  // columns of the residual stream; -1 when the graph does not tell
  // One of two decoders of a file (merged_decoder.h): masks have to be looked at.
  bool was_merged = false;

  int layer_count() const { return static_cast<int>(boundaries.size()) + 1; }
};

// Errors: kUnsupported with the place where the graph is not a chain of layers joined by one
// tensor.
Result<LayeredModel> FindLayers(Model model);

// The same where whoever wrote the graph knows the values between its layers, with their types and
// columns, and what its embedding table gives. Layers may have no caches.
Result<LayeredModel> NameLayers(Model model, std::string embedding,
                                std::vector<Boundary> boundaries);

}  // namespace weft::onnx
