// What a worker has to know of its experts without an engine: what it said that it holds, and which
// dispatches wait to be computed. A state machine of membership (membership.h).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "wire/expert_frame.h"
#include "wire/expert_sets.h"

namespace weft::worker {

// Dispatches of one message, or what is left of them.
struct HubDispatches {
  uint32_t peer = 0;  // the hub
  std::vector<wire::ExpertFrame> dispatches;
};

class ExpertQueue {
 public:
  // What is held from now on. What waits for others is refused when its turn comes.
  void Hold(const std::vector<wire::LayerExperts>& sets);
  // As Hold, but nothing that is not held already.
  void HoldOnly(const std::vector<wire::LayerExperts>& sets);
  bool Holds(uint32_t layer, uint32_t expert) const { return held_.contains({layer, expert}); }

  // Takes the dispatches and cancels of a hub's message. A dispatch takes the place of those that
  // wait for the same hub's same batch under another sequence. Gives the refusals, to be sent: of
  // experts that are not held, and of what is more than two batches of the longest messages.
  std::vector<wire::ExpertFrame> Take(uint32_t peer, std::span<const wire::ExpertFrame> frames);

  // The next message's dispatches; nullopt: nothing waits.
  std::optional<HubDispatches> Next();
  bool empty() const { return waiting_.empty(); }
  // Dispatches that wait.
  uint32_t count() const;
  // Hubs that have sent dispatches.
  const std::set<uint32_t>& hubs() const { return hubs_; }
  void Clear();

 private:
  uint64_t WaitingBytes(uint32_t peer) const;
  void Preempt(uint32_t peer, uint32_t sequence);
  void Cancel(uint32_t peer, const wire::ExpertFrame& cancel);

  std::set<std::pair<uint32_t, uint32_t>> held_;  // layer, expert
  std::set<uint32_t> hubs_;
  std::deque<HubDispatches> waiting_;
};

}  // namespace weft::worker
