// The client side for native workers, `weft run` and tests: blocking HTTP with ranges, and a
// WebSocket on a loop.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "net/address.h"
#include "net/http.h"
#include "net/limits.h"
#include "net/loop.h"

namespace weft::net {

struct ClientTls {
  // How to trust a server: the system's certificates, or exactly one certificate by its SHA-256
  // (self-signed swarms), or nothing (`insecure`).
  std::string pinned_fingerprint;
  bool insecure = false;
};

struct HttpCall {
  std::string method = "GET";
  std::string path = "/";  // with query
  Headers headers;
  std::string body;
  Duration timeout = Seconds(30);  // without any byte moving
  // A reply's body in memory; what `on_data` takes is not limited.
  size_t reply_limit_bytes = 64 << 20;
  // When it becomes true the call ends soon, with kCancelled. May be null.
  const std::atomic<bool>* cancelled = nullptr;
};

// A connection that is kept open between calls and reopened when needed. One thread at a time.
class HttpClient {
 public:
  HttpClient(Url server, ClientTls tls);
  ~HttpClient();
  HttpClient(HttpClient&&) noexcept;

  // `on_data`, when given, receives the body of a 2xx reply piece by piece and stops the transfer
  // (kCancelled) by returning false. Redirections are the caller's (they may lead to another host).
  // Errors: kUnavailable when the server cannot be reached, kPermissionDenied when its
  // certificate is not trusted, kIo when it closes in the middle of a reply, kInvalidData for a
  // body beyond the limit.
  Result<HttpReply> Call(const HttpCall& call,
                         const std::function<bool(ByteSpan)>& on_data = nullptr);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Connects `url`'s path as a WebSocket. Callbacks run on the loop; exactly one of `on_open` or
// `on_failed` is called. Errors: kPermissionDenied when the server answers 401 or 403 or its
// certificate is not trusted: asking again will not change that. kNotFound when nobody listens at
// its port, as its machine says. kUnavailable for all else.
void ConnectWebSocket(EventLoop& loop, const Url& url, const ClientTls& tls, Headers headers,
                      const WebSocketClientLimits& limits,
                      std::function<WebSocketCallbacks(std::shared_ptr<WebSocket>)> on_open,
                      std::function<void(Error)> on_failed);

}  // namespace weft::net
