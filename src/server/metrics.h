// GET /metrics: counters and gauges of the server and its swarm in Prometheus' text format.
#pragma once

#include <string>

#include "server/swarm_host.h"

namespace weft::server {

std::string MetricsText(const SwarmHost& host);

}  // namespace weft::server
