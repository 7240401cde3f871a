// What a worker's answered steps come to since it connected. Differences of two looks are means of
// the time between: 250 steps more, 2,000 rows more and 1,000,000 us more of computing are steps of
// eight rows that take 4 ms each (./dev bench gpu-swarm --trace).
#pragma once

#include <cstdint>

namespace weft::swarm {

struct StepSums {
  uint64_t count = 0, rows = 0;
  uint64_t queue_us = 0, compute_us = 0;  // as the worker tells
  int64_t passed_us = 0;                  // from sending a step to its answer
};

}  // namespace weft::swarm
