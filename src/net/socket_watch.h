// SocketWatch tells on the loop when a socket that a library owns can be read or written. It never
// reads, writes or closes the socket itself.
#pragma once

#include <functional>
#include <memory>

#include "net/loop.h"

namespace weft::net {

class SocketWatch {
 public:
  // `descriptor` stays open as long as this lives. Loop thread only.
  SocketWatch(EventLoop& loop, int descriptor);
  ~SocketWatch();  // nothing is called any more
  SocketWatch(const SocketWatch&) = delete;
  SocketWatch& operator=(const SocketWatch&) = delete;

  // Calls `on_readable` each time there is something to read, or the socket has ended, until this
  // is destroyed. The function may destroy it.
  void OnReadable(std::function<void()> on_readable);
  // Calls `then` once, when the socket takes something. REQUIRES: the last one was called.
  void AwaitWritable(std::function<void()> then);

 private:
  struct State;
  static void Read(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
};

}  // namespace weft::net
