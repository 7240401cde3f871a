#include "net/socket_watch.h"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <utility>

#include "net/loop_context.h"

namespace weft::net {

struct SocketWatch::State {
  State(std::shared_ptr<LoopContext> loop, int descriptor)
      : context(std::move(loop)), socket(*context, descriptor) {}
  ~State() { socket.release(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const std::shared_ptr<LoopContext> context;
  boost::asio::posix::stream_descriptor socket;
  bool is_gone = false;
  std::function<void()> on_readable;
};

SocketWatch::SocketWatch(EventLoop& loop, int descriptor)
    : state_(std::make_shared<State>(loop.context(), descriptor)) {}

// The library may close its socket right behind this: the loop must not watch the number then.
SocketWatch::~SocketWatch() {
  state_->is_gone = true;
  state_->socket.release();
}

void SocketWatch::OnReadable(std::function<void()> on_readable) {
  state_->on_readable = std::move(on_readable);
  Read(state_);
}

void SocketWatch::Read(const std::shared_ptr<State>& state) {
  state->socket.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                           [state](const boost::system::error_code& error) {
                             if (error || state->is_gone) return;
                             state->on_readable();
                             if (!state->is_gone) Read(state);
                           });
}

void SocketWatch::AwaitWritable(std::function<void()> then) {
  state_->socket.async_wait(
      boost::asio::posix::stream_descriptor::wait_write,
      [state = state_, then = std::move(then)](const boost::system::error_code& error) {
        if (!error && !state->is_gone) then();
      });
}

}  // namespace weft::net
