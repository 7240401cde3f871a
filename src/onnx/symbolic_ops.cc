#include "onnx/symbolic_ops.h"

#include <algorithm>
#include <limits>

namespace weft::onnx {
namespace {

constexpr size_t kMaxRank = 16;
constexpr size_t kMaxIntegers = 64;

bool IsOneOf(const Node& node, std::initializer_list<std::string_view> ops) {
  return std::find(ops.begin(), ops.end(), std::string_view(node.op_type)) != ops.end();
}

// Output 0 has the shape of input 0.
bool KeepsShape(const Node& node) {
  if (node.domain == "com.microsoft") {
    return IsOneOf(node, {"SkipSimplifiedLayerNormalization", "SkipLayerNormalization", "QuickGelu",
                          "Gelu", "FastGelu", "BiasGelu", "RotaryEmbedding", "MoE", "QMoE"});
  }
  return node.domain.empty() && IsOneOf(node, {"Cast",
                                               "CastLike",
                                               "Identity",
                                               "Dropout",
                                               "Neg",
                                               "Abs",
                                               "Sqrt",
                                               "Exp",
                                               "Log",
                                               "Erf",
                                               "Tanh",
                                               "Sigmoid",
                                               "Relu",
                                               "Gelu",
                                               "Reciprocal",
                                               "Not",
                                               "IsNaN",
                                               "IsInf",
                                               "Softmax",
                                               "Clip",
                                               "Sin",
                                               "Cos",
                                               "Ceil",
                                               "Floor",
                                               "LayerNormalization",
                                               "SimplifiedLayerNormalization",
                                               "RMSNormalization",
                                               "RotaryEmbedding",
                                               "CumSum",
                                               "DequantizeLinear",
                                               "QuantizeLinear",
                                               "DynamicQuantizeLinear",
                                               "ScatterND",
                                               "ScatterElements",
                                               "Trilu"});
}

bool Broadcasts(const Node& node) {
  return node.domain.empty() &&
         IsOneOf(node, {"Add", "Sub", "Mul", "Div", "Pow", "Where", "And", "Or", "Xor", "Equal",
                        "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Max", "Min", "Sum",
                        "Mod", "BitShift"});
}

std::optional<size_t> Axis(int64_t axis, size_t rank) {
  if (axis < 0) axis += static_cast<int64_t>(rank);
  if (axis < 0 || axis >= static_cast<int64_t>(rank)) return std::nullopt;
  return static_cast<size_t>(axis);
}

// Never negative, whatever the lengths are.
bool IsLength(const DimExpr& expr) {
  return expr.constant() >= 0 && std::all_of(expr.terms().begin(), expr.terms().end(),
                                             [](const auto& term) { return term.second > 0; });
}

DimExprs FromConstants(std::span<const int64_t> values) {
  DimExprs exprs;
  for (const int64_t value : values) exprs.emplace_back(value);
  return exprs;
}

// The one dimension that a reshape leaves open: all of `from` over the others in `to`, where equal
// factors cancel.
std::optional<DimExpr> OpenDim(DimExprs from, DimExprs to) {
  for (DimExpr& factor : to) {
    const auto it = std::find(from.begin(), from.end(), factor);
    if (it == from.end()) continue;
    from.erase(it);
    factor = DimExpr(1);
  }
  DimExpr open(1);
  for (const DimExpr& factor : from) {
    if (open.is_constant()) {
      const auto product = factor.Times(open.constant());
      if (!product) return std::nullopt;
      open = *product;
    } else if (factor.is_constant()) {
      const auto product = open.Times(factor.constant());
      if (!product) return std::nullopt;
      open = *product;
    } else {
      return std::nullopt;
    }
  }
  for (const DimExpr& factor : to) {
    if (!factor.is_constant()) return std::nullopt;
    const auto quotient = open.DividedBy(factor.constant());
    if (!quotient) return std::nullopt;
    open = *quotient;
  }
  return open;
}

}  // namespace

SymbolicOp::Maybe SymbolicOp::Dims(size_t i) const {
  if (!node_.HasInput(i)) return std::nullopt;
  if (const Tensor* tensor = graph_.FindInitializer(node_.Input(i))) {
    return FromConstants(tensor->dims);
  }
  const auto it = dims_.find(node_.Input(i));
  if (it == dims_.end()) return std::nullopt;
  return it->second;
}

SymbolicOp::Maybe SymbolicOp::Integers(size_t i) const {
  if (!node_.HasInput(i)) return std::nullopt;
  if (const Tensor* tensor = graph_.FindInitializer(node_.Input(i))) {
    if (tensor->dims.size() > 1 || tensor->byte_count > kMaxIntegers * 8) return std::nullopt;
    const auto values = tensor->AsInt64s();
    if (!values) return std::nullopt;
    return FromConstants(*values);
  }
  const auto it = integers_.find(node_.Input(i));
  if (it == integers_.end()) return std::nullopt;
  return it->second;
}

std::optional<std::vector<int64_t>> SymbolicOp::Constants(size_t i) const {
  const Maybe exprs = Integers(i);
  if (!exprs) return std::nullopt;
  std::vector<int64_t> values;
  for (const DimExpr& expr : *exprs) {
    if (!expr.is_constant()) return std::nullopt;
    values.push_back(expr.constant());
  }
  return values;
}

std::optional<std::vector<int64_t>> SymbolicOp::Axes(size_t input) const {
  if (node_.HasInput(input)) return Constants(input);
  if (node_.Find("axes") == nullptr) return std::nullopt;
  return node_.Ints("axes");
}

DimExpr SymbolicOp::Opaque(size_t axis) const {
  return DimExpr(
      DimTerm{DimTerm::Kind::kOpaque, static_cast<int64_t>(axis), std::string(node_.Output(0))});
}

// Equal dimensions, or 1 against anything, broadcast without knowing more.
SymbolicOp::Maybe SymbolicOp::BroadcastTwo(DimExprs a, DimExprs b) const {
  if (b.size() > a.size()) std::swap(a, b);
  for (size_t i = 0; i < b.size(); ++i) {
    const size_t axis = a.size() - 1 - i;
    const DimExpr& y = b[b.size() - 1 - i];
    if (a[axis] == y || y.Is(1)) continue;
    if (a[axis].Is(1)) {
      a[axis] = y;
    } else if (!a[axis].is_constant() && y.is_constant()) {
      a[axis] = y;  // the other one is equal, or 1
    } else if (!y.is_constant()) {
      if (!a[axis].is_constant()) a[axis] = Opaque(axis);
    } else {
      return std::nullopt;
    }
  }
  return a;
}

SymbolicOp::Maybe SymbolicOp::OutputDims(size_t output) const {
  if (Maybe dims = Quantized()) return output == 0 ? dims : std::nullopt;
  if (node_.Is("DynamicQuantizeLinear") && output > 0) return DimExprs();  // scale and zero point
  if (KeepsShape(node_)) return output == 0 ? Dims(0) : std::nullopt;
  if (!node_.domain.empty()) return std::nullopt;
  if (node_.Is("Split")) return Split(output);
  if (output != 0) return std::nullopt;
  if (Broadcasts(node_)) return Broadcast();
  if (node_.Is("Concat")) return Concat();
  if (node_.Is("Reshape")) return Reshape();
  if (node_.Is("Expand")) return Expand();
  if (node_.Is("Unsqueeze")) return Unsqueeze();
  if (node_.Is("Squeeze")) return Squeeze();
  if (node_.Is("Slice")) return Slice();
  if (node_.Is("Transpose")) return Transpose();
  if (node_.Is("Gather")) return Gather();
  if (node_.Is("MatMul") || node_.Is("MatMulInteger")) return MatMul();
  if (node_.Is("Flatten")) return Flatten();
  if (node_.Is("Range")) return Range();
  if (node_.Is("ConstantOfShape")) return Integers(0);
  if (node_.op_type.starts_with("Reduce")) return Reduce();
  if (node_.Is("Shape")) {
    const Maybe values = IntegerValues();
    if (!values) return std::nullopt;
    return DimExprs{DimExpr(static_cast<int64_t>(values->size()))};
  }
  return std::nullopt;
}

SymbolicOp::Maybe SymbolicOp::Broadcast() const {
  Maybe result;
  for (size_t i = 0; i < node_.inputs.size(); ++i) {
    Maybe next = Dims(i);
    if (!next) return std::nullopt;
    result = result ? BroadcastTwo(*std::move(result), *std::move(next)) : next;
    if (!result) return std::nullopt;
  }
  return result;
}

SymbolicOp::Maybe SymbolicOp::Concat() const {
  Maybe result = Dims(0);
  if (!result) return std::nullopt;
  const auto axis = Axis(node_.Int("axis", 0), result->size());
  if (!axis) return std::nullopt;
  for (size_t i = 1; i < node_.inputs.size(); ++i) {
    const Maybe next = Dims(i);
    if (!next || next->size() != result->size()) return std::nullopt;
    const auto sum = (*result)[*axis].Plus((*next)[*axis]);
    if (!sum) return std::nullopt;
    (*result)[*axis] = *sum;
  }
  return result;
}

SymbolicOp::Maybe SymbolicOp::Reshape() const {
  const Maybe from = Dims(0);
  Maybe to = Integers(1);
  if (!to || to->size() > kMaxRank) return std::nullopt;
  std::optional<size_t> open;
  for (size_t i = 0; i < to->size(); ++i) {
    DimExpr& dim = (*to)[i];
    if (dim.Is(0) && node_.Int("allowzero", 0) == 0) {
      if (from && i >= from->size()) return std::nullopt;
      dim = from ? (*from)[i] : Opaque(i);
    } else if (dim.Is(-1)) {
      if (open) return std::nullopt;
      open = i;
    }
  }
  if (!open) return to;
  DimExprs others = *to;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(*open));
  const auto dim = from ? OpenDim(*from, std::move(others)) : std::nullopt;
  (*to)[*open] = dim ? *dim : Opaque(*open);
  return to;
}

