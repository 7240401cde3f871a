// PlacementBook: what devices hold that are not there, and what a core that starts again is told of
// all of them (Placement). A device that comes back with what it held is used as it is.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "swarm/experts/popularity.h"
#include "swarm/flow/session.h"
#include "swarm/options.h"
#include "swarm/outbox.h"
#include "swarm/placement.h"
#include "swarm/plan/planning.h"
#include "swarm/workers/absences.h"
#include "swarm/workers/checks.h"
#include "swarm/workers/lifecycle.h"
#include "swarm/workers/measuring.h"
#include "swarm/workers/members.h"
#include "swarm/workers/worker.h"

namespace weft::swarm {

// The parts between which the book carries things. All outlive it.
struct BookedParts {
  const CoreOptions& options;
  const Costs& costs;
  const Roster& roster;
  const Members& members;
  const Popularity& popularity;
  SessionTable& sessions;
  Lifecycle& lifecycle;
  Planning& planning;
  Measuring& measuring;
  Checks& checks;
  Outbox& outbox;
};

class PlacementBook {
 public:
  explicit PlacementBook(const BookedParts& parts) : parts_(parts) {}

  // Once, before the first event: what CoreOptions::restored holds is expected to come back.
  // Planning waits for devices that held layers.
  void Restore(Instant now);
  bool is_restored() const { return is_restored_; }

  // What the core after this one needs, and a number that rises with every change of it. What is
  // measured changes with every step and counts once a minute, but for what is measured first:
  // without it a device cannot serve beside others at the next core until it is timed again.
  Placement Take(Instant now) const;
  uint64_t version(Instant now) const;

  // The worker's connection broke: it may come back with what it holds.
  void NoteGone(const Worker& worker, Instant now);
  // Whether the device is one of those that may come back.
  bool Expects(const std::string& device) const { return absences_.Knows(device); }
  // Whether one of them holds the binding.
  bool Holds(BindingId binding) const { return absences_.Holds(binding); }
  // A worker says what it has kept. What still fits is used again, and the rest it is told to drop:
  // bindings that nobody knows, and sessions that ended while it was away.
  void OnConnect(Worker& worker, const wire::pb::Connect& connect, Instant now);
  // Devices of before a restart that held layers and are not back.
  size_t awaited_count() const { return awaited_.size(); }
  // Whether some of them are still waited for, with what they hold.
  bool Awaits(Instant now) const { return !awaited_.empty() && now < awaits_until_; }

  // Forgets those that stayed away for too long; whether there were any.
  bool Expire(Instant now) { return absences_.Expire(now); }
  std::optional<Instant> next_timer() const { return absences_.next_timer(); }

 private:
  void Resume(Worker& worker, const wire::pb::Connect& connect, Instant now);
  std::vector<Binding> MatchHeld(const Worker& worker, const Absence& absence,
                                 const wire::pb::Connect& connect);
  void NoteClaims(const Worker& worker, const wire::pb::Connect& connect,
                  const std::vector<Binding>& held, Instant now);
  void EndSessions(const Worker& worker, const wire::pb::Connect& connect,
                   const std::vector<Binding>& held);
  void DropAllBut(const Worker& worker, const std::vector<Binding>& held);
  void NoteReturn(const std::string& device);

  const BookedParts parts_;
  Absences absences_;
  bool is_restored_ = false;
  std::set<std::string> awaited_;  // devices of before a restart that held layers
  Instant awaits_until_;           // they are waited for until then
};

}  // namespace weft::swarm
