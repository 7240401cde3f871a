#include "program/weight_parts.h"

#include <algorithm>
#include <utility>

#include "program/op_views.h"
#include "tensor/dtype.h"

namespace weft::program {
namespace {

constexpr std::vector<Part> Weight::*kArrays[] = {&Weight::data, &Weight::scale, &Weight::zero};

void Append(std::vector<Part>& parts, const std::vector<Part>& more) {
  parts.insert(parts.end(), more.begin(), more.end());
}

// Of a matrix, or of a stack of them.
uint64_t RowCount(const Weight& weight) {
  uint64_t rows = 1;
  for (size_t i = 0; i + 1 < weight.shape.size(); ++i) rows *= weight.shape[i];
  return rows;
}

}  // namespace

uint64_t ByteCount(const std::vector<Part>& parts) {
  uint64_t byte_count = 0;
  for (const Part& part : parts) byte_count += part.byte_count;
  return byte_count;
}

std::vector<Part> CutParts(const std::vector<Part>& parts, uint64_t begin, uint64_t byte_count) {
  std::vector<Part> cut;
  uint64_t at = 0;  // where the part begins
  for (const Part& part : parts) {
    const uint64_t first = std::max(begin, at);
    const uint64_t end = std::min(begin + byte_count, at + part.byte_count);
    if (first < end) cut.push_back({part.digest, part.offset + first - at, end - first});
    at += part.byte_count;
  }
  return cut;
}

void AppendRows(const Weight& matrix, uint64_t first, uint64_t count, Weight& out) {
  for (const auto array : kArrays) {
    const uint64_t row_bytes = ByteCount(matrix.*array) / matrix.shape[0];
    Append(out.*array, CutParts(matrix.*array, first * row_bytes, count * row_bytes));
  }
}

void AppendColumns(const Weight& matrix, uint64_t first, uint64_t count, Weight& out) {
  const uint64_t rows = RowCount(matrix), columns = matrix.shape.back();
  for (const auto array : kArrays) {
    const uint64_t row_bytes = ByteCount(matrix.*array) / rows;
    for (uint64_t row = 0; row < rows && row_bytes > 0; ++row)
      Append(out.*array, CutParts(matrix.*array, row * row_bytes + first * row_bytes / columns,
                                  count * row_bytes / columns));
  }
}

bool ColumnsDivide(const Weight& weight, uint64_t columns) {
  const auto step = static_cast<uint64_t>(CutColumns(weight.dtype));
  if (weight.shape.back() % step != 0 || columns % step != 0) return false;
  return std::ranges::all_of(kArrays, [&](const auto array) {
    const uint64_t row_bytes = ByteCount(weight.*array) / RowCount(weight);
    return row_bytes * columns % weight.shape.back() == 0;
  });
}

void DropUnusedWeights(Program& program) {
  std::vector<bool> used(program.weights.size(), false);
  for (const Op& op : program.ops) VisitWeights(op, [&](WeightId id) { used[id] = true; });
  std::vector<WeightId> new_id(program.weights.size());
  std::vector<Weight> kept;
  for (WeightId id = 0; id < used.size(); ++id) {
    if (!used[id]) continue;
    new_id[id] = static_cast<WeightId>(kept.size());
    kept.push_back(std::move(program.weights[id]));
  }
  program.weights = std::move(kept);
  for (Op& op : program.ops) VisitWeights(op, [&](WeightId& id) { id = new_id[id]; });
}

}  // namespace weft::program
