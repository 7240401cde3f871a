// WebSocket connections over AnyStream, both ends. For src/net only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "net/any_stream.h"
#include "net/http.h"

namespace weft::net {

struct WebSocketLimits {
  size_t message_bytes = 64 * 1024 * 1024;
  size_t write_queue_bytes = 256 * 1024 * 1024;
};

using WebSocketOpened = std::function<WebSocketCallbacks(std::shared_ptr<WebSocket>)>;

// Server end: `request_head` is the raw handshake request, already read from the stream and
// accepted by the handler.
void AcceptWebSocket(AnyStream stream, std::string request_head, const WebSocketLimits& limits,
                     std::string remote_address, WebSocketOpened on_open,
                     std::function<void()> on_finished);

// Client end: sends the handshake for `target` at `host` ("host:port").
void RequestWebSocket(AnyStream stream, const std::string& host, const std::string& target,
                      Headers headers, const WebSocketLimits& limits, WebSocketOpened on_open,
                      std::function<void(Error)> on_failed);

}  // namespace weft::net
