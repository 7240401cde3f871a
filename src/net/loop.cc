#include "net/loop.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>

#include "net/loop_context.h"

namespace weft::net {
namespace asio = boost::asio;

struct EventLoop::Signals {
  template <typename... Numbers>
  explicit Signals(asio::io_context& io, Numbers... numbers) : set(io, numbers...) {}
  asio::signal_set set;
};

EventLoop::EventLoop() : context_(std::make_shared<LoopContext>()) {}
EventLoop::~EventLoop() {
  signals_.reset();
  hang_ups_.reset();
  context_->Close();
}

void EventLoop::Post(std::function<void()> work) {
  asio::post(*context_, std::move(work));
}

void EventLoop::Run() {
  auto guard = asio::make_work_guard(*context_);
  context_->run();
  guard.reset();        // before: the last work that ends stops the context once more
  context_->restart();  // it may run again; a Stop that came before Run still counts
}

void EventLoop::Stop() {
  context_->stop();
}

void EventLoop::OnStopSignal(std::function<void()> on_signal) {
  signals_ = std::make_unique<Signals>(*context_, SIGINT, SIGTERM);
  signals_->set.async_wait(
      [this, on_signal = std::move(on_signal)](const boost::system::error_code& error, int) {
        if (error) return;
        signals_->set.clear();  // from here on they do what they do to any process
        on_signal();
      });
}

void EventLoop::OnHangUp(std::function<void()> on_signal) {
  hang_ups_ = std::make_unique<Signals>(*context_, SIGHUP);
  on_hang_up_ = std::move(on_signal);
  AwaitHangUp();
}

void EventLoop::AwaitHangUp() {
  hang_ups_->set.async_wait([this](const boost::system::error_code& error, int) {
    if (error) return;
    on_hang_up_();
    AwaitHangUp();
  });
}

struct EventLoop::Timer::State {
  explicit State(std::shared_ptr<LoopContext> made_on)
      : context(std::move(made_on)), timer(*context) {}
  const std::shared_ptr<LoopContext> context;
  asio::steady_timer timer;
  uint64_t setting = 0;  // a handler that was queued before a later FireAfter must not run
};

EventLoop::Timer::Timer(EventLoop& loop) : state_(std::make_shared<State>(loop.context())) {}
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
