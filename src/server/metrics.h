// GET /metrics: counters and gauges of the server and its swarm in Prometheus' text format.
#pragma once

#include <string>

#include "server/key_table.h"
#include "server/swarm_host.h"

namespace weft::server {

std::string MetricsText(const SwarmHost& host);
// Of named keys by role, never by name: who watches a server need not know its users.
std::string KeyMetricsText(const KeyTable& table);

}  // namespace weft::server