SymbolicOp::Maybe SymbolicOp::Expand() const {
  Maybe from = Dims(0);
  Maybe to = Integers(1);
  if (!from || !to || to->size() > kMaxRank) return std::nullopt;
  return BroadcastTwo(*std::move(from), *std::move(to));
}

SymbolicOp::Maybe SymbolicOp::Unsqueeze() const {
  const Maybe from = Dims(0);
  const auto axes = Axes(1);
  if (!from || !axes || from->size() + axes->size() > kMaxRank) return std::nullopt;
  std::vector<std::optional<DimExpr>> dims(from->size() + axes->size());
  for (const int64_t number : *axes) {
    const auto axis = Axis(number, dims.size());
    if (!axis || dims[*axis]) return std::nullopt;
    dims[*axis] = DimExpr(1);
  }
  DimExprs result;
  size_t next = 0;
  for (const auto& dim : dims) result.push_back(dim ? *dim : (*from)[next++]);
  return result;
}

SymbolicOp::Maybe SymbolicOp::Squeeze() const {
  const Maybe from = Dims(0);
  const auto axes = Axes(1);
  if (!from || !axes) return std::nullopt;
  std::vector<bool> drop(from->size(), false);
  for (const int64_t number : *axes) {
    const auto axis = Axis(number, from->size());
    if (!axis) return std::nullopt;
    drop[*axis] = true;
  }
  DimExprs result;
  for (size_t i = 0; i < from->size(); ++i) {
    if (!drop[i]) result.push_back((*from)[i]);
  }
  return result;
}

