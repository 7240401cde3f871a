// The inside of EventLoop, for src/net only.
#pragma once

#include <boost/asio/io_context.hpp>

namespace weft::net {

// Sockets and timers are made on a context, and cancel on it when they are destroyed. Each of them
// holds the context, so that one that outlives its EventLoop finds a closed context, not freed
// memory. A handler that waits inside a context may hold such a socket and so the context itself:
// Close ends that circle.
class LoopContext : public boost::asio::io_context {
 public:
  LoopContext() : io_context(1) {}
  // Destroys what waits, without calling it. Nothing that is started afterwards is ever called.
  void Close() { shutdown(); }
};

}  // namespace weft::net
