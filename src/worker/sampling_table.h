// The orchestrator's Sampling messages tell the last stage how each session samples: parameters at
// the start of a generation, and for penalties the tokens so far. A step that asks for candidates
// or a draw is answered only with what was told for exactly its generation and position.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>

#include "base/result.h"
#include "engine/engine.h"
#include "wire/control.pb.h"

namespace weft::worker {

class SamplingTable {
 public:
  // Errors: numbers out of range, a continuation of what was never begun, too many sessions. The
  // orchestrator cannot be trusted any more.
  Status OnMessage(const wire::pb::Sampling& message, uint32_t vocabulary);

  struct Found {
    const engine::Sampling* sampling = nullptr;  // until a call for its session that is not const
    double uniform = 0;                          // of a draw of the token at `position`
  };
  // For choosing the token at `position`, which is also the number of tokens before it.
  // kInvalidArgument: nothing was told for this generation, or not all of the tokens.
  Result<Found> Find(uint32_t session, uint32_t generation, uint64_t position) const;

  void Release(uint32_t session) { entries_.erase(session); }
  void Clear() { entries_.clear(); }

 private:
  struct Entry {
    uint32_t generation = 0;
    uint64_t token_count = 0;
    engine::Sampling sampling;
    std::unordered_map<uint32_t, size_t> places;  // of tokens in sampling.counts
  };
  std::map<uint32_t, Entry> entries_;  // by session
};

}  // namespace weft::worker
