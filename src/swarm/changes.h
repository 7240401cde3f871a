// Changes: what has changed since those whom it concerns looked last. Whoever changes something
// notes it here; nobody tells another part what to do about it. After every event the core lets
// each part look (State::Settle), in an order that does not depend on who noted what first.
//
//   who handles an event -- Note({.view = true, .experts = true}) --> Changes
//   Planning: TakeStandbys, TakePlan      Experts: TakeExperts      State: TakeView
#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "base/clock.h"

namespace weft::swarm {

struct Change {
  bool view = false;      // what people and pages see of the swarm
  bool standbys = false;  // who may stand by: others than now may be better
  bool experts = false;   // who may hold experts, or how many, or which ones are asked for
  // Another plan may be better, or there is none: one is wanted then, or before.
  std::optional<Instant> plan_at;
};

class Changes {
 public:
  void Note(const Change& change) {
    since_.view |= change.view;
    since_.standbys |= change.standbys;
    since_.experts |= change.experts;
    if (change.plan_at)
      since_.plan_at = std::min(since_.plan_at.value_or(*change.plan_at), *change.plan_at);
  }

  // Whether it has changed since the last call.
  bool TakeView() { return std::exchange(since_.view, false); }
  bool TakeStandbys() { return std::exchange(since_.standbys, false); }
  bool TakeExperts() { return std::exchange(since_.experts, false); }
  // A search begins: it counts with all that was noted until now.
  void TakePlan() { since_.plan_at.reset(); }

  bool standbys() const { return since_.standbys; }
  std::optional<Instant> plan_at() const { return since_.plan_at; }

 private:
  Change since_;
};

}  // namespace weft::swarm
