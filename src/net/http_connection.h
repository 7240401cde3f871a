// One client connection of a server, from its first byte to its last request or to its WebSocket.
// For src/net only; everything happens on the loop's thread.
#pragma once

#include <memory>
#include <string>

#include "net/any_stream.h"
#include "net/connection_limits.h"
#include "net/server_handler.h"

namespace weft::net {

// Answers requests on `stream` with `handler` until the connection ends. `handler` outlives
// the server of `place`, which is given up with the connection (a WebSocket keeps it).
void ServeHttp(AnyStream stream, const ServerOptions& options, ServerHandler* handler,
               std::string remote_address, std::shared_ptr<ConnectionPlace> place);

}  // namespace weft::net
