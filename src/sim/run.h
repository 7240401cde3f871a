// Runs many seeds and reports: the body of `weft sim` and of the tests.
#pragma once

#include <cstdint>

namespace weft::sim {

// Simulates seeds first_seed ... first_seed + count - 1, prints one line for each when verbose, and
// for a failing seed its violations and the last lines of its log. Returns how many failed.
int RunSimulation(uint64_t first_seed, uint64_t count, bool verbose);

}  // namespace weft::sim