// Whole axes, and constant pieces of constant axes.
SymbolicOp::Maybe SymbolicOp::Slice() const {
  Maybe dims = Dims(0);
  const Maybe starts = Integers(1);
  const Maybe ends = Integers(2);
  const auto axes = Constants(3);
  if (!dims || !starts || !ends || !axes || axes->size() != starts->size() ||
      axes->size() != ends->size()) {
    return std::nullopt;
  }
  if (node_.HasInput(4)) {
    const auto steps = Constants(4);
    if (!steps || std::any_of(steps->begin(), steps->end(), [](int64_t s) { return s != 1; })) {
      return std::nullopt;
    }
  }
  for (size_t i = 0; i < axes->size(); ++i) {
    const auto axis = Axis((*axes)[i], dims->size());
    if (!axis) return std::nullopt;
    DimExpr& dim = (*dims)[*axis];
    const DimExpr& start = (*starts)[i];
    const DimExpr& end = (*ends)[i];
    const bool to_the_end = end == dim || (end.is_constant() && end.constant() >= INT32_MAX);
    if (start.Is(0) && to_the_end) continue;
    if (!dim.is_constant() || !start.is_constant() || !end.is_constant()) {
      dim = Opaque(*axis);
      continue;
    }
    const auto clamp = [&](int64_t at) {
      return std::clamp<int64_t>(at < 0 ? at + dim.constant() : at, 0, dim.constant());
    };
    dim = DimExpr(std::max<int64_t>(0, clamp(end.constant()) - clamp(start.constant())));
  }
  return dims;
}

