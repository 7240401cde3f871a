// Plans beside the active one. Where devices stand by with layers that together are the whole
// model, they answer conversations of their own instead of waiting for a loss:
//
//   active plan    A 0-30
//   stand by       B 0-30, C 0-14, D 14-30, E 0-20
//   side plans     B 0-30;  C 0-14 | D 14-30
//
// A side plan is made of bindings that stand by and are loaded, so nobody is asked to load anything
// for it, and it costs the active plan nothing: where that one needs a binding, it takes it, and
// the side plan is over. Its sessions go on elsewhere (flow/pipelines.h); those that go on at the
// same binding lose nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "swarm/plan/planning.h"
#include "swarm/plan_state.h"
#include "swarm/workers/lifecycle.h"

namespace weft::swarm {

class SidePlans {
 public:
  // Keeps references; all outlive it.
  SidePlans(const Costs& costs, Roster& roster, const Lifecycle& lifecycle,
            const Planning& planning)
      : costs_(costs), roster_(roster), lifecycle_(lifecycle), planning_(planning) {}

  // Ends those that cannot go on and makes those that can be made. Called whenever workers, their
  // bindings or the active plan may have changed.
  void Settle(Instant now);

  const std::vector<SidePlan>& plans() const { return plans_; }
  // Raised whenever plans() changes.
  uint64_t version() const { return version_; }

 private:
  bool Stands(const SwarmPlan& plan, Instant now) const;
  std::optional<SwarmPlan> FindNext(Instant now) const;
  void NoteWorkers();

  const Costs& costs_;
  Roster& roster_;
  const Lifecycle& lifecycle_;
  const Planning& planning_;
  std::vector<SidePlan> plans_;
  PlanId last_id_ = kActivePlan;
  uint64_t version_ = 0;
};

}  // namespace weft::swarm
