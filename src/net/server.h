// Server: HTTP/1.1 and WebSocket on one port, plain or TLS, on an event loop. Knows nothing of what
// it serves. Limits are refused before allocation (SECURITY.md 3).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "net/http.h"
#include "net/loop.h"
#include "net/tls.h"

namespace weft::net {

struct ServerLimits {
  size_t header_bytes = 8 * 1024;
  size_t body_bytes = 1024 * 1024;
  // Of one message until the handler says otherwise (WebSocket::SetMessageLimit).
  size_t websocket_message_bytes = 64 * 1024;
  // What may wait for one client: events of a stream, messages of a WebSocket. Beyond that the
  // connection is closed.
  size_t stream_queue_bytes = 4 * 1024 * 1024;
  size_t websocket_queue_bytes = 64 * 1024 * 1024;
  // What may wait for all clients together. Beyond that, connections with something waiting are
  // closed when more is to be sent to them; one that keeps up never is.
  size_t all_queue_bytes = 256 * 1024 * 1024;
  size_t connections = 1024;
  // IPv6 counts by /64, which is what one household or one machine is given; loopback is not
  // counted.
  size_t connections_per_address = 64;
  Duration handshake = Seconds(5);     // TLS and the request header
  Duration idle = Seconds(30);         // between requests of a connection, and for a body
  Duration write_stall = Seconds(30);  // something waits and no byte gets out
  Duration close_linger = Seconds(1);  // for a peer to take the last bytes and close its end
  // Clients that closed their sending end: how often it is tried whether they still listen.
  Duration half_close_probe = Seconds(5);
};

struct ServerOptions {
  std::string address = "127.0.0.1";  // "::" takes IPv4 too; "[::1]" is the same as "::1"
  uint16_t port = 0;                  // 0: any free port
  std::shared_ptr<TlsContext> tls;    // null: plain
  ServerLimits limits;
};

class ServerHandler {
 public:
  virtual ~ServerHandler() = default;
  virtual void OnRequest(HttpRequest request, std::shared_ptr<Responder> responder) = 0;
  // A WebSocket handshake: true accepts it; false means that `refusal` was filled in and is sent.
  virtual bool OnHandshake(const HttpRequest& request, HttpResponse* refusal) = 0;
  // After the handshake. The callbacks are called until on_closed.
  virtual WebSocketCallbacks OnWebSocket(const HttpRequest& request,
                                         std::shared_ptr<WebSocket> socket) = 0;
  // The answer to what never becomes a request (400, 408, 413, 431) and to a request that nobody
  // answered (500); the connection closes after it. `sentence` is for people, and holds nothing
  // that the client sent. Plain text unless overridden.
  virtual HttpResponse MakeError(int status, const std::string& sentence);
};

class Server {
 public:
  // Binds and listens; the error of a port in use says so. `handler` outlives the server.
  static Result<std::unique_ptr<Server>> Listen(EventLoop& loop, const ServerOptions& options,
                                                ServerHandler* handler);
  virtual ~Server() = default;
  virtual uint16_t port() const = 0;
  // Accepts no more connections; `on_drained` runs, perhaps at once, when the requests that came
  // before have their whole answers (WebSockets do not count).
  virtual void Drain(std::function<void()> on_drained) = 0;
};

}  // namespace weft::net