SymbolicOp::Maybe SymbolicOp::Split(size_t output) const {
  Maybe dims = Dims(0);
  if (!dims) return std::nullopt;
  const auto axis = Axis(node_.Int("axis", 0), dims->size());
  if (!axis) return std::nullopt;
  std::vector<int64_t> sizes = node_.Ints("split");
  if (node_.HasInput(1)) {
    const auto given = Constants(1);
    if (!given) return std::nullopt;
    sizes = *given;
  }
  if (sizes.empty()) {
    const auto share = (*dims)[*axis].DividedBy(static_cast<int64_t>(node_.outputs.size()));
    if (!share) return std::nullopt;
    (*dims)[*axis] = *share;
    return dims;
  }
  if (output >= sizes.size()) return std::nullopt;
  (*dims)[*axis] = DimExpr(sizes[output]);
  return dims;
}

SymbolicOp::Maybe SymbolicOp::Transpose() const {
  const Maybe from = Dims(0);
  if (!from) return std::nullopt;
  const std::vector<int64_t> order = node_.Ints("perm");
  if (order.size() != from->size()) return std::nullopt;
  DimExprs dims;
  for (const int64_t number : order) {
    const auto axis = Axis(number, from->size());
    if (!axis) return std::nullopt;
    dims.push_back((*from)[*axis]);
  }
  return dims;
}

SymbolicOp::Maybe SymbolicOp::Gather() const {
  const Maybe data = Dims(0);
  const Maybe indices = Dims(1);
  if (!data || !indices || data->size() + indices->size() > kMaxRank) return std::nullopt;
  const auto axis = Axis(node_.Int("axis", 0), data->size());
  if (!axis) return std::nullopt;
  const auto at = data->begin() + static_cast<std::ptrdiff_t>(*axis);
  DimExprs dims(data->begin(), at);
  dims.insert(dims.end(), indices->begin(), indices->end());
  dims.insert(dims.end(), at + 1, data->end());
  return dims;
}

SymbolicOp::Maybe SymbolicOp::MatMul() const {
  Maybe a = Dims(0);
  Maybe b = Dims(1);
  if (!a || !b || a->size() < 2 || b->size() < 2) return std::nullopt;
  if (node_.Int("transA", 0) != 0) std::swap(a->back(), (*a)[a->size() - 2]);
  if (node_.Int("transB", 0) != 0) std::swap(b->back(), (*b)[b->size() - 2]);
  Maybe dims = BroadcastTwo(DimExprs(a->begin(), a->end() - 2), DimExprs(b->begin(), b->end() - 2));
  if (!dims) return std::nullopt;
  dims->push_back((*a)[a->size() - 2]);
  dims->push_back(b->back());
  return dims;
}

SymbolicOp::Maybe SymbolicOp::Flatten() const {
  const Maybe from = Dims(0);
  if (!from) return std::nullopt;
  const int64_t rank = static_cast<int64_t>(from->size());
  const int64_t axis = node_.Int("axis", 1) + (node_.Int("axis", 1) < 0 ? rank : 0);
  if (axis < 0 || axis > rank) return std::nullopt;
  DimExprs dims;
  for (const bool before : {true, false}) {
    const auto product = OpenDim(before ? DimExprs(from->begin(), from->begin() + axis)
                                        : DimExprs(from->begin() + axis, from->end()),
                                 {});
    dims.push_back(product ? *product : Opaque(before ? 0 : 1));
  }
  return dims;
}

SymbolicOp::Maybe SymbolicOp::Reduce() const {
  Maybe dims = Dims(0);
  const auto axes = Axes(1);
  if (!dims || !axes) return std::nullopt;
  std::vector<bool> reduced(dims->size(), false);
  for (const int64_t number : *axes) {
    const auto axis = Axis(number, dims->size());
    if (!axis) return std::nullopt;
    reduced[*axis] = true;
  }
  DimExprs result;
  for (size_t i = 0; i < dims->size(); ++i) {
    if (!reduced[i]) result.push_back((*dims)[i]);
    if (reduced[i] && node_.Int("keepdims", 1) != 0) result.emplace_back(1);
  }
  return result;
}

