// Products with weights: plain matrices that checkpoints store as [N, K] and graphs read through a
// Transpose, and the block formats of MatMulNBits. A bias added afterwards joins the product.
#include "lower/patterns/block_forms.h"
#include "lower/patterns/rules.h"
#include "lower/refuse.h"

namespace weft::lower {
namespace {

using onnx::ElementType;
using onnx::Node;
using onnx::Tensor;

// Columns [N, K] of a plain matrix read as W^T.
Result<WeightId> TransposedMatrix(LoweringContext& context, const Node& node) {
  const std::string value = context.ThroughCasts(node.Input(1));
  const Node* transpose = context.ProducerIf(value, "Transpose");
  if (transpose == nullptr) {
    return Refuse(node,
                  "multiplies with '" + value + "', which is not the transpose of a weight [N, K]");
  }
  if (transpose->Ints("perm", {1, 0}) != std::vector<int64_t>{1, 0}) {
    return Refuse(*transpose, "has a permutation that is not [1, 0]");
  }
  const std::string name = context.ThroughCasts(transpose->Input(0));
  const Tensor* tensor = context.graph().FindInitializer(name);
  if (tensor == nullptr || tensor->dims.size() != 2 || !onnx::IsFloatType(tensor->type) ||
      !onnx::ToDType(tensor->type)) {
    return Refuse(*transpose, "does not transpose a matrix of weights");
  }
  ASSIGN_OR_RETURN(const Part part, PartOf(node, name, *tensor));
  return context.AddWeight(
      {name,
       *onnx::ToDType(tensor->type),
       {static_cast<uint64_t>(tensor->dims[0]), static_cast<uint64_t>(tensor->dims[1])},
       {part},
       {},
       {}});
}

// The product of `node` (MatMul or MatMulNBits), plus the vector `bias` when it is not empty.
Result<View> EmitProduct(LoweringContext& context, const Node& node, WeightId weight,
                         std::string_view bias) {
  ASSIGN_OR_RETURN(const View in, context.Lower(std::string(node.Input(0))));
  const std::vector<uint64_t> shape = context.program().weights[weight].shape;
  if (shape[1] != in.columns) {
    return Refuse(node, "multiplies " + std::to_string(in.columns) + " columns with a weight of " +
                            std::to_string(shape[1]));
  }
  MatMul op{
      .in = in, .out = {}, .weight = {weight, 0, static_cast<uint32_t>(shape[0])}, .bias = {}};
  if (!bias.empty()) {
    ASSIGN_OR_RETURN(op.bias, context.Vector(node, bias));
  }
  op.out = context.NewBuffer(node.Output(0), shape[0]);
  context.Emit(op);
  return op.out;
}

Result<WeightId> BlockMatrix(LoweringContext& context, const Node& node) {
  const auto refuse = [&](const std::string& why) { return Refuse(node, why); };
  const int64_t bits = node.Int("bits", 4), block_size = node.Int("block_size", 0);
  const int64_t rows = node.Int("N", 0), columns = node.Int("K", 0);
  if ((bits != 4 && bits != 8) || block_size != kBlockValues || rows <= 0 || columns <= 0) {
    return refuse("has " + std::to_string(bits) + " bits in blocks of " +
                  std::to_string(block_size) + "; expected 4 or 8 bits in blocks of " +
                  std::to_string(kBlockValues));
  }
  if (node.HasInput(4)) return refuse("reorders its rows by group indices");
  const std::string name(node.Input(1));
  const Tensor* data = context.graph().FindInitializer(name);
  const std::string scale_name = context.ThroughCasts(node.Input(2));
  const Tensor* scale = context.graph().FindInitializer(scale_name);
  const ElementType scale_type = scale ? scale->type : ElementType::kUndefined;
  const bool has_rows = scale != nullptr && scale->element_count() % rows == 0;
  const int64_t scale_count = has_rows ? scale->element_count() / rows : 0;
  const DType dtype = FormOf(bits, scale_type, scale_count, columns);
  const int64_t blocks = BlockCount(columns);
  if (data == nullptr || data->type != ElementType::kUint8 ||
      data->dims != std::vector<int64_t>{rows, blocks, BlockDataBytes(dtype)}) {
    return refuse("has a weight that is not u8 [" + std::to_string(rows) + ", " +
                  std::to_string(blocks) + ", " + std::to_string(BlockDataBytes(dtype)) + "]");
  }
  if (!AreScales(scale_type, scale_count, dtype, columns)) {
    return refuse("has scales that are not f16 [" + std::to_string(rows) + ", " +
                  std::to_string(blocks) + "] nor records of superblocks");
  }
  Weight weight{name, dtype, {static_cast<uint64_t>(rows), static_cast<uint64_t>(columns)},
                {},   {},    {}};
  ASSIGN_OR_RETURN(const Part data_part, PartOf(node, name, *data));
  ASSIGN_OR_RETURN(const Part scale_part, PartOf(node, scale_name, *scale));
  weight.data = {data_part};
  weight.scale = {scale_part};
  if (node.HasInput(3)) {
    const Tensor* zero = context.graph().FindInitializer(node.Input(3));
    if (dtype != DType::kQ4 || zero == nullptr || zero->type != ElementType::kUint8 ||
        zero->element_count() != rows * ((blocks + 1) / 2)) {
      return refuse("has zero points that are not packed u4 of a 4-bit weight");
    }
    ASSIGN_OR_RETURN(const Part zero_part, PartOf(node, node.Input(3), *zero));
    weight.zero = {zero_part};
  }
  return context.AddWeight(std::move(weight));
}

bool IsProduct(const Node& node) {
  return node.Is("MatMul") || node.IsMicrosoft("MatMulNBits");
}

Result<View> LowerProduct(LoweringContext& context, const Node& node, std::string_view bias) {
  if (node.Is("MatMul")) {
    ASSIGN_OR_RETURN(const WeightId weight, TransposedMatrix(context, node));
    return EmitProduct(context, node, weight, bias);
  }
  ASSIGN_OR_RETURN(const WeightId weight, BlockMatrix(context, node));
  if (node.HasInput(5) && !bias.empty()) {
    return Refuse(node, "has a bias of its own and another one added");
  }
  return EmitProduct(context, node, weight, node.HasInput(5) ? node.Input(5) : bias);
}

}  // namespace

Result<View> LowerMatMul(LoweringContext& context, const Node& node) {
  return LowerProduct(context, node, "");
}

Result<View> LowerMatMulNBits(LoweringContext& context, const Node& node) {
  return LowerProduct(context, node, "");
}

Result<View> LowerAdd(LoweringContext& context, const Node& node) {
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const std::string_view bias = node.Input(side);
    if (context.FindConstant(bias) == nullptr) continue;
    const std::string value = context.ThroughCasts(node.Input(1 - side));
    const Node* product = context.Producer(value);
    if (product == nullptr || !IsProduct(*product) || !context.IsReadOnce(value)) {
      return Refuse(node, "adds a constant to what is not a product");
    }
    return LowerProduct(context, *product, bias);
  }
  ASSIGN_OR_RETURN(const View a, context.Lower(std::string(node.Input(0))));
  ASSIGN_OR_RETURN(const View b, context.Lower(std::string(node.Input(1))));
  if (a.columns != b.columns) {
    return Refuse(node, "adds " + std::to_string(a.columns) + " and " + std::to_string(b.columns) +
                            " columns");
  }
  const View out = context.NewBuffer(node.Output(0), a.columns);
  context.Emit(Add{a, b, out});
  return out;
}

}  // namespace weft::lower
