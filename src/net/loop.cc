#include "net/loop.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>

namespace weft::net {
namespace asio = boost::asio;

struct EventLoop::Signals {
  explicit Signals(asio::io_context& io) : set(io, SIGINT, SIGTERM) {}
  asio::signal_set set;
};

EventLoop::EventLoop() : io_(std::make_unique<asio::io_context>(1)) {}
EventLoop::~EventLoop() = default;

void EventLoop::Post(std::function<void()> work) {
  asio::post(*io_, std::move(work));
}

void EventLoop::Run() {
  auto guard = asio::make_work_guard(*io_);
  io_->run();
  guard.reset();   // before: the last work that ends stops the context once more
  io_->restart();  // it may run again; a Stop that came before Run still counts
}

void EventLoop::Stop() {
  io_->stop();
}

void EventLoop::OnStopSignal(std::function<void()> on_signal) {
  signals_ = std::make_unique<Signals>(*io_);
  signals_->set.async_wait(
      [this, on_signal = std::move(on_signal)](const boost::system::error_code& error, int) {
        if (error) return;
        signals_->set.clear();  // from here on they do what they do to any process
        on_signal();
      });
}

struct EventLoop::Timer::State {
  explicit State(asio::io_context& io) : timer(io) {}
  asio::steady_timer timer;
  uint64_t setting = 0;  // a handler that was queued before a later FireAfter must not run
};

EventLoop::Timer::Timer(EventLoop& loop) : state_(std::make_shared<State>(loop.io())) {}
EventLoop::Timer::~Timer() {
  Cancel();
}

void EventLoop::Timer::FireAfter(Duration delay, std::function<void()> work) {
  const uint64_t setting = ++state_->setting;
  state_->timer.expires_after(std::chrono::microseconds(delay.us));
  state_->timer.async_wait(
      [state = state_, setting, work = std::move(work)](const boost::system::error_code& error) {
        if (!error && state->setting == setting) work();
      });
}

void EventLoop::Timer::Cancel() {
  ++state_->setting;
  state_->timer.cancel();
}

}  // namespace weft::net
