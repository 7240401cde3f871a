// Attention with vectors (the rule: attention_rule-inl.h). Rows and heads that read the same keys
// share them: from pages as they lie (attention_pages-inl.h), or widened to f32
// (attention_tiles-inl.h). Every row's sums are its own, so its bits depend on its session alone.
#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/attention_plan.h"
#include "kernels/simd_targets.h"
#include "tensor/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/attention_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::kernels {
namespace HWY_NAMESPACE {

void AppendHead(const AttentionArgs& args, size_t row, size_t head) {
  const AttentionRow& kv_row = args.kv_rows[row];
  const size_t columns = args.kv.head_columns;
  const auto k = args.k.Row(row).subspan(head * columns, columns);
  const bool in_keys = args.kv.values_in_keys();
  const auto v =
      in_keys ? std::span<const float>() : args.v.Row(row).subspan(head * columns, columns);
  const size_t slot = kv_row.position % kPagePositions;
  if (args.kv.dtype == DType::kF32) {
    return StoreKv(args.kv, kv_row.Page<float>(kv_row.position / kPagePositions), slot, head, k, v);
  }
  auto* page = kv_row.Page<uint16_t>(kv_row.position / kPagePositions);
#if HWY_TARGET == HWY_SSE4
  StoreKv(args.kv, page, slot, head, k, v);  // no hardware conversion to f16
#else
  const auto narrow = [](const float* from, size_t n, uint16_t* to) HWY_ATTR {
    const hn::Rebind<hwy::float16_t, DF> d16;
    const Lanes x = LoadSome(from, n);
    for (size_t p = 0; p < kParts; ++p) {
      hn::StoreU(hn::DemoteTo(d16, x.part[p]), d16,
                 reinterpret_cast<hwy::float16_t*>(to + p * kWidth));
    }
  };
  alignas(64) uint16_t narrow_values[kLanes];
  ForLanes(columns, [&](size_t d, size_t n) HWY_ATTR {
    narrow(k.data() + d, n, narrow_values);
    if (in_keys) {
      std::memcpy(page + args.kv.KeyIndex(head, d, slot), narrow_values, n * sizeof(uint16_t));
      return;
    }
    for (size_t i = 0; i < n; ++i) page[args.kv.KeyIndex(head, d + i, slot)] = narrow_values[i];
    narrow(v.data() + d, n, narrow_values);
    std::memcpy(page + args.kv.ValueIndex(head, slot, d), narrow_values, n * sizeof(uint16_t));
  });
#endif
}

// Heads of one row, from pages.
template <typename Element>
void AttendRow(const AttentionArgs& args, const AttentionUnit& unit, size_t chunk, float* scores,
               const StateGrid& states) {
  for (size_t i = 0; i < unit.heads;) {
    const HeadGroup group = {unit.row, unit.kv_head, unit.head + i};
    const size_t left = unit.heads - i;
    const size_t count = left >= kMaxHeads ? kMaxHeads : left >= 2 ? 2 : 1;
    AttentionState some[kMaxHeads];
    for (size_t h = 0; h < count; ++h) some[h] = states.Of(0, i + h);
    if (count == kMaxHeads) {
      AttendPages<Element, kMaxHeads>(args, group, chunk, scores, some);
    } else if (count == 2) {
      AttendPages<Element, 2>(args, group, chunk, scores, some);
    } else {
      AttendPages<Element, 1>(args, group, chunk, scores, some);
    }
    i += count;
  }
}

// Rows and heads that share a chunk, widened.
template <typename Element>
void AttendTiles(const AttentionArgs& args, const AttentionUnit& unit, size_t chunk, float* scratch,
                 const StateGrid& states) {
  const size_t columns = args.kv.head_columns, value_columns = args.kv.out_columns();
  const size_t stride = (value_columns + kLanes - 1) / kLanes * kLanes;
  float* keys = scratch + kMostTileOfPairs * kChunkPositions;
  const WideChunk wide = {keys, keys + kChunkPositions * columns, columns, value_columns, stride};
  Visible seen = {kChunkPositions, 0};
  for (size_t r = 0; r < unit.rows; ++r) {
    const Visible one = VisibleOf(args, args.kv_rows[unit.row + r].position, chunk);
    if (one.first >= one.end) continue;
    seen = {std::min(seen.first, one.first), std::max(seen.end, one.end)};
  }
  const AttentionRow& row = args.kv_rows[unit.row];
  WidenChunk(ChunkPages<Element>{args, row, unit.kv_head, chunk, 0}, seen, wide);
  TilePair pairs[kTilePairs];
  size_t count = 0;
  for (size_t r = 0; r < unit.rows; ++r) {
    const Visible visible = VisibleOf(args, args.kv_rows[unit.row + r].position, chunk);
    if (visible.first >= visible.end) continue;
    for (size_t h = 0; h < unit.heads; ++h) {
      const float* q = args.q.Row(unit.row + r).data() + (unit.head + h) * columns;
      pairs[count] = {q, visible, scratch + count * kChunkPositions, states.Of(r, h)};
      if (++count < kTilePairs) continue;
      AttendTile<kTilePairs>(args, wide, pairs);
      count = 0;
    }
  }
  if (count > 0) AttendTileOf<kTilePairs>(count, args, wide, pairs);
}

// States of a unit and one chunk; those of rows that do not see it stay as they are.
void AttendChunk(const AttentionArgs& args, const AttentionUnit& unit, size_t chunk, float* scratch,
                 const StateGrid& states) {
  const bool is_f32 = args.kv.dtype == DType::kF32;
  if (unit.is_tile) {
    if (is_f32) return AttendTiles<float>(args, unit, chunk, scratch, states);
    return AttendTiles<uint16_t>(args, unit, chunk, scratch, states);
  }
  if (is_f32) return AttendRow<float>(args, unit, chunk, scratch, states);
  AttendRow<uint16_t>(args, unit, chunk, scratch, states);
}

void FinishHead(const AttentionArgs& args, size_t row, size_t head, AttentionState state) {
  const size_t columns = args.kv.out_columns();
  FinishState(state, args.sinks.empty() ? nullptr : &args.sinks[head],
              args.out.Row(row).subspan(head * columns, columns));
}

// All chunks of a unit, one after another.
void AttendUnit(const AttentionArgs& args, const AttentionUnit& unit, float* scratch) {
  const size_t columns = args.kv.out_columns();
  const size_t state_floats = AttentionState::Floats(columns);
  const StateGrid states = {scratch, unit.heads * state_floats, state_floats};
  const StateGrid next = {scratch + unit.pairs() * state_floats, states.row_stride, state_floats};
  float* rest = scratch + 2 * unit.pairs() * state_floats;
  const ChunkRange chunks = ChunksOf(args, unit.row, unit.rows);
  for (size_t chunk = chunks.first; chunk < chunks.end; ++chunk) {
    AttendChunk(args, unit, chunk, rest, next);
    for (size_t r = 0; r < unit.rows; ++r) {
      const ChunkRange own = ChunksOf(args, unit.row + r, 1);
      if (chunk < own.first || chunk >= own.end) continue;
      for (size_t h = 0; h < unit.heads; ++h) {
        if (chunk == own.first) {
          std::copy_n(next.Of(r, h).largest(), state_floats, states.Of(r, h).largest());
        } else {
          MergeStates(states.Of(r, h), next.Of(r, h), columns);
        }
      }
    }
  }
  for (size_t r = 0; r < unit.rows; ++r)
    for (size_t h = 0; h < unit.heads; ++h)
      FinishHead(args, unit.row + r, unit.head + h, states.Of(r, h));
}

// The output of a head of a row, whose states of each chunk lie `chunk_stride` floats apart.
void JoinChunks(const AttentionArgs& args, size_t row, size_t head, float* first,
                size_t chunk_stride) {
  const ChunkRange own = ChunksOf(args, row, 1);
  for (size_t i = 1; i < own.end - own.first; ++i)
    MergeStates(AttentionState(first), AttentionState(first + i * chunk_stride),
                args.kv.out_columns());
  FinishHead(args, row, head, AttentionState(first));
}

}  // namespace HWY_NAMESPACE
}  // namespace weft::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::kernels {
namespace {

HWY_EXPORT(AppendHead);
HWY_EXPORT(AttendChunk);
HWY_EXPORT(AttendUnit);
HWY_EXPORT(JoinChunks);

void Append(const AttentionArgs& args, Workspace& workspace) {
  const size_t rows = args.q.rows, kv_heads = args.kv.kv_heads;
  // Threads take whole heads: neighbouring positions of a head share cache lines.
  const auto append = [&](size_t head, size_t) {
    for (size_t row = 0; row < rows; ++row) HWY_DYNAMIC_DISPATCH(AppendHead)(args, row, head);
  };
  if (rows >= 8) return workspace.threads().Run(kv_heads, append);
  for (size_t head = 0; head < kv_heads; ++head) append(head, 0);
}

// Units that are too few for all threads are cut by chunks, which are joined afterwards.
void AttendByChunks(const AttentionArgs& args, const std::vector<AttentionUnit>& units,
                    float* shared, Workspace& workspace) {
  struct Task {
    const AttentionUnit* unit;
    size_t chunk;
  };
  std::vector<Task> tasks;
  ChunkRange all = ChunksOf(args, 0, args.q.rows);
  for (const AttentionUnit& unit : units) {
    const ChunkRange chunks = ChunksOf(args, unit.row, unit.rows);
    for (size_t chunk = chunks.first; chunk < chunks.end; ++chunk) tasks.push_back({&unit, chunk});
    all = {std::min(all.first, chunks.first), std::max(all.end, chunks.end)};
  }
  const size_t state_floats = AttentionState::Floats(args.kv.out_columns());
  const size_t chunk_stride = args.q.rows * args.heads * state_floats;
  const auto state_at = [&](size_t row, size_t head, size_t chunk) {
    return shared + (chunk - all.first) * chunk_stride + (row * args.heads + head) * state_floats;
  };
  workspace.threads().Run(tasks.size(), [&](size_t task, size_t thread) {
    const auto& [unit, chunk] = tasks[task];
    const StateGrid states = {state_at(unit->row, unit->head, chunk), args.heads * state_floats,
                              state_floats};
    HWY_DYNAMIC_DISPATCH(AttendChunk)(args, *unit, chunk, workspace.Private(thread), states);
  });
  workspace.threads().Run(args.q.rows * args.kv.kv_heads, [&](size_t task, size_t) {
    const size_t row = task / args.kv.kv_heads, shared_heads = args.heads / args.kv.kv_heads;
    const size_t first_chunk = ChunksOf(args, row, 1).first;
    for (size_t i = 0; i < shared_heads; ++i) {
      const size_t head = task % args.kv.kv_heads * shared_heads + i;
      HWY_DYNAMIC_DISPATCH(JoinChunks)
      (args, row, head, state_at(row, head, first_chunk), chunk_stride);
    }
  });
}

}  // namespace

void AttentionSimd(const AttentionArgs& args, Workspace& workspace) {
  CheckAttention(args);
  if (args.q.rows == 0) return;
  if (args.appends()) Append(args, workspace);
  const size_t thread_count = workspace.threads().thread_count();
  const std::vector<AttentionUnit> units = AttentionUnits(args, thread_count);
  workspace.ReservePrivate(AttentionThreadFloats(args.kv));
  const ChunkRange chunks = ChunksOf(args, 0, args.q.rows);
  const size_t shared_floats =
      AttentionSharedFloats(args.kv, args.heads, args.q.rows, chunks.end * kChunkPositions);
  if (thread_count > 1 && units.size() < 4 * thread_count && chunks.end - chunks.first > 1 &&
      shared_floats > 0) {
    float* shared = workspace.Shared(Workspace::kAttention, shared_floats);
    return AttendByChunks(args, units, shared, workspace);
  }
  workspace.threads().Run(units.size(), [&](size_t task, size_t thread) {
    HWY_DYNAMIC_DISPATCH(AttendUnit)(args, units[task], workspace.Private(thread));
  });
}

}  // namespace weft::kernels
#endif  // HWY_ONCE
