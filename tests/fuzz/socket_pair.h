// For targets that talk to a connection of the server over a pair of sockets, without a network:
// one end is the server's, the other one the target's.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "base/check.h"
#include "net/http_connection.h"
#include "net/loop.h"
#include "net/loop_context.h"

namespace weft {

// Everything that can be done without waiting.
inline void RunAll(net::EventLoop& loop) {
  loop.context()->restart();
  loop.context()->poll();
}

// What has come by now.
inline std::string Received(int fd) {
  std::string got;
  char buffer[4096];
  for (ssize_t count; (count = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT)) > 0;) {
    got.append(buffer, static_cast<size_t>(count));
  }
  return got;
}

// Takes over `fd`.
inline net::AnyStream StreamOf(net::EventLoop& loop, int fd) {
  using tcp = boost::asio::ip::tcp;
  return net::AnyStream(tcp::socket(*loop.context(), tcp::v4(), fd), loop.context());
}

// Serves a client at the other end of `fd`. What is returned expires with the connection.
inline std::weak_ptr<net::ConnectionPlace> ServeAt(net::EventLoop& loop, int fd,
                                                   const net::ServerOptions& options,
                                                   net::ServerHandler* handler) {
  const auto counter = std::make_shared<net::ConnectionCounter>();
  CHECK(counter->TryAdd("127.0.0.1", options.limits));
  auto place = std::make_shared<net::ConnectionPlace>(counter, "127.0.0.1");
  std::weak_ptr<net::ConnectionPlace> is_open = place;
  net::ServeHttp(StreamOf(loop, fd), options, handler, "127.0.0.1", std::move(place));
  return is_open;
}

}  // namespace weft