SymbolicOp::Maybe SymbolicOp::Range() const {
  const Maybe start = Integers(0);
  const Maybe limit = Integers(1);
  const Maybe step = Integers(2);
  if (!start || !limit || !step || start->size() != 1 || limit->size() != 1 || step->size() != 1 ||
      !(*step)[0].Is(1)) {
    return std::nullopt;
  }
  const auto count = (*limit)[0].Plus((*start)[0], -1);
  if (!count) return std::nullopt;
  return DimExprs{*count};
}

// Products with quantised weights, whose own shapes are packed, and what else com.microsoft brings.
SymbolicOp::Maybe SymbolicOp::Quantized() const {
  const bool plain_product = node_.IsMicrosoft("FusedMatMul") && node_.Int("transBatchA", 0) == 0 &&
                             node_.Int("transBatchB", 0) == 0;
  if (plain_product) return MatMul();
  if (node_.IsMicrosoft("MatMulNBits")) {
    Maybe dims = Dims(0);
    const int64_t columns = node_.Int("N", -1);
    if (!dims || dims->empty() || columns < 0) return std::nullopt;
    dims->back() = DimExpr(columns);
    return dims;
  }
  if (node_.Is("Gemm") || node_.IsMicrosoft("FusedGemm")) {
    const Maybe a = Dims(0);
    const Maybe b = Dims(1);
    if (!a || !b || a->size() != 2 || b->size() != 2) return std::nullopt;
    return DimExprs{(*a)[node_.Int("transA", 0) != 0 ? 1 : 0],
                    (*b)[node_.Int("transB", 0) != 0 ? 0 : 1]};
  }
  if (node_.IsMicrosoft("GatherBlockQuantized")) {
    const Maybe data = Dims(0);
    Maybe dims = Dims(1);
    if (!data || data->size() != 2 || !dims || !data->back().is_constant()) return std::nullopt;
    const Tensor* table = graph_.FindInitializer(node_.Input(0));
    // Two 4-bit values a byte, unless the element type is a 4-bit one and ONNX counts values.
    const bool packed = table == nullptr || table->type == ElementType::kUint8;
    const int64_t values = packed ? 8 / std::max<int64_t>(1, node_.Int("bits", 4)) : 1;
    const auto columns = data->back().Times(values);
    if (!columns) return std::nullopt;
    dims->push_back(*columns);
    return dims;
  }
  return std::nullopt;
}

SymbolicOp::Maybe SymbolicOp::IntegerValues() const {
  if (!node_.domain.empty()) return std::nullopt;
  if (node_.Is("Shape")) {
    const Maybe dims = Dims(0);
    if (!dims) return std::nullopt;
    const auto rank = static_cast<int64_t>(dims->size());
    const auto clamp = [&](int64_t at) {
      return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
    };
    const int64_t begin = clamp(node_.Int("start", 0));
    const int64_t end = std::max(begin, clamp(node_.Int("end", rank)));
    return DimExprs(dims->begin() + begin, dims->begin() + end);
  }
  if (IsOneOf(node_, {"Cast", "Identity", "Unsqueeze", "Squeeze", "Reshape"})) {
    Maybe values = Integers(0);
    // Still a scalar or a vector: what follows must not mistake a matrix for one.
    const Maybe dims = OutputDims(0);
    if (!values || !dims || dims->size() > 1) return std::nullopt;
    return values;
  }
  if (IsOneOf(node_, {"Add", "Sub", "Mul", "Div"})) return IntegerArithmetic();
  if (IsOneOf(node_, {"Equal", "Where"})) return IntegerChoice();
  if (node_.Is("Gather")) return IntegerGather();
  if (node_.Is("Slice")) return IntegerSlice();
  if (node_.Is("Concat")) {
    DimExprs all;
    for (size_t i = 0; i < node_.inputs.size(); ++i) {
      const Maybe part = Integers(i);
      if (!part || all.size() + part->size() > kMaxIntegers) return std::nullopt;
      all.insert(all.end(), part->begin(), part->end());
    }
    return all;
  }
  if (node_.Is("ConstantOfShape")) {
    const auto shape = Constants(0);
    const Tensor* fill = node_.TensorAttribute("value");
    if (!shape || shape->size() != 1 || fill == nullptr) return std::nullopt;
    const auto value = fill->AsInt64s();
    const int64_t count = (*shape)[0];
    if (!value || value->size() != 1 || count < 0 || count > 64) return std::nullopt;
    return DimExprs(static_cast<size_t>(count), DimExpr((*value)[0]));
  }
  return std::nullopt;
}

