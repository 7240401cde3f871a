// The fused RotaryEmbedding operators of com.microsoft and of operator set 23, as the forms that
// the spelt-out rotation gives.
#include "lower/refuse.h"
#include "lower/trace/rules.h"

namespace weft::lower::trace {
namespace {

using onnx::Node;

std::vector<int64_t> Integers(const ValuePtr& numbers) {
  std::vector<int64_t> out;
  for (const double number : numbers->numbers) out.push_back(ToInteger(number));
  return out;
}

}  // namespace

Result<ValuePtr> Rotate(Tracer& tracer, const Node& node, const ValuePtr& x, int64_t head_columns,
                        const ValuePtr& cos, const ValuePtr& sin,
                        const std::vector<int64_t>& positions, bool interleaved) {
  ASSIGN_OR_RETURN(const ValuePtr settled, tracer.Settle(node, x));
  if (!IsConstant(cos) || !IsConstant(sin) || settled->kind != Kind::kForms || cos->dims.empty() ||
      cos->dims != sin->dims || head_columns <= 0) {
    return Refuse(node, "rotates by tables that depend on the hidden state");
  }
  const int64_t pairs = cos->dims.back(), rows = tracer.rows();
  const auto count = static_cast<int64_t>(settled->forms.size());
  const bool heads = settled->dims.size() == 4;  // [1, heads, rows, head_columns]
  if (2 * pairs > head_columns || (heads && settled->dims[2] != rows) || settled->dims.empty() ||
      settled->dims.back() % head_columns != 0 || count % rows != 0 ||
      static_cast<int64_t>(positions.size()) != rows) {
    return Refuse(node, "rotates heads of " + std::to_string(head_columns) + " columns by " +
                            std::to_string(pairs) + " angles");
  }
  std::vector<std::vector<double>> c, s;
  for (const int64_t position : positions) {
    if (position < 0 || pairs <= 0 || position > CountOf(cos->dims) / pairs) {
      return Refuse(node, "has no angles for position " + std::to_string(position));
    }
    const auto cos_row = tracer.Elements(cos, position * pairs, pairs);
    const auto sin_row = tracer.Elements(sin, position * pairs, pairs);
    if (!cos_row || !sin_row) {
      return Refuse(node, "has no angles for position " + std::to_string(position));
    }
    c.push_back(*cos_row);
    s.push_back(*sin_row);
  }
  Value out = *settled;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t d = i % head_columns, base = i - d;
    const auto row = static_cast<size_t>(heads ? i / head_columns % rows : i / (count / rows));
    if (d >= 2 * pairs) continue;
    const bool low = interleaved ? d % 2 == 0 : d < pairs;
    const auto pair = static_cast<size_t>(interleaved ? d / 2 : d % pairs);
    const int64_t other = interleaved ? d ^ 1 : low ? d + pairs : d - pairs;
    const Form& own = settled->forms[static_cast<size_t>(i)];
    const Form& partner = settled->forms[static_cast<size_t>(base + other)];
    if (own.b.source >= 0 || partner.b.source >= 0) return Refuse(node, "rotates a second time");
    out.forms[static_cast<size_t>(i)] = {own.a, partner.a, own.ca * c[row][pair],
                                         partner.ca * (low ? -s[row][pair] : s[row][pair])};
  }
  return MakeValue(std::move(out));
}

Outputs RunRotaryEmbedding(Tracer& tracer, const Node& node, const Values& in) {
  const bool microsoft = !node.domain.empty();
  // com.microsoft: x, positions, cos, sin. Standard: x, cos, sin, positions.
  const size_t cos_slot = microsoft ? 2 : 1, position_slot = microsoft ? 1 : 3;
  if (in.size() <= cos_slot + 1 || !in[0] || !in[cos_slot] || !in[cos_slot + 1]) {
    return Refuse(node, "lacks an operand");
  }
  if (node.Int("is_packed_batching", 0) != 0 || node.Float("scale", 1) != 1) {
    return Refuse(node, "has packed batches or a scale");
  }
  const ValuePtr& cos = in[cos_slot];
  std::vector<int64_t> positions;
  if (in.size() > position_slot && in[position_slot]) {
    const ValuePtr numbers = tracer.NumbersOf(in[position_slot]);
    if (numbers == nullptr) return Refuse(node, "has positions that depend on the hidden state");
    positions = Integers(numbers);
    if (positions.size() == 1) {
      for (int64_t i = 1; i < tracer.rows(); ++i) positions.push_back(positions[0] + i);
    }
  } else {  // the tables hold one row for each row of x
    for (int64_t i = 0; i < tracer.rows(); ++i) positions.push_back(i);
  }
  int64_t head_columns = in[0]->dims.empty() ? 0 : in[0]->dims.back();
  if (in[0]->dims.size() == 3) {
    const int64_t heads = node.Int("num_heads", 0);
    head_columns = heads > 0            ? in[0]->dims.back() / heads
                   : !cos->dims.empty() ? 2 * cos->dims.back()
                                        : 0;
  }
  const int64_t partial = node.Int("rotary_embedding_dim", 0);
  if (partial != 0 && (cos->dims.empty() || 2 * cos->dims.back() != partial)) {
    return Refuse(node, "has rotary_embedding_dim " + std::to_string(partial) +
                            " and tables of another width");
  }
  ASSIGN_OR_RETURN(ValuePtr out, Rotate(tracer, node, in[0], head_columns, cos, in[cos_slot + 1],
                                        positions, node.Int("interleaved", 0) != 0));
  return Values{std::move(out)};
}

}  // namespace weft::lower::trace
