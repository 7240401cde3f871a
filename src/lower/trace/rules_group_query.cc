// com.microsoft GroupQueryAttention: packed or separate q, k and v, rotated inside or outside.
#include <algorithm>
#include <cmath>

#include "lower/layer_form.h"
#include "lower/refuse.h"
#include "lower/trace/rules.h"

namespace weft::lower::trace {
namespace {

using onnx::Node;

bool AreAll(const ValuePtr& numbers, int64_t expected) {
  return numbers != nullptr && !numbers->numbers.empty() &&
         std::all_of(numbers->numbers.begin(), numbers->numbers.end(),
                     [&](double n) { return n == static_cast<double>(expected); });
}

Status ExpectKnownForm(Tracer& tracer, const Node& node, const Values& in) {
  for (const size_t slot : {size_t{0}, size_t{3}, size_t{4}, size_t{5}, size_t{6}}) {
    if (At(in, slot) == nullptr) return Refuse(node, "lacks input " + std::to_string(slot));
  }
  TRY(ExpectPlainAttention(tracer.graph(), node));
  if (!AreAll(tracer.NumbersOf(in[5]), tracer.total() - 1) ||
      !AreAll(tracer.NumbersOf(in[6]), tracer.total())) {
    return Refuse(node, "takes lengths that are not those of attention_mask");
  }
  return OkStatus();
}

// Columns [first, first + count) of packed rows.
ValuePtr Columns(const Value& packed, int64_t first, int64_t count) {
  Value out{.kind = Kind::kForms, .dims = packed.dims};
  out.dims.back() = count;
  const int64_t width = packed.dims.back();
  for (size_t i = 0; i < packed.forms.size(); ++i) {
    const int64_t column = static_cast<int64_t>(i) % width;
    if (column >= first && column < first + count) out.forms.push_back(packed.forms[i]);
  }
  return MakeValue(std::move(out));
}

// The three of q, k and v as rows.
Result<Values> Operands(Tracer& tracer, const Node& node, const Values& in, int64_t heads,
                        int64_t kv_heads) {
  Values operands;
  for (size_t slot = 0; slot < 3; ++slot) {
    ASSIGN_OR_RETURN(ValuePtr settled, tracer.Settle(node, At(in, slot)));
    operands.push_back(std::move(settled));
  }
  if (heads <= 0 || kv_heads <= 0 || heads > (1 << 16) || heads % kv_heads != 0) {
    return Refuse(node, "has " + std::to_string(heads) + " heads and " + std::to_string(kv_heads) +
                            " of keys");
  }
  if (operands[0]->kind != Kind::kForms || operands[0]->dims.size() != 3) {
    return Refuse(node, "takes queries that are no rows");
  }
  if (operands[1] == nullptr && operands[2] == nullptr) {
    const Value packed = *operands[0];
    const int64_t width = packed.dims.back(), all = heads + 2 * kv_heads;
    if (width % all != 0 || packed.dims[1] != tracer.rows())
      return Refuse(node, "takes packed rows of the wrong width");
    const int64_t columns = width / all;
    operands = {Columns(packed, 0, heads * columns),
                Columns(packed, heads * columns, kv_heads * columns),
                Columns(packed, (heads + kv_heads) * columns, kv_heads * columns)};
  }
  for (size_t i = 0; i < 3; ++i) {
    const int64_t count = i == 0 ? heads : kv_heads;
    const int64_t columns = operands[0]->dims.back() / heads;
    if (operands[i] == nullptr || operands[i]->kind != Kind::kForms || columns == 0 ||
        operands[i]->dims != Dims{1, tracer.rows(), count * columns}) {
      return Refuse(node, "takes q, k and v whose columns do not fit its heads");
    }
  }
  return operands;
}

Status RotateInside(Tracer& tracer, const Node& node, const Values& in, int64_t head_columns,
                    Values& operands) {
  std::vector<int64_t> positions;
  for (int64_t p = tracer.probe().past; p < tracer.total(); ++p) positions.push_back(p);
  if (const ValuePtr given = At(in, 9)) {
    const ValuePtr numbers = tracer.NumbersOf(given);
    if (numbers == nullptr || numbers->numbers.size() != positions.size()) {
      return Refuse(node, "has positions that depend on the hidden state");
    }
    for (size_t i = 0; i < positions.size(); ++i) {
      positions[i] = ToInteger(numbers->numbers[i]);
    }
  }
  for (size_t i = 0; i < 2; ++i) {
    ASSIGN_OR_RETURN(operands[i],
                     Rotate(tracer, node, operands[i], head_columns, At(in, 7), At(in, 8),
                            positions, node.Int("rotary_interleaved", 0) != 0));
  }
  return OkStatus();
}

ValuePtr Present(const Value& past, const std::string& name, int64_t total) {
  Value out{.kind = Kind::kPresent, .dims = past.dims, .cache = name};
  if (out.dims.size() == 4) out.dims[2] = total;
  return MakeValue(std::move(out));
}

}  // namespace

Outputs RunGroupQueryAttention(Tracer& tracer, const Node& node, const Values& in) {
  TRY(ExpectKnownForm(tracer, node, in));
  const int64_t heads = node.Int("num_heads", 0), kv_heads = node.Int("kv_num_heads", 0);
  ASSIGN_OR_RETURN(Values operands, Operands(tracer, node, in, heads, kv_heads));
  const int64_t columns = operands[0]->dims.back() / heads;
  tracer.LearnHeadColumns(columns);
  if (columns != tracer.head_columns()) {
    return Refuse(node, "has heads of " + std::to_string(columns) + " columns; the caches have " +
                            std::to_string(tracer.head_columns()));
  }
  if (node.Int("do_rotary", 0) != 0) {
    if (!IsConstant(At(in, 7)) || !IsConstant(At(in, 8))) {
      return Refuse(node, "rotates by tables that are not constant");
    }
    TRY(RotateInside(tracer, node, in, columns, operands));
  }
  std::vector<Tracer::Placed> placed;
  for (const ValuePtr& operand : operands) {
    ASSIGN_OR_RETURN(Tracer::Placed place, tracer.Heads(node, operand));
    placed.push_back(std::move(place));
  }
  if (placed[2].factor != 1 || placed[1].factor != 1) {
    return Refuse(node, "takes scaled keys or values");
  }
  const std::string k_cache(node.Input(3)), v_cache(node.Input(4));
  tracer.KeepNew(k_cache, placed[1].view);
  tracer.KeepNew(v_cache, placed[2].view);
  const int64_t window = node.Int("local_window_size", -1);
  double scale = static_cast<double>(node.Float("scale", 0));
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(columns));
  Attention op{.q = placed[0].view,
               .k = placed[1].view,
               .v = placed[2].view,
               .out = tracer.NewBuffer(node.Output(0), heads * columns),
               .heads = static_cast<uint32_t>(heads),
               .kv_heads = static_cast<uint32_t>(kv_heads),
               .head_columns = static_cast<uint32_t>(columns),
               .scale = static_cast<float>(scale * placed[0].factor),
               .window = 0,
               .softcap = node.Float("softcap", 0),
               .sinks = {}};
  if (const ValuePtr sinks = At(in, 11)) {
    ASSIGN_OR_RETURN(const auto values, tracer.VectorOf(node, sinks, heads));
    op.sinks = tracer.AddVector(std::string(node.Output(0)) + ".sinks", values);
  }
  AttentionSeen seen{.op = tracer.program().ops.size(), .node = node.Describe()};
  seen.window = window > 0 ? static_cast<uint32_t>(window) : 0;
  tracer.trace().attentions.push_back(std::move(seen));
  tracer.program().ops.push_back(op);
  return Values{tracer.RowsOf(op.out, operands[0]->dims), Present(*in[3], k_cache, tracer.total()),
                Present(*in[4], v_cache, tracer.total())};
}

}  // namespace weft::lower::trace