SymbolicOp::Maybe SymbolicOp::IntegerArithmetic() const {
  const Maybe a = Integers(0);
  const Maybe b = Integers(1);
  if (!a || !b || (a->size() != b->size() && a->size() != 1 && b->size() != 1)) return std::nullopt;
  if (a->empty() || b->empty()) return std::nullopt;
  DimExprs out;
  for (size_t i = 0; i < std::max(a->size(), b->size()); ++i) {
    const DimExpr& x = (*a)[a->size() == 1 ? 0 : i];
    const DimExpr& y = (*b)[b->size() == 1 ? 0 : i];
    std::optional<DimExpr> value;
    if (node_.Is("Add")) value = x.Plus(y);
    if (node_.Is("Sub")) value = x.Plus(y, -1);
    if (node_.Is("Mul") && y.is_constant()) value = x.Times(y.constant());
    if (node_.Is("Mul") && !value && x.is_constant()) value = y.Times(x.constant());
    if (node_.Is("Div") && y.is_constant()) value = x.DividedBy(y.constant());
    if (!value) return std::nullopt;
    out.push_back(*std::move(value));
  }
  return out;
}

SymbolicOp::Maybe SymbolicOp::IntegerGather() const {
  const Maybe data = Integers(0);
  const auto indices = Constants(1);
  if (!data || !indices || node_.Int("axis", 0) != 0) return std::nullopt;
  DimExprs out;
  for (const int64_t index : *indices) {
    const auto at = Axis(index, data->size());
    if (!at) return std::nullopt;
    out.push_back((*data)[*at]);
  }
  return out;
}

SymbolicOp::Maybe SymbolicOp::IntegerSlice() const {
  const Maybe data = Integers(0);
  const auto start = Constants(1);
  const auto end = Constants(2);
  if (!data || !start || !end || start->size() != 1 || end->size() != 1) return std::nullopt;
  if (node_.HasInput(4)) {
    const auto steps = Constants(4);
    if (!steps || steps->size() != 1 || (*steps)[0] != 1) return std::nullopt;
  }
  const auto count = static_cast<int64_t>(data->size());
  const auto clamp = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + count : at, 0, count);
  };
  const int64_t from = clamp((*start)[0]);
  const int64_t to = std::max(from, clamp((*end)[0]));
  return DimExprs(data->begin() + from, data->begin() + to);
}

// Where(Equal(shape, -1), ones, shape), as exporters write it for expand. A length is never
// negative.
SymbolicOp::Maybe SymbolicOp::IntegerChoice() const {
  const bool is_equal = node_.Is("Equal");
  const Maybe a = Integers(is_equal ? 0 : 1);
  const Maybe b = Integers(is_equal ? 1 : 2);
  if (!a || !b || a->empty() || b->empty()) return std::nullopt;
  const size_t count = std::max(a->size(), b->size());
  if ((a->size() != count && a->size() != 1) || (b->size() != count && b->size() != 1)) {
    return std::nullopt;
  }
  std::optional<std::vector<int64_t>> condition;
  if (!is_equal) {
    condition = Constants(0);
    if (!condition || (condition->size() != count && condition->size() != 1)) return std::nullopt;
  }
  DimExprs out;
  for (size_t i = 0; i < count; ++i) {
    const DimExpr& x = (*a)[a->size() == 1 ? 0 : i];
    const DimExpr& y = (*b)[b->size() == 1 ? 0 : i];
    if (!is_equal) {
      out.push_back((*condition)[condition->size() == 1 ? 0 : i] != 0 ? x : y);
    } else if (x == y || (x.is_constant() && y.is_constant())) {
      out.emplace_back(x == y ? 1 : 0);
    } else if ((y.is_constant() && y.constant() < 0 && IsLength(x)) ||
               (x.is_constant() && x.constant() < 0 && IsLength(y))) {
      out.emplace_back(0);
    } else {
      return std::nullopt;
    }
  }
  return out;
}

}  // namespace weft::onnx
