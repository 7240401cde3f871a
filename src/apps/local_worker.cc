#include "apps/local_worker.h"

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

// Shared with callbacks that other threads post to the loop; `host` is null once the LocalWorker is
// gone.
struct LocalWorker::State {
  net::EventLoop* loop = nullptr;
  server::SwarmHost* host = nullptr;
  swarm::WorkerId id = 0;
  std::shared_ptr<net::UdpSocket> datagrams;  // outlives the worker
  std::unique_ptr<worker::NativeWorker> worker;
};

LocalWorker::LocalWorker(net::EventLoop& loop, server::SwarmHost& host,
                         worker::NativeWorkerOptions options, package::Package package,
                         std::function<void(Error)> on_given_up,
                         std::shared_ptr<net::UdpSocket> datagrams)
    : state_(std::make_shared<State>()) {
  state_->loop = &loop;
  state_->host = &host;
  options.datagrams = datagrams;
  state_->datagrams = std::move(datagrams);
  const std::weak_ptr<State> weak = state_;
  const auto send = [weak, &loop](std::vector<Slice> pieces) {
    loop.Post([weak, message = Joined(std::move(pieces))] {
      const auto state = weak.lock();
      if (state && state->host) state->host->OnWorkerMessage(state->id, message);
    });
  };
  worker::NativeWorkerHooks hooks;
  hooks.on_finished = [weak, &loop, on_given_up](const Error& error) {
    loop.Post([weak, error, on_given_up] {
      const auto state = weak.lock();
      if (!state || !state->host) return;
      LogError("the built-in worker stopped: {}", error.ToString());
      state->host->DetachWorker(state->id, error.message());
      if (on_given_up) on_given_up(error);
    });
  };
  state_->worker = std::make_unique<worker::NativeWorker>(
      std::move(options), worker::MakeLocalSource(std::move(package)), send, hooks);
  if (state_->datagrams)
    state_->datagrams->Receive([weak](const DatagramAddress& from, std::vector<uint8_t> bytes) {
      if (const auto state = weak.lock()) state->worker->OnDatagram(from, std::move(bytes));
    });
  server::WorkerSink sink;
  sink.send = [weak](std::vector<Slice> pieces) {
    if (const auto state = weak.lock()) state->worker->OnMessage(Joined(std::move(pieces)));
  };
  sink.close = [](const std::string&) {};
  state_->id = host.AttachWorker(std::move(sink), "in this process");
}

LocalWorker::~LocalWorker() {
  state_->host = nullptr;
  if (state_->datagrams) state_->datagrams->Stop();
  state_->worker.reset();
}

}  // namespace weft::apps
