// How many rows of a prompt one frame may hold, so that nobody's token waits for long behind them.
#pragma once

#include <cstdint>

#include "swarm/binding.h"
#include "swarm/options.h"
#include "swarm/workers/costs.h"
#include "swarm/workers/worker.h"

namespace weft::swarm {

// Frames of more rows gain nothing.
inline constexpr uint32_t kMostChunkRows = 1024;
// How many chunks a frame of the only stage lasts where nobody decodes.
inline constexpr double kChunksAlone = 2;

// As many rows as the worker computes in CoreOptions::prefill_chunk_time over these layers, by what
// its steps have taken. Where a single row takes longer than half of that, a chunk is twice its
// time: a slow device reads its weights for every frame, and a token waits for its own step as long
// as for the prompt before it. Beyond prefill_chunk_rows only where its offer leaves room for their
// scratch, which plans do not count.
//
// Example: a chunk of 50 ms. A GPU takes 2.2 ms for a token: until more is known, 22 rows. Those
// take 3 ms, 0.14 ms a row: 366 rows. They take 15 ms, 0.04 ms a row: 1,024, which take 30. A phone
// takes 120 ms for a token and 20 ms for each further row: in 240 ms it computes 7.
//
// `chunks`: the rows of so many times that long.
uint32_t ChunkRows(const CoreOptions& options, const Costs& costs, const Worker& worker,
                   LayerSpan layers, double chunks = 1);

}  // namespace weft::swarm
