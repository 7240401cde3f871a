// Server: HTTP/1.1 and WebSocket on one port, plain or TLS, on an event loop. Knows nothing of what
// it serves. What is beyond a limit is refused before memory is set aside for it (SECURITY.md).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "net/loop.h"
#include "net/server_handler.h"

namespace weft::net {

class Server {
 public:
  // Binds and listens; the error of a port in use says so. `handler` outlives the server, and is
  // asked nothing afterwards, whoever still holds a responder.
  static Result<std::unique_ptr<Server>> Listen(EventLoop& loop, const ServerOptions& options,
                                                ServerHandler* handler);
  virtual ~Server() = default;
  virtual uint16_t port() const = 0;
  // Accepts no more connections; `on_drained` runs, perhaps at once, when the requests that came
  // before have their whole answers (WebSockets do not count).
  virtual void Drain(std::function<void()> on_drained) = 0;
};

}  // namespace weft::net
