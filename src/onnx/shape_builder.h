// Nodes that compute shapes of values that a part does not have. Masks, positions and reshapes take
// lengths from tensors all over the graph: Shape(input_ids), Shape(the embedding),
// Shape(past_key_values.0.key). A part without such a tensor recomputes its shape from others: the
// incoming residual stream, its own caches, the other inputs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "onnx/dim_expr.h"
#include "onnx/graph.h"

namespace weft::onnx {

// What a part can take dimensions from.
struct PartSources {
  std::string
      stream;  // [batch, sequence, ...]: the tokens input or the residual stream that comes in
  bool stream_has_hidden = false;  // its axis 2 is the hidden size
  std::string state;           // a state input of one of the part's layers; empty when it has none
  std::string attention_mask;  // an input [batch, past + sequence]; empty when there is none
};

// Makes nodes that compute shapes; equal dimensions are computed once.
class ShapeBuilder {
 public:
  explicit ShapeBuilder(PartSources sources) : sources_(std::move(sources)) {}

  // Adds nodes that write the int64 vector `output` with these dimensions. kUnsupported when the
  // part has no source for one of them.
  Status Build(const DimExprs& dims, const std::string& output);

  // What was made so far, in order; initializers are the constants they read.
  std::vector<Node>& nodes() { return nodes_; }
  std::map<std::string, Tensor>& initializers() { return initializers_; }

 private:
  // Names of one-element vectors.
  Result<std::string> Vector(const DimExpr& dim);
  Result<std::string> Sum(const DimExpr& dim);
  Result<std::string> TermVector(const DimTerm& term);
  std::string Constant(int64_t value);
  std::string AxisOf(const std::string& value, int64_t axis);
  std::string Add(const char* op, std::vector<std::string> inputs);

  PartSources sources_;
  std::map<DimExpr, std::string> made_;
  std::map<std::string, std::string> shapes_;
  std::vector<Node> nodes_;
  std::map<std::string, Tensor> initializers_;
};

}  // namespace weft::onnx
