#include "onnx/shape_builder.h"

#include "onnx/validate.h"

namespace weft::onnx {

using Kind = DimTerm::Kind;

std::string ShapeBuilder::Add(const char* op, std::vector<std::string> inputs) {
  Node node;
  node.op_type = op;
  node.name = "weft/shape_" + std::to_string(nodes_.size());
  node.inputs = std::move(inputs);
  node.outputs = {node.name};
  std::string output = node.name;
  nodes_.push_back(std::move(node));
  return output;
}

std::string ShapeBuilder::Constant(int64_t value) {
  std::string name = "weft/constant_" + std::to_string(value);
  initializers_.emplace(name, Tensor::FromInt64s({1}, {value}));
  return name;
}

std::string ShapeBuilder::AxisOf(const std::string& value, int64_t axis) {
  auto it = shapes_.find(value);
  if (it == shapes_.end()) it = shapes_.emplace(value, Add("Shape", {value})).first;
  std::string output = Add("Gather", {it->second, Constant(axis)});
  nodes_.back().attributes.push_back(Attribute::Of("axis", 0));
  return output;
}

Result<std::string> ShapeBuilder::TermVector(const DimTerm& term) {
  switch (term.kind) {
    case Kind::kBatch:
      return AxisOf(sources_.stream, 0);
    case Kind::kSequence:
      return AxisOf(sources_.stream, 1);
    case Kind::kHidden:
      if (!sources_.stream_has_hidden) break;
      return AxisOf(sources_.stream, 2);
    case Kind::kPast:
      if (!sources_.state.empty()) return AxisOf(sources_.state, term.axis);
      // Without a cache of its own the part knows the past as what the mask covers before this
      // call.
      if (term.axis == 2 && !sources_.attention_mask.empty()) {
        const std::string total = AxisOf(sources_.attention_mask, 1);
        ASSIGN_OR_RETURN(std::string sequence, Vector(DimExpr(DimTerm{Kind::kSequence, 0, {}})));
        return Add("Sub", {total, std::move(sequence)});
      }
      break;
    case Kind::kInputAxis:
      return AxisOf(term.input, term.axis);
    case Kind::kOpaque:
      return Error(ErrorCode::kUnsupported,
                   "Axis " + std::to_string(term.axis) + " of " + Quoted(term.input) +
                       ", a value of another part, is not known from lengths alone.");
  }
  return Error(ErrorCode::kUnsupported,
               "A part without caches of its own needs a dimension that only a cache has.");
}

Result<std::string> ShapeBuilder::Sum(const DimExpr& dim) {
  std::string sum;
  for (const auto& [term, coefficient] : dim.terms()) {
    std::string addend;
    if (coefficient == 1 && dim == DimExpr(term)) {
      return TermVector(term);
    }
    ASSIGN_OR_RETURN(addend, Vector(DimExpr(term)));
    if (coefficient != 1) addend = Add("Mul", {std::move(addend), Constant(coefficient)});
    sum = sum.empty() ? addend : Add("Add", {std::move(sum), std::move(addend)});
  }
  if (dim.constant() != 0) sum = Add("Add", {std::move(sum), Constant(dim.constant())});
  return sum;
}

Result<std::string> ShapeBuilder::Vector(const DimExpr& dim) {
  if (dim.is_constant()) return Constant(dim.constant());
  if (const auto it = made_.find(dim); it != made_.end()) return it->second;
  ASSIGN_OR_RETURN(std::string name, Sum(dim));
  made_.emplace(dim, name);
  return name;
}

Status ShapeBuilder::Build(const DimExprs& dims, const std::string& output) {
  std::vector<std::string> parts;
  for (const DimExpr& dim : dims) {
    ASSIGN_OR_RETURN(std::string name, Vector(dim));
    parts.push_back(std::move(name));
  }
  if (parts.empty()) {  // a scalar's shape
    initializers_.emplace("weft/no_dims", Tensor::FromInt64s({0}, {}));
    parts.emplace_back("weft/no_dims");
  }
  Add("Concat", std::move(parts));
  nodes_.back().attributes.push_back(Attribute::Of("axis", 0));
  nodes_.back().outputs = {output};
  return OkStatus();
}

}  // namespace weft::onnx
