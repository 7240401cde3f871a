// A worker's WebSocket and the swarm's host, tied together.
#pragma once

#include <memory>
#include <string>

#include "net/http.h"
#include "server/swarm_host.h"

namespace weft::server {

// Until the core has accepted its Connect, a socket may send what a stranger may.
void LimitStranger(net::WebSocket& socket);

// Makes `socket` a worker of `host`, for as long as that lives. Until the core has accepted its
// Connect it may send one control message's worth in all, pings and heads of frames included. The
// core closes a worker that begins with anything but Connect. Afterwards the core says how long a
// message may be (swarm::SetMessageLimit). Who does not connect in time is closed by the core, and
// the socket does not wait for a stranger's goodbye (net::WebSocket::Close). `trusted`: of
// swarm::WorkerConnected.
net::WebSocketCallbacks AttachWorkerSocket(SwarmHost& host, const std::string& address,
                                           bool trusted,
                                           const std::shared_ptr<net::WebSocket>& socket);

}  // namespace weft::server
