// Multi-head latent attention in weft's own operators (convert/graph/latent_nodes.h). The small
// matrix of each head is a product of its own over views of the heads' columns, for which engines
// need nothing new.
#include "lower/patterns/block_forms.h"
#include "lower/patterns/rules.h"
#include "lower/refuse.h"

namespace weft::lower {
namespace {

using onnx::ElementType;
using onnx::Node;
using onnx::Tensor;

Error NotTheMatrix(const Node& node, std::string_view name, uint64_t rows, uint64_t columns) {
  return Refuse(node, "reads '" + std::string(name) + "', which is no matrix of [" +
                          std::to_string(rows) + ", " + std::to_string(columns) +
                          "], plain or in blocks of 32 with f16 scales");
}

// The matrix in `slot`, whose scales are in the next one.
Result<WeightId> MatrixAt(LoweringContext& context, const Node& node, size_t slot, uint64_t rows,
                          uint64_t columns) {
  const std::string name(node.Input(slot));
  const Tensor* data = context.graph().FindInitializer(name);
  if (data == nullptr) return NotTheMatrix(node, name, rows, columns);
  const auto row_count = static_cast<int64_t>(rows), column_count = static_cast<int64_t>(columns);
  ASSIGN_OR_RETURN(const Part data_part, PartOf(node, name, *data));
  if (!node.HasInput(slot + 1)) {
    const auto dtype = onnx::ToDType(data->type);
    if (!dtype || !onnx::IsFloatType(data->type) ||
        data->dims != std::vector<int64_t>{row_count, column_count}) {
      return NotTheMatrix(node, name, rows, columns);
    }
    return context.AddWeight({name, *dtype, {rows, columns}, {data_part}, {}, {}});
  }
  const std::string scale_name = context.ThroughCasts(node.Input(slot + 1));
  const Tensor* scale = context.graph().FindInitializer(scale_name);
  const int64_t blocks = BlockCount(column_count);
  if (scale == nullptr || scale->element_count() % row_count != 0)
    return NotTheMatrix(node, name, rows, columns);
  const int64_t scale_count = scale->element_count() / row_count;
  for (const DType dtype : {DType::kQ8, FormOf(4, scale->type, scale_count, column_count)}) {
    const std::vector<int64_t> dims = {row_count, blocks, BlockDataBytes(dtype)};
    if (data->type != ElementType::kUint8 || data->dims != dims ||
        !AreScales(scale->type, scale_count, dtype, column_count)) {
      continue;
    }
    ASSIGN_OR_RETURN(const Part scale_part, PartOf(node, scale_name, *scale));
    return context.AddWeight({name, dtype, {rows, columns}, {data_part}, {scale_part}, {}});
  }
  return NotTheMatrix(node, name, rows, columns);
}

// For every head its rows of `weight` times `columns` columns of `in`, which lie `in_stride` from
// head to head; the results lie in `out` from `first` on, `out_stride` from head to head.
struct HeadProducts {
  WeightId weight = 0;
  uint32_t heads = 0;
  uint32_t rows = 0;  // of a head
  View in;            // of the first head
  uint32_t in_stride = 0;
  View out;  // of the first head
  uint32_t out_stride = 0;
};

void Emit(LoweringContext& context, const HeadProducts& products) {
  for (uint32_t head = 0; head < products.heads; ++head) {
    MatMul op{.in = products.in,
              .out = products.out,
              .weight = {products.weight, head * products.rows, products.rows},
              .bias = {}};
    op.in.first_column += head * products.in_stride;
    op.out.first_column += head * products.out_stride;
    context.Emit(op);
  }
}

}  // namespace

Result<View> LowerLatentQuery(LoweringContext& context, const Node& node) {
  const uint32_t heads = CountAttribute(node, "heads"), rope = CountAttribute(node, "rope"),
                 rank = CountAttribute(node, "rank");
  ASSIGN_OR_RETURN(const View source, context.Lower(std::string(node.Input(1))));
  ASSIGN_OR_RETURN(const View plain, context.Lower(std::string(node.Input(0))));
  if (heads == 0 || rope == 0 || rank == 0 || plain.columns % heads != 0) {
    return Refuse(node, "has " + std::to_string(heads) + " heads over " +
                            std::to_string(plain.columns) + " columns");
  }
  const uint32_t nope = plain.columns / heads, width = rope + rank;
  ASSIGN_OR_RETURN(const WeightId turned,
                   MatrixAt(context, node, 2, uint64_t{heads} * rope, source.columns));
  ASSIGN_OR_RETURN(const WeightId absorbed,
                   MatrixAt(context, node, 4, uint64_t{heads} * rank, nope));
  const View out = context.NewBuffer(node.Output(0), uint64_t{heads} * width);
  Emit(context, {turned, heads, rope, source, 0, {out.buffer, 0, rope}, width});
  Emit(context, {absorbed,
                 heads,
                 rank,
                 {plain.buffer, plain.first_column, nope},
                 nope,
                 {out.buffer, rope, rank},
                 width});
  return out;
}

Result<View> LowerLatentKey(LoweringContext& context, const Node& node) {
  if (!context.IsReadOnce(node.Input(0))) return Refuse(node, "norms columns that others read");
  ASSIGN_OR_RETURN(const View key, context.Lower(std::string(node.Input(0))));
  ASSIGN_OR_RETURN(const WeightId weight, context.Vector(node, node.Input(1)));
  const uint64_t rank = context.program().weights[weight].shape[0];
  if (rank >= key.columns) return Refuse(node, "norms more columns than a key has");
  View latent = key;
  latent.columns = static_cast<uint32_t>(rank);
  latent.first_column += key.columns - latent.columns;
  context.Emit(RmsNorm{latent, latent, weight, node.Float("epsilon", 0)});
  return key;
}

Result<View> LowerLatentAttention(LoweringContext& context, const Node& node) {
  if (context.graph().FindInput(node.Input(2)) == nullptr ||
      context.graph().FindOutput(node.Output(1)) == nullptr ||
      !context.index().Consumers(node.Output(1)).empty()) {
    return Refuse(node, "has a cache that is not just an input and an output of the layer");
  }
  Attention op;
  ASSIGN_OR_RETURN(op.q, context.Lower(std::string(node.Input(0))));
  ASSIGN_OR_RETURN(op.k, context.Lower(std::string(node.Input(1))));
  op.v = op.k;
  op.heads = CountAttribute(node, "heads");
  op.kv_heads = 1;
  op.head_columns = op.k.columns;
  op.value_columns = CountAttribute(node, "value_columns");
  op.scale = node.Float("scale", 0);
  op.out = context.NewBuffer(node.Output(0), uint64_t{op.heads} * op.value_columns);
  context.Emit(op);
  return op.out;
}

Result<View> LowerHeadMatMul(LoweringContext& context, const Node& node) {
  const uint32_t heads = CountAttribute(node, "heads");
  ASSIGN_OR_RETURN(const View in, context.Lower(std::string(node.Input(0))));
  const Tensor* data = context.graph().FindInitializer(node.Input(1));
  const int64_t rows = data == nullptr || data->dims.empty() ? 0 : data->dims[0];
  if (heads == 0 || in.columns % heads != 0 || rows <= 0 || rows % heads != 0) {
    return Refuse(node, "has " + std::to_string(heads) + " heads over " +
                            std::to_string(in.columns) + " columns and " + std::to_string(rows) +
                            " rows");
  }
  const uint32_t columns = in.columns / heads;
  ASSIGN_OR_RETURN(const WeightId weight,
                   MatrixAt(context, node, 1, static_cast<uint64_t>(rows), columns));
  const View out = context.NewBuffer(node.Output(0), static_cast<uint64_t>(rows));
  const auto each = static_cast<uint32_t>(rows) / heads;
  Emit(context, {weight,
                 heads,
                 each,
                 {in.buffer, in.first_column, columns},
                 columns,
                 {out.buffer, 0, each},
                 each});
  return out;
}

}  // namespace weft::lower
