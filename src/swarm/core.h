// Core: the orchestrator as a deterministic, single-threaded state machine: Handle(event, now) ->
// actions. ARCHITECTURE.md tells the life of a request; docs/protocol.md the messages.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "swarm/events.h"
#include "swarm/options.h"
#include "swarm/snapshot.h"

namespace weft::swarm {

class Core {
 public:
  explicit Core(CoreOptions options);
  ~Core();

  // `now` never goes backwards. Actions are to be carried out in order.
  std::vector<Action> Handle(const Event& event, Instant now);

  // When TimerFired is wanted next; nullopt: not before another event.
  std::optional<Instant> next_timer() const;

  // The state of the swarm as people see it (GET /api/swarm).
  Snapshot snapshot(Instant now) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::swarm
