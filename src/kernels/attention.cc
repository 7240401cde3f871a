#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tensor/half.h"

namespace weft::kernels {
namespace {

double KvValue(float element) {
  return element;
}
double KvValue(uint16_t element) {
  return F16ToF32(element);
}

template <typename Element>
void AppendKv(const AttentionArgs& args) {
  const size_t columns = args.kv.head_columns;
  for (size_t row = 0; row < args.kv_rows.size(); ++row) {
    const uint32_t position = args.kv_rows[row].position;
    auto* page = args.kv_rows[row].Page<Element>(position / kPagePositions);
    for (size_t head = 0; head < args.kv.kv_heads; ++head) {
      StoreKv(args.kv, page, position % kPagePositions, head,
              args.k.Row(row).subspan(head * columns, columns),
              args.kv.values_in_keys() ? std::span<const float>()
                                       : args.v.Row(row).subspan(head * columns, columns));
    }
  }
}

template <typename Element>
void AttendHead(const AttentionArgs& args, size_t row, size_t head) {
  const AttentionRow& kv_row = args.kv_rows[row];
  const uint32_t position = kv_row.position;
  const size_t columns = args.kv.head_columns;
  const size_t kv_head = head / (args.heads / args.kv.kv_heads);
  const auto q = args.q.Row(row).subspan(head * columns, columns);
  const uint32_t first = args.FirstVisible(position);

  std::vector<double> weights;  // [visible positions]: scores, then exponentials
  double largest = args.sinks.empty() ? -INFINITY : args.sinks[head];
  for (uint32_t p = first; p <= position; ++p) {
    const auto* page = kv_row.Page<Element>(p / kPagePositions);
    double score = 0;
    for (size_t d = 0; d < columns; ++d) {
      score += static_cast<double>(q[d]) *
               KvValue(page[args.kv.KeyIndex(kv_head, d, p % kPagePositions)]);
    }
    score *= args.scale;
    if (args.softcap != 0) score = args.softcap * std::tanh(score / args.softcap);
    weights.push_back(score);
    largest = std::max(largest, score);
  }
  double sum = args.sinks.empty() ? 0 : std::exp(args.sinks[head] - largest);
  for (double& weight : weights) {
    weight = std::exp(weight - largest);
    sum += weight;
  }
  const size_t out_columns = args.kv.out_columns();
  const auto out = args.out.Row(row).subspan(head * out_columns, out_columns);
  for (size_t d = 0; d < out_columns; ++d) {
    double value = 0;
    for (uint32_t p = first; p <= position; ++p) {
      const auto* page = kv_row.Page<Element>(p / kPagePositions);
      value +=
          weights[p - first] * KvValue(page[args.kv.ValueIndex(kv_head, p % kPagePositions, d)]);
    }
    out[d] = static_cast<float>(value / sum);
  }
}

}  // namespace

void CheckAttention(const AttentionArgs& args) {
  const KvShape& kv = args.kv;
  CHECK(args.heads > 0 && kv.kv_heads > 0 && args.heads % kv.kv_heads == 0 &&
        args.q.columns == args.heads * kv.head_columns &&
        args.out.columns == args.heads * kv.out_columns() &&
        (!args.appends() || args.k.columns == kv.row_columns()) &&
        (!args.appends() || kv.values_in_keys() || args.v.columns == kv.row_columns()) &&
        kv.value_columns <= kv.head_columns && args.q.rows == args.kv_rows.size() &&
        args.out.rows == args.q.rows);
}

void AttentionReference(const AttentionArgs& args, Workspace&) {
  CheckAttention(args);
  WithKvElement(args.kv.dtype, [&](auto element) {
    using Element = decltype(element);
    if (args.appends()) AppendKv<Element>(args);
    for (size_t row = 0; row < args.q.rows; ++row) {
      for (size_t head = 0; head < args.heads; ++head) AttendHead<Element>(args, row, head);
    }
  });
}

}  // namespace weft::kernels
