// How AttentionSimd cuts its work: units of rows and heads that read the same keys, and chunks of
// positions. Internal to src/kernels. A cut changes no bit (attention_rule-inl.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/attention.h"

namespace weft::kernels {

inline constexpr size_t kChunkPositions = 256;  // counted from position 0

// What a head of a row has of some chunks: m, l and o (attention_rule-inl.h).
class AttentionState {
 public:
  explicit AttentionState(float* at = nullptr) : at_(at) {}
  // Of so many output columns; a multiple of a cache line.
  static constexpr size_t Floats(size_t out_columns) { return 16 + (out_columns + 15) / 16 * 16; }

  float* largest() const { return at_; }
  float* sum() const { return at_ + 1; }
  float* values() const { return at_ + 16; }  // whole lanes

 private:
  float* at_;
};

// The states of a unit's rows and heads.
struct StateGrid {
  float* at;
  size_t row_stride, head_stride;

  AttentionState Of(size_t row, size_t head) const {
    return AttentionState(at + row * row_stride + head * head_stride);
  }
};

// Rows [row, row + rows) of one session, and query heads [head, head + heads) of `kv_head`.
struct AttentionUnit {
  size_t row = 0, rows = 1;
  size_t kv_head = 0;
  size_t head = 0, heads = 1;
  bool is_tile = false;  // keys and values are widened once for all of it

  size_t pairs() const { return rows * heads; }
};

// Chunks [first, end) of all that a unit's rows see.
struct ChunkRange {
  size_t first = 0, end = 0;
};
inline ChunkRange ChunksOf(const AttentionArgs& args, size_t row, size_t rows) {
  uint32_t first = args.kv_rows[row].position, last = first;
  for (size_t r = row; r < row + rows; ++r) {
    first = std::min(first, args.kv_rows[r].position);
    last = std::max(last, args.kv_rows[r].position);
  }
  return {args.FirstVisible(first) / kChunkPositions, last / kChunkPositions + 1};
}

// Of a call on so many threads.
std::vector<AttentionUnit> AttentionUnits(const AttentionArgs& args, size_t thread_count);

}  // namespace weft::kernels
