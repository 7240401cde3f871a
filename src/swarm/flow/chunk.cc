#include "swarm/flow/chunk.h"

#include <algorithm>

namespace weft::swarm {
namespace {

// Rows of a prompt that take as long as a token, of a device that has computed nothing yet.
constexpr double kAssumedGain = 4;
// A chunk lasts at least as long as so many steps of one row.
constexpr double kStepsOfAChunk = 2;

// What the planner has reserved scratch for, and what the rest of the offer would hold.
uint32_t RowsInMemory(const CoreOptions& options, const Costs& costs, const Worker& worker) {
  const uint64_t used = worker.holding->memory_bytes +
                        costs.MemoryBytes(worker.memory->weight_factor, worker.layers->loaded,
                                          worker.layers->loaded_hubs);
  const uint64_t free_bytes = worker.limit->bytes - std::min(used, worker.limit->bytes);
  const uint64_t more = free_bytes / std::max<uint64_t>(costs.scratch_row_bytes(), 1);
  return options.prefill_chunk_rows +
         static_cast<uint32_t>(std::min<uint64_t>(more, kMostChunkRows));
}

// Of one row; of two where no step of one row was measured yet.
double StepUs(const Costs& costs, const Worker& worker, LayerSpan layers) {
  if (const auto median = worker.times.compute_us.Median()) return *median;
  if (const auto two = worker.times.computed.ExpectedUs(2)) return *two;
  return costs.ComputeUs(worker, layers);
}

}  // namespace

uint32_t ChunkRows(const CoreOptions& options, const Costs& costs, const Worker& worker,
                   LayerSpan layers, double chunks) {
  const uint32_t usual = options.prefill_chunk_rows;
  if (options.prefill_chunk_time.us <= 0) return usual;
  const double step_us = StepUs(costs, worker, layers);
  const double chunk_us = chunks * std::max(static_cast<double>(options.prefill_chunk_time.us),
                                            kStepsOfAChunk * step_us);
  double rows = 0;
  if (const auto measured = worker.times.computed.RowsWithin(chunk_us)) {
    rows = *measured;
  } else {
    rows = std::min<double>(usual, chunk_us * kAssumedGain / step_us);
  }
  const uint32_t most = std::min(kMostChunkRows, RowsInMemory(options, costs, worker));
  return static_cast<uint32_t>(std::clamp<double>(rows, 1, most));
}

}  // namespace weft::swarm
