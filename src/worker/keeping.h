// What a worker keeps between two connections: for which swarm and package it was loaded, and until
// when it is kept once a connection broke. Init says both; there is nothing to keep before it.
//
// Beside that it knows the highest incarnation of the swarm that it has seen, for as long as it
// lives. Two servers may take themselves for the swarm's leader: one that was cut off, and the one
// after it. The worker has seen 7 of the second one, and comes to the first one by chance:
//
//   Init of swarm A, incarnation 7    IsOutdated: no     it works for that server
//   Init of swarm A, incarnation 5    IsOutdated: yes    it says that it has seen 7, and goes
//   Init of swarm A, incarnation 0    IsOutdated: no     a server from before there were any
//   Init of swarm B, incarnation 2    IsOutdated: no     another swarm; A's numbers are forgotten
//
// The same in TypeScript: web/packages/worker/src/membership/keeping.ts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "wire/control.pb.h"

namespace weft::worker {

class Keeping {
 public:
  // What is loaded from now on is of this swarm and package.
  void Begin(const wire::pb::Init& init);
  void End() { held_for_.reset(); }

  // The connection broke, or another attempt at one: how long to keep what is held, from now on; 0:
  // not any longer.
  Duration Lost(Instant now);
  // Somebody counts on what is held again.
  void Resume() { lost_until_.reset(); }
  // Whether it was kept long enough.
  bool IsOver(Instant now) const { return lost_until_ && *lost_until_ <= now; }
  // Whether the server of this Init knows what is held, and still counts on it.
  bool Fits(const wire::pb::Init& init, Instant now) const;

  // Whether a later start of the swarm's server was seen than the one of this Init.
  bool IsOutdated(const wire::pb::Init& init) const;
  // Notes the swarm and the incarnation of an Init that is not outdated.
  void See(const wire::pb::Init& init);
  // The highest incarnation that was seen of the Init's swarm; 0: none.
  uint64_t SeenOf(const wire::pb::Init& init) const;

 private:
  struct Held {
    std::string swarm_id, package_digest;
    Duration time;
  };
  std::optional<Held> held_for_;
  std::string seen_swarm_id_;
  uint64_t seen_incarnation_ = 0;  // of that swarm
  std::optional<Instant> lost_until_;
};

}  // namespace weft::worker
