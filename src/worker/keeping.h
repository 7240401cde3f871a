// What a worker keeps between two connections: for which swarm and package it was loaded, and until
// when it is kept once a connection broke. Init says both; there is nothing to keep before it.
//
// The same in TypeScript: web/packages/worker/src/membership/keeping.ts.
#pragma once

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

 private:
  struct Held {
    std::string swarm_id, package_digest;
    Duration time;
  };
  std::optional<Held> held_for_;
  std::optional<Instant> lost_until_;
};

}  // namespace weft::worker
