// What a server is told and whom it asks: its options, and the handler that answers requests.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "net/http.h"
#include "net/limits.h"
#include "net/tls.h"

namespace weft::net {

struct ServerOptions {
  std::string address = "127.0.0.1";  // "::" takes IPv4 too; "[::1]" is the same as "::1"
  uint16_t port = 0;                  // 0: any free port
  std::shared_ptr<TlsContext> tls;    // null: plain
  ServerLimits limits;
  // Proxies: connections from there are not limited by address. Whose requests they bring, and how
  // many of whom at once, is the handler's.
  std::set<std::string> uncounted_addresses;
};

class ServerHandler {
 public:
  virtual ~ServerHandler() = default;
  virtual void OnRequest(HttpRequest request, std::shared_ptr<Responder> responder) = 0;
  // How long the body may be of a request whose head has come, where that is less than
  // ServerLimits::body_bytes. Beyond it the answer is 413, before memory is set aside.
  virtual size_t BodyLimit(const HttpRequest& head);
  // A WebSocket handshake: true accepts it; false means that `refusal` was filled in and is sent.
  virtual bool OnHandshake(const HttpRequest& request, HttpResponse* refusal) = 0;
  // After the handshake. The callbacks are called until on_closed.
  virtual WebSocketCallbacks OnWebSocket(const HttpRequest& request,
                                         std::shared_ptr<WebSocket> socket) = 0;
  // The answer to what never becomes a request (400, 408, 413, 431) and to a request that nobody
  // answered (500); the connection closes after it. `sentence` is for people, and holds nothing
  // that the client sent. `head` has what came of method and headers, perhaps nothing. Plain text
  // unless overridden.
  virtual HttpResponse MakeError(int status, const std::string& sentence, const HttpRequest& head);
};

}  // namespace weft::net
