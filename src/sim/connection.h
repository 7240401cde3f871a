// What the simulator knows of a connection and of a request. Its alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sim/device.h"
#include "sim/hash_model.h"
#include "sim/model_worker.h"
#include "sim/told.h"
#include "swarm/events.h"

namespace weft::sim {

struct Connection {
  explicit Connection(const Told& a_told) : told(a_told) {}

  Device* device = nullptr;
  std::shared_ptr<ModelWorker> worker;
  std::shared_ptr<swarm::WorkerId> line;            // the worker's connection now
  bool open = true;                                 // as the server sees it
  Told told;                                        // what the core has told it to hold
  uint64_t incarnation = 0;                         // of its Init
  double reported_factor = 1;                       // weight factor of its last message
  double earlier_factor = 0;                        // and before it came back
  bool doubted = false;                             // its claim counts where that is less
  bool ran_out = false;                             // of memory, once
  bool broken = false;                              // nothing passes any more
  bool survives = false;                            // its worker will come back with what it holds
  Instant last_down, last_up;                       // deliveries do not overtake each other
  Instant paused_until;                             // its machine stands still
  uint64_t message_limit = wire::kMaxControlBytes;  // longer messages a host would not receive
  Instant known_slow_at{INT64_MAX};                 // since then, though it claims not to be
  uint32_t unbounded_ends = 0;                      // of requests while it is believed too fast
  uint64_t unasked = 0;                             // messages that nobody had asked for
};

struct Tracked {
  swarm::Request request;
  Expected expected;
  std::vector<int32_t> tokens;
  std::optional<swarm::SessionTrace> trace;  // of its session, as the core told it last
  swarm::SessionId asked_for;                // that it had at the core before, until it has one
  uint32_t ends = 0;
  bool cancelled = false;
  bool may_fail = false;      // its numbers were made to fail on purpose
  bool may_be_wrong = false;  // a device has lied while it ran
  Instant submitted_at;
  uint64_t rows_before = 0;  // that were computed for anybody until then
  bool continued = false;    // by another core
  uint32_t logit_rows = 0;
};

}  // namespace weft::sim
