// The shapes of a decoder's values as expressions of batch, sequence and past, worked out once from
// the inputs forwards. Partial by nature: a value whose op, operands or shape arithmetic is not
// covered simply has no shape here.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "onnx/decoder_io.h"
#include "onnx/dim_expr.h"
#include "onnx/graph.h"

namespace weft::onnx {

class SymbolicShapes {
 public:
  // REQUIRES: graph.nodes in topological order. `known` are shapes that are given from outside.
  SymbolicShapes(const Graph& graph, const DecoderIo& io,
                 const std::map<std::string, DimExprs, std::less<>>& known = {});

  // Gives nullptr when unknown.
  const DimExprs* Find(std::string_view value) const;

 private:
  std::map<std::string, DimExprs, std::less<>> dims_;
};

}  // namespace weft::onnx
