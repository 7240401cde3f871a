// Core: the orchestrator as a deterministic, single-threaded state machine: Handle(event, now) ->
// actions. ARCHITECTURE.md tells the life of a request; docs/protocol.md the messages.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "swarm/events.h"
#include "swarm/options.h"
#include "swarm/snapshot.h"

namespace weft::swarm {

// How much the core holds; bounded by its options whatever happens for however long (tests,
// diagnostics).
struct CoreSizes {
  size_t workers = 0, sessions = 0, waiting_requests = 0, probation_records = 0;
  size_t frames_in_flight = 0, open_pings = 0, session_tokens = 0;
  uint64_t waiting_rows = 0;
  uint64_t history_trims = 0;  // how often the budget took rows from a session's history
};

struct State;  // state.h

class Core {
 public:
  explicit Core(CoreOptions options);
  ~Core();
  Core(Core&&) noexcept;
  Core& operator=(Core&&) noexcept;

  // `now` never goes backwards. Actions are to be carried out in order.
  std::vector<Action> Handle(const Event& event, Instant now);

  // When TimerFired is wanted next; nullopt: not before another event.
  std::optional<Instant> next_timer() const;

  // A full plan serves (SwarmState::kUp).
  bool is_up() const;

  // The state of the swarm as people see it (GET /api/swarm).
  Snapshot snapshot(Instant now) const;

  // nullopt: no such request, or it is over.
  std::optional<RequestProgress> progress(RequestId request) const;

  CoreSizes sizes() const;

  // For CoreOptions::restored of a later core. Another one when the version has risen.
  Placement placement() const;
  uint64_t placement_version() const;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace weft::swarm
