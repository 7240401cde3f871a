// GET /metrics: counters, gauges and histograms of the server and its swarm, for Prometheus.
#pragma once

#include "net/http.h"
#include "server/clustered_generator.h"
#include "server/key_table.h"
#include "server/metric_families.h"
#include "server/swarm_host.h"

namespace weft::server {

// The answer with these.
net::HttpResponse MetricsResponse(const MetricFamilies& families);

void AddSwarmMetrics(MetricFamilies& families, const SwarmHost& host);
// Of answers whose servers change.
void AddMoveMetrics(MetricFamilies& families, const ClusteredGenerator::Counts& counts);
// Of named keys by role, never by name: who watches a server need not know its users.
void AddKeyMetrics(MetricFamilies& families, const KeyTable& table);

}  // namespace weft::server
