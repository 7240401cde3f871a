// In how many parts conversations that decode together go round the stages of a plan.
//
// A stage takes hardly longer for eight rows than for one, so many parts waste its time; with fewer
// parts than stages some stage has nothing to do. Sixteen conversations over two stages, each of
// which takes 3.6 ms for two or three rows, 3.8 for five and 4 for eight:
//
//   six parts    2.7 rows each   a round takes six steps of a stage         21.6 ms
//   three        5.3             three steps of a stage                     11.4 ms
//   two          8               both stages, one after the other            8.0 ms
//
// Where a stage takes the next part while one is computed, more parts than stages may pay. Say two
// of 16 rows pass each of two stages in 5.3 ms, and keep it from another part for 2.9: a round
// takes 10.6 ms. With three of 11 rows, which pass in 5.05 ms and keep it for 2.65, it takes 10.1.
//
// Parts are made in front of the first stage and stay together behind it. A part that comes back
// too small, since some of its conversations have ended, waits there for the next one, and both
// are divided anew. Nobody waits there unless another one is on its way, so a wait ends within a
// round.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace weft::swarm {

// What is known of a stage, in us by the rows of a step.
struct StageCosts {
  std::function<double(uint32_t rows)> passed_us;  // sent to answered: what a part waits for
  std::function<double(uint32_t rows)> busy_us;    // what keeps its device from another part
};

// The number of parts with which a round of `rows` rows takes the least time,
//   max( sum of passed_us, parts * the longest busy_us )   of ceil(rows / parts) rows:
// as many as there are stages, unless another number up to `most_parts` is clearly better.
// REQUIRES: rows > 0, stages, most_parts > 0.
uint32_t MicroBatches(uint32_t rows, std::span<const StageCosts> stages, uint32_t most_parts);

}  // namespace weft::swarm
