#include "apps/local_worker.h"

#include "apps/backoff.h"
#include "base/log.h"

namespace weft::apps {
namespace {

Slice Joined(std::vector<Slice> pieces) {
  if (pieces.size() == 1) return std::move(pieces.front());
  std::vector<uint8_t> bytes;
  size_t byte_count = 0;
  for (const Slice& piece : pieces) byte_count += piece.byte_count();
  bytes.reserve(byte_count);
  for (const Slice& piece : pieces) {
    bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
  }
  return Slice(std::move(bytes));
}

}  // namespace

// Shared with callbacks that other threads post to the loop. Everything on the loop.
class LocalWorker::State : public std::enable_shared_from_this<State> {
 public:
  State(net::EventLoop& loop, server::SwarmHost& host, worker::NativeWorkerOptions options,
        std::shared_ptr<worker::PackageSource> source)
      : loop_(loop),
        host_(&host),
        options_(std::move(options)),
        source_(std::move(source)),
        retry_(loop),
        keep_(loop),
        backoff_(static_cast<uint64_t>(MonotonicNow().us)) {}

  void Attach();
  void OnDatagram(ReceivedDatagram datagram) {
    if (worker_) worker_->OnDatagram(std::move(datagram));
  }
  // The LocalWorker is gone: callbacks that are still under way do nothing.
  std::shared_ptr<worker::NativeWorker> End() {
    host_ = nullptr;
    retry_.Cancel();
    keep_.Cancel();
    return std::move(worker_);
  }

 private:
  worker::NativeWorkerHooks Hooks();
  void OnClosed(const std::string& reason);
  void OnFinished(const Error& error);
  void OnHungUp(const std::string& reason, bool later);
  void AttachLater(bool pauses = false);

  net::EventLoop& loop_;
  server::SwarmHost* host_;
  const worker::NativeWorkerOptions options_;
  const std::shared_ptr<worker::PackageSource> source_;
  net::EventLoop::Timer retry_, keep_;
  Backoff backoff_;
  Instant attached_at_;
  // The core's name for this attachment, which whatever is sent through it shares; null between
  // two.
  std::shared_ptr<swarm::WorkerId> id_;
  std::unique_ptr<worker::NativeWorker> worker_;  // outlives attachments
};

void LocalWorker::State::Attach() {
  attached_at_ = MonotonicNow();
  id_ = std::make_shared<swarm::WorkerId>();
  const std::weak_ptr<State> weak = weak_from_this();
  auto send = [weak, &loop = loop_, attachment = std::weak_ptr(id_)](std::vector<Slice> pieces) {
    loop.Post([weak, attachment, message = Joined(std::move(pieces))] {
      const auto state = weak.lock();
      const auto id = attachment.lock();
      if (state && state->host_ && id) state->host_->OnWorkerMessage(*id, message);
    });
  };
  if (worker_)
    worker_->OnConnectedAgain(std::move(send));
  else
    worker_ = std::make_unique<worker::NativeWorker>(options_, source_, std::move(send), Hooks());
  server::WorkerSink sink;
  sink.send = [weak](std::vector<Slice> pieces) {
    const auto state = weak.lock();
    if (state && state->worker_) state->worker_->OnMessage(Joined(std::move(pieces)));
  };
  sink.close = [weak](const std::string& reason) {
    const auto state = weak.lock();
    if (state && state->host_) state->OnClosed(reason);
  };
  *id_ = host_->AttachWorker(std::move(sink), server::kInThisProcess, "", true);
}

worker::NativeWorkerHooks LocalWorker::State::Hooks() {
  const auto post = [weak = weak_from_this(), &loop = loop_](std::function<void(State&)> work) {
    loop.Post([weak, work = std::move(work)] {
      const auto state = weak.lock();
      if (state && state->host_) work(*state);
    });
  };
  worker::NativeWorkerHooks hooks;
  hooks.on_finished = [post](const Error& error) {
    post([error](State& state) { state.OnFinished(error); });
  };
  hooks.hang_up = [post](const std::string& reason, bool later) {
    post([reason, later](State& state) { state.OnHungUp(reason, later); });
  };
  hooks.keep_for = [post](Duration time) {
    post([time](State& state) {
      state.keep_.FireAfter(time, [&state] {
        if (state.worker_) state.worker_->OnKeptLongEnough();
      });
    });
  };
  return hooks;
}

// The core has forgotten the worker; the worker has not forgotten what it holds.
void LocalWorker::State::OnClosed(const std::string& reason) {
  if (!id_) return;
  id_.reset();
  LogWarn("the built-in worker was closed ({}); it comes back", reason);
  if (worker_) worker_->OnConnectionLost();
  AttachLater();
}

// Another attempt may do better, unless the answer would be the same.
void LocalWorker::State::OnFinished(const Error& error) {
  LogError("the built-in worker stopped: {}", error.ToString());
  if (const auto id = std::exchange(id_, nullptr)) host_->DetachWorker(*id, error.message());
  worker_.reset();
  retry_.Cancel();
  if (error.code() == ErrorCode::kUnavailable) AttachLater();
}

void LocalWorker::State::OnHungUp(const std::string& reason, bool later) {
  LogWarn("the built-in worker was turned away ({}); it comes back", reason);
  if (const auto id = std::exchange(id_, nullptr)) host_->DetachWorker(*id, reason);
  AttachLater(later);
}

void LocalWorker::State::AttachLater(bool pauses) {
  constexpr Duration kGoodAttachment = Seconds(20);
  if (MonotonicNow() - attached_at_ > kGoodAttachment) backoff_.Reset();
  Duration pause = backoff_.Next();
  if (pauses && pause.us == 0) pause = backoff_.Next();
  retry_.FireAfter(pause, [this] { Attach(); });
}

LocalWorker::LocalWorker(net::EventLoop& loop, server::SwarmHost& host,
                         worker::NativeWorkerOptions options, package::Package package,
                         std::shared_ptr<net::UdpSocket> datagrams)
    : datagrams_(std::move(datagrams)) {
  options.datagrams = datagrams_;
  state_ = std::make_shared<State>(loop, host, std::move(options),
                                   worker::MakeLocalSource(std::move(package)));
  if (datagrams_)
    datagrams_->Receive([weak = std::weak_ptr(state_)](ReceivedDatagram datagram) {
      if (const auto state = weak.lock()) state->OnDatagram(std::move(datagram));
    });
  state_->Attach();
}

LocalWorker::~LocalWorker() {
  End();
}

std::shared_ptr<void> LocalWorker::End() {
  if (datagrams_) datagrams_->Stop();
  return state_->End();
}

}  // namespace weft::apps
