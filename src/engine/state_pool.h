// Memory for the pages of recurrent states. Every step writes a new page a layer and gives the one
// before back, so a session takes two in turn. Without a pool the system would clear each of them
// first: a state of 48 MiB is up to 12,288 page faults a token.
//
// What waits is never more than the next step may take: Keep says how much, and the rest goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/large_memory.h"

namespace weft::engine {

class StatePool {
 public:
  using Counts = std::map<size_t, size_t>;  // how many pages of so many bytes

  // Undefined contents, at a multiple of 64. Throws std::bad_alloc.
  LargeMemory Take(size_t byte_count);
  // Keeps the page if a step may take it. Allocates nothing.
  void GiveBack(LargeMemory page, size_t byte_count);

  // From now on no more pages than these wait.
  void Keep(const Counts& most);

  uint64_t waiting_bytes() const;

 private:
  struct Waiting {
    size_t most = 0;
    std::vector<LargeMemory> pages;  // room for `most`
  };
  std::map<size_t, Waiting> waiting_;  // by bytes
};

}  // namespace weft::engine
