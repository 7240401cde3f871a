// WebSocket connections over AnyStream, both ends. For src/net only; everything happens on the
// loop's thread.
#pragma once

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "net/any_stream.h"
#include "net/connection_limits.h"
#include "net/http.h"
#include "net/limits.h"

namespace weft::net {

using WebSocketOpened = std::function<WebSocketCallbacks(std::shared_ptr<WebSocket>)>;

// Server end: `request` is the handshake, already read from the stream and accepted by the handler.
// `place` is kept until the connection has ended.
void AcceptWebSocket(AnyStream stream,
                     const boost::beast::http::request<boost::beast::http::string_body>& request,
                     const ServerLimits& limits, std::string remote_address,
                     std::shared_ptr<ConnectionPlace> place, WebSocketOpened on_open);

// Client end: sends the handshake for `target` at `host` ("host:port").
void RequestWebSocket(AnyStream stream, const std::string& host, const std::string& target,
                      Headers headers, const WebSocketClientLimits& limits, WebSocketOpened on_open,
                      std::function<void(Error)> on_failed);

}  // namespace weft::net
