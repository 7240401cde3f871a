// Shape rules of single ops, and the values of the small integer vectors that shapes are computed
// with.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "onnx/dim_expr.h"
#include "onnx/graph.h"

namespace weft::onnx {

class SymbolicOp {
 public:
  using Values = std::map<std::string, DimExprs, std::less<>>;

  // `dims` and `integers` are what is known about the node's inputs; initializers are looked up in
  // `graph`.
  SymbolicOp(const Node& node, const Graph& graph, const Values& dims, const Values& integers)
      : node_(node), graph_(graph), dims_(dims), integers_(integers) {}

  std::optional<DimExprs> OutputDims(size_t output) const;
  // The elements of output 0 when it is an integer scalar or vector of known elements.
  std::optional<DimExprs> IntegerValues() const;

 private:
  using Maybe = std::optional<DimExprs>;

  // Of input `i`.
  Maybe Dims(size_t i) const;
  Maybe Integers(size_t i) const;
  std::optional<std::vector<int64_t>> Constants(size_t i) const;
  std::optional<std::vector<int64_t>> Axes(size_t input) const;
  // A dimension that no rule gives: axis `axis` of output 0.
  DimExpr Opaque(size_t axis) const;
  Maybe BroadcastTwo(DimExprs a, DimExprs b) const;

  Maybe Broadcast() const;
  Maybe Concat() const;
  Maybe Reshape() const;
  Maybe Expand() const;
  Maybe Unsqueeze() const;
  Maybe Squeeze() const;
  Maybe Slice() const;
  Maybe Split(size_t output) const;
  Maybe Transpose() const;
  Maybe Gather() const;
  Maybe MatMul() const;
  Maybe Flatten() const;
  Maybe Reduce() const;
  Maybe Range() const;
  Maybe Quantized() const;

  Maybe IntegerArithmetic() const;
  Maybe IntegerGather() const;
  Maybe IntegerSlice() const;
  Maybe IntegerChoice() const;

  const Node& node_;
  const Graph& graph_;
  const Values& dims_;
  const Values& integers_;
};

}  // namespace weft::onnx
