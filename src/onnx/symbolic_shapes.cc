#include "onnx/symbolic_shapes.h"

#include <algorithm>

#include "onnx/symbolic_ops.h"

namespace weft::onnx {
namespace {

using Kind = DimTerm::Kind;
using Values = std::map<std::string, DimExprs, std::less<>>;

DimExpr Term(Kind kind, int64_t axis = 0, std::string input = {}) {
  return DimExpr(DimTerm{kind, axis, std::move(input)});
}

std::optional<DimExprs> InputDims(const ValueInfo& input, const DecoderIo& io) {
  if (input.name == io.tokens) {
    DimExprs dims = {Term(Kind::kBatch), Term(Kind::kSequence)};
    if (io.tokens == "input_ids") return dims;
    const bool declared = input.shape && input.shape->size() == 3 && input.shape->back().known();
    dims.push_back(declared ? DimExpr(input.shape->back().value) : Term(Kind::kHidden));
    return dims;
  }
  if (!input.shape) return std::nullopt;
  const bool is_state = io.StateLayer(input.name) >= 0;
  DimExprs dims;
  for (size_t i = 0; i < input.shape->size(); ++i) {
    const Dim& dim = (*input.shape)[i];
    const auto axis = static_cast<int64_t>(i);
    if (dim.known()) {
      dims.emplace_back(dim.value);
    } else if (i == 0 && input.shape->size() > 1) {
      dims.push_back(Term(Kind::kBatch));  // masks, positions and caches all start with it
    } else if (is_state) {
      dims.push_back(Term(Kind::kPast, axis));
    } else if (input.name == "position_ids" && i == 1) {
      dims.push_back(Term(Kind::kSequence));
    } else {
      dims.push_back(Term(Kind::kInputAxis, axis, input.name));
    }
  }
  return dims;
}

// A state output is the state input grown by this call along the one axis whose declared symbol
// changes.
std::optional<DimExprs> StateOutputDims(const ValueInfo& output, const Graph& graph,
                                        const DecoderIo& io) {
  const int layer = io.StateLayer(output.name);
  if (layer < 0 || !output.shape) return std::nullopt;
  const ValueInfo* input = graph.FindInput(io.states[static_cast<size_t>(layer)].inputs.front());
  if (input == nullptr || !input->shape || input->shape->size() != output.shape->size()) {
    return std::nullopt;
  }
  std::optional<DimExprs> dims = InputDims(*input, io);
  bool grows = false;
  for (size_t i = 1; dims && i < dims->size(); ++i) {
    const Dim& before = (*input->shape)[i];
    const Dim& after = (*output.shape)[i];
    if (before.known() || after.known() || before == after) continue;
    const auto grown = (*dims)[i].Plus(Term(Kind::kSequence));
    if (grown) (*dims)[i] = *grown;
    grows = true;
  }
  if (!grows) return std::nullopt;
  return dims;
}

// What the symbols of declared shapes stand for, learned from the inputs and the state outputs.
class Symbols {
 public:
  void Learn(const ValueInfo& value, const DimExprs& dims) {
    for (size_t i = 0; value.shape && i < std::min(dims.size(), value.shape->size()); ++i) {
      const Dim& dim = (*value.shape)[i];
      if (!dim.known() && !dim.symbol.empty()) meanings_.emplace(dim.symbol, dims[i]);
    }
  }

  std::optional<DimExprs> Resolve(const ValueInfo* value) const {
    if (value == nullptr || !value->shape) return std::nullopt;
    DimExprs dims;
    for (const Dim& dim : *value->shape) {
      if (dim.known()) {
        dims.emplace_back(dim.value);
        continue;
      }
      const auto it = meanings_.find(dim.symbol);
      if (it == meanings_.end()) return std::nullopt;
      dims.push_back(it->second);
    }
    return dims;
  }

 private:
  std::map<std::string, DimExpr, std::less<>> meanings_;
};

Symbols LearnSymbols(const Graph& graph, const DecoderIo& io) {
  Symbols symbols;
  // The first meaning stays: tokens before anything else.
  if (const ValueInfo* tokens = graph.FindInput(io.tokens)) {
    if (const auto dims = InputDims(*tokens, io)) symbols.Learn(*tokens, *dims);
  }
  for (const ValueInfo& input : graph.inputs) {
    if (const auto dims = InputDims(input, io)) symbols.Learn(input, *dims);
  }
  for (const ValueInfo& output : graph.outputs) {
    if (const auto dims = StateOutputDims(output, graph, io)) symbols.Learn(output, *dims);
  }
  return symbols;
}

// Files may declare or compute nonsense; what is kept here is a shape.
bool IsShape(const DimExprs& dims) {
  return dims.size() <= 16 && std::none_of(dims.begin(), dims.end(), [](const DimExpr& dim) {
           return dim.is_constant() && dim.constant() < 0;
         });
}

}  // namespace

SymbolicShapes::SymbolicShapes(const Graph& graph, const DecoderIo& io, const Values& known) {
  const Symbols symbols = LearnSymbols(graph, io);
  Values integers;  // values of small integer vectors and scalars
  for (const ValueInfo& input : graph.inputs) {
    if (auto dims = InputDims(input, io)) dims_.emplace(input.name, *std::move(dims));
  }
  for (const Node& node : graph.nodes) {
    const SymbolicOp op(node, graph, dims_, integers);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const std::string& name = node.outputs[i];
      if (name.empty()) continue;
      std::optional<DimExprs> dims;
      if (const auto it = known.find(name); it != known.end()) dims = it->second;
      if (!dims) dims = op.OutputDims(i);
      if (dims && !IsShape(*dims)) dims.reset();
      if (!dims) {
        const ValueInfo* output = graph.FindOutput(name);
        if (output != nullptr) dims = StateOutputDims(*output, graph, io);
      }
      if (!dims) dims = symbols.Resolve(graph.FindValueInfo(name));
      if (dims) dims_.insert_or_assign(name, *std::move(dims));
    }
    if (auto values = op.IntegerValues(); values && node.HasOutput(0)) {
      integers.insert_or_assign(node.outputs[0], *std::move(values));
    }
  }
}

const DimExprs* SymbolicShapes::Find(std::string_view value) const {
  const auto it = dims_.find(value);
  return it == dims_.end() ? nullptr : &it->second;
}

}  // namespace weft::onnx
