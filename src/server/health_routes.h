// What watches of a server ask without a secret: whether it lives (/healthz), and whether a request
// would be answered now (/readyz, and /health as llama.cpp has it).
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "server/router.h"
#include "server/swarm_host.h"

namespace weft::server {

// Why a request would not be answered now. It names no device and no amount: whoever asks shows no
// key.
struct NotReady {
  const char* state;
  const char* reason;  // a sentence
};
// Why requests of this swarm would not be; nullopt: they would be.
std::optional<NotReady> FindNotReady(const SwarmHost& host);
// nullopt: it would be.
std::optional<NotReady> FindNotReady(swarm::SwarmState state, bool is_ending);

// `find` says what there is against it now. A probe may name a model (`?model=tiny`).
std::vector<Route> HealthRoutes(
    std::function<std::optional<NotReady>(const net::HttpRequest& probe)> find);
// The same of one swarm; `host` outlives the routes.
std::vector<Route> HealthRoutes(const SwarmHost* host);

}  // namespace weft::server
