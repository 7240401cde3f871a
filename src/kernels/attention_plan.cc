#include "kernels/attention_plan.h"

namespace weft::kernels {
namespace {

// Widening a chunk costs as much as about three pairs of a row and a head.
constexpr size_t kLeastTilePairs = 8;
constexpr size_t kLeastSlice = 8;  // heads of a unit, where heads are shared out

size_t MostTileRows(size_t shared_heads) {
  return std::clamp<size_t>(kMostTilePairs / shared_heads, 1, kMostTileRows);
}

// Heads of one kv head in one unit. Where values lie in keys there is one kv head for all, and few
// rows of a short context are little for many threads.
size_t HeadsOfUnit(const AttentionArgs& args, size_t shared_heads, size_t thread_count) {
  const size_t heads = std::min(shared_heads, kMostTilePairs);
  if (!args.kv.values_in_keys() || thread_count == 1) return heads;
  const ChunkRange chunks = ChunksOf(args, 0, args.q.rows);
  const size_t tasks = args.q.rows * args.kv.kv_heads * (chunks.end - chunks.first);
  const size_t slices = (2 * thread_count + tasks - 1) / tasks;
  return std::clamp((shared_heads + slices - 1) / slices, std::min(kLeastSlice, heads), heads);
}

// States of all chunks are kept apart up to so many floats. Beyond, units go through their chunks
// one after another.
constexpr size_t kMostSharedFloats = size_t{1} << 20;

}  // namespace

size_t AttentionThreadFloats(const KvShape& kv) {
  const size_t columns = kv.head_columns + (kv.out_columns() + 15) / 16 * 16;
  return kChunkPositions * (columns + kMostTileOfPairs) +
         2 * kMostTilePairs * AttentionState::Floats(kv.out_columns());
}

size_t AttentionSharedFloats(const KvShape& kv, size_t heads, size_t rows, size_t end_position) {
  const size_t chunks = (end_position + kChunkPositions - 1) / kChunkPositions;
  const size_t floats = rows * heads * chunks * AttentionState::Floats(kv.out_columns());
  return floats <= kMostSharedFloats ? floats : 0;
}

std::vector<AttentionUnit> AttentionUnits(const AttentionArgs& args, size_t thread_count) {
  std::vector<AttentionUnit> units;
  const size_t shared = args.heads / args.kv.kv_heads;
  const size_t slice = HeadsOfUnit(args, shared, thread_count);
  const auto add = [&](size_t row, size_t rows, bool is_tile) {
    for (size_t kv_head = 0; kv_head < args.kv.kv_heads; ++kv_head)
      for (size_t i = 0; i < shared; i += slice)
        units.push_back(
            {row, rows, kv_head, kv_head * shared + i, std::min(slice, shared - i), is_tile});
  };
  for (size_t row = 0; row < args.q.rows;) {
    size_t rows = 1;
    while (row + rows < args.q.rows && rows < MostTileRows(slice) &&
           args.kv_rows[row + rows].pages == args.kv_rows[row].pages)
      ++rows;
    if (args.kv.values_in_keys() || (rows > 1 && rows * shared >= kLeastTilePairs)) {
      add(row, rows, true);
    } else {
      for (size_t i = 0; i < rows; ++i) add(row + i, 1, false);
    }
    row += rows;
  }
  return units;
}

}  // namespace weft::kernels
