// GET /api/swarm/what-if?memory_bytes=8589934592: what the swarm would do with one more device, of
// which nothing but its memory is known. `weft plan --add` answers the same for devices in a file.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/task_queue.h"
#include "net/http.h"
#include "net/loop.h"
#include "server/swarm_host.h"

namespace weft::server {

// The plan for the devices as they are and for them with another one: {"now": {...}, "with":
// {...}}, each with "runs", "predicted_us_per_token" and "missing_memory_bytes"; "with" has the
// layers of the new device. Pure; may take as long as a search for a plan.
std::string WhatIfJson(const swarm::CoreOptions& core, const swarm::Snapshot& snapshot,
                       uint64_t memory_bytes);

class WhatIf {
 public:
  // Both outlive it; the plans are searched on `planning`.
  WhatIf(swarm::CoreOptions core, SwarmHost& host, net::EventLoop& loop, TaskQueue& planning);

  // 400: the memory is no number of bytes from 64 MiB to 4 TiB. 429: somebody's search is under
  // way.
  void Answer(const net::HttpRequest& request, std::shared_ptr<net::Responder> client);

 private:
  const std::shared_ptr<const swarm::CoreOptions> core_;
  SwarmHost& host_;
  net::EventLoop& loop_;
  TaskQueue& planning_;
  bool is_searching_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace weft::server
