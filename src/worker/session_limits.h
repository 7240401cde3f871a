// The rules for sessions that go beyond the engine's: the limits of Init.
#pragma once

#include <cstdint>
#include <set>
#include <span>

#include "base/result.h"
#include "wire/data_frame.h"

namespace weft::worker {

class SessionLimits {
 public:
  // `is_alone`: the engine computes one session at a time.
  explicit SessionLimits(bool is_alone) : is_alone_(is_alone) {}
  // 0: any.
  void Begin(uint32_t context_length, uint32_t session_count) {
    context_length_ = context_length;
    session_count_ = session_count;
  }

  // kInvalidArgument: why a step of these is refused.
  Status TakeRuns(std::span<const wire::Run> runs);
  // The same of a session that would come to hold so many positions.
  Status Take(uint32_t session, uint64_t end_position);

  // That steps have named and that are not over.
  const std::set<uint32_t>& sessions() const { return sessions_; }
  bool Has(uint32_t session) const { return sessions_.contains(session); }
  void Forget(uint32_t session) { sessions_.erase(session); }
  // What is not among these is over.
  void KeepOnly(std::set<uint32_t> sessions) { sessions_ = std::move(sessions); }
  void Clear() { sessions_.clear(); }

 private:
  const bool is_alone_;
  uint32_t context_length_ = 0, session_count_ = 0;
  std::set<uint32_t> sessions_;
};

}  // namespace weft::worker
