#include "program/weight_parts.h"

#include <algorithm>
#include <utility>

#include "program/op_views.h"

namespace weft::program {

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
