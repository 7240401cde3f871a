// Rotary embedding over tables that the graph computes for the rows of the step:
//   cos = Cos(Reshape(Cast(position_ids), [-1, 1]) * inv_freq), sin likewise, table row = row of
//   the input.
#include "lower/patterns/rules.h"
#include "lower/refuse.h"

namespace weft::lower {
namespace {

using onnx::Node;

// The name of inv_freq when `value` is `function` (Cos or Sin) of position * inv_freq, maybe times
// a constant.
struct RotaryTable {
  std::string inv_freq;
  float scale = 1;
};
std::optional<RotaryTable> MatchTable(const LoweringContext& context, std::string_view value,
                                      std::string_view function) {
  RotaryTable table;
  const Node* node = context.Producer(context.ThroughCasts(value));
  if (node != nullptr && node->Is("Mul")) {
    const onnx::Tensor* factor = context.FindConstant(node->Input(1));
    const auto values = factor == nullptr ? std::nullopt : factor->AsFloats();
    if (!values || values->size() != 1) return std::nullopt;
    table.scale = values->front();
    node = context.Producer(context.ThroughCasts(node->Input(0)));
  }
  if (node == nullptr || !node->Is(function)) return std::nullopt;
  const Node* angles = context.ProducerIf(node->Input(0), "Mul");
  if (angles == nullptr || context.FindConstant(angles->Input(1)) == nullptr) return std::nullopt;
  const Node* column = context.ProducerIf(angles->Input(0), "Reshape");
  if (column == nullptr) return std::nullopt;
  const onnx::Tensor* target = context.graph().FindInitializer(column->Input(1));
  if (target == nullptr || target->AsInt64s() != std::vector<int64_t>{-1, 1}) return std::nullopt;
  if (context.ThroughCasts(column->Input(0)) != "position_ids") return std::nullopt;
  table.inv_freq = context.ThroughCasts(angles->Input(1));
  return table;
}

// Row r of the input takes row r of the tables: positions count from a constant 0.
bool CountsRows(const LoweringContext& context, std::string_view positions) {
  const onnx::Tensor* first = context.graph().FindInitializer(positions);
  return first != nullptr && first->AsInt64s() == std::vector<int64_t>{0};
}

}  // namespace

Result<View> LowerRotaryEmbedding(LoweringContext& context, const Node& node) {
  const auto cos = MatchTable(context, node.Input(2), "Cos");
  const auto sin = MatchTable(context, node.Input(3), "Sin");
  if (!cos || !sin || cos->inv_freq != sin->inv_freq || cos->scale != sin->scale ||
      !CountsRows(context, node.Input(1))) {
    return Refuse(node,
                  "rotates by tables that are not cos and sin of position_ids times frequencies");
  }
  if (node.Int("is_packed_batching", 0) != 0 || node.Float("scale", 1) != 1) {
    return Refuse(node, "has packed batches or a scale");
  }
  ASSIGN_OR_RETURN(const WeightId inv_freq, context.Vector(node, cos->inv_freq));
  const auto rotary_columns = 2 * context.program().weights[inv_freq].shape[0];
  const std::optional<HeadNorm> norm = MatchHeadNorm(context, node.Input(0));
  const bool fused = norm && context.IsReadOnce(node.Input(0));
  ASSIGN_OR_RETURN(const View in, context.Lower(fused ? norm->input : std::string(node.Input(0))));

  // Without rotary_embedding_dim whole heads turn, and the tables say how wide a head is.
  QkNormRope op{.in = in, .out = {}, .rope = Rope{inv_freq, cos->scale, false}};
  op.rope->interleaved = node.Int("interleaved", 0) != 0;
  const int64_t partial = node.Int("rotary_embedding_dim", 0), heads = node.Int("num_heads", 0);
  const uint64_t head_columns =
      partial == 0 ? rotary_columns
                   : in.columns / std::max<uint64_t>(1, static_cast<uint64_t>(heads));
  const bool fits =
      head_columns > 0 && in.columns % head_columns == 0 &&
      (partial == 0 || (heads > 0 && static_cast<uint64_t>(partial) == rotary_columns)) &&
      (!fused || norm->head_columns == head_columns);
  if (!fits) {
    return Refuse(node, "rotates heads of " + std::to_string(head_columns) +
                            " columns in rows of " + std::to_string(in.columns));
  }
  op.head_columns = static_cast<uint32_t>(head_columns);
  op.heads = static_cast<uint32_t>(in.columns / head_columns);
  if (fused) {
    ASSIGN_OR_RETURN(op.norm_weight, context.Vector(node, norm->weight));
    op.epsilon = norm->epsilon;
  }
  op.out = context.NewBuffer(node.Output(0), in.columns);
  context.Emit(op);
  return op.out;
}

}  // namespace weft::lower
