#include "apps/remote_worker.h"

#include "base/log.h"
#include "kernels/kernel_set.h"
#include "wire/version.h"

namespace weft::apps {

RemoteWorker::RemoteWorker(net::EventLoop& loop, std::shared_ptr<ServerList> servers,
                           std::string query, worker::NativeWorkerOptions options,
                           std::shared_ptr<worker::PackageSource> source,
                           std::function<void(Status)> on_over, RemoteWorkerTimes times)
    : loop_(loop),
      servers_(std::move(servers)),
      query_(std::move(query)),
      options_(std::move(options)),
      source_(std::move(source)),
      times_(times),
      on_over_(std::move(on_over)),
      retry_(loop),
      keep_(loop),
      goodbye_(loop),
      backoff_(static_cast<uint64_t>(MonotonicNow().us), times.shortest_pause,
               times.longest_pause) {}

void RemoteWorker::Leave(const std::string& reason) {
  if (leaving_) return;
  leaving_ = true;
  if (!socket_ || !worker_) return Over(OkStatus());
  LogInfo("leaving {}; once more ends at once", servers_->current().url.Authority());
  worker_->Leave(reason);
  goodbye_.FireAfter(times_.goodbye, [this] { Over(OkStatus()); });
}

void RemoteWorker::Connect() {
  may_hurry_ = false;
  ServerAddress server = servers_->current();
  server.url.path = "/worker";
  server.url.query = query_;
  LogInfo("connecting to {}", server.url.Authority());
  connected_at_ = MonotonicNow();
  net::WebSocketClientLimits limits;
  // The server pings: a line that went dead without a word (a cable, a router, a machine that
  // sleeps) is noticed by the silence. Init says how often.
  limits.silence = wire::kPingInterval * 6;
  net::Headers headers;
  // In the handshake already, so that a wrong one is refused before there is a connection.
  if (!options_.join_token.empty()) {
    headers.emplace_back("Authorization", "Bearer " + options_.join_token);
  }
  net::ConnectWebSocket(loop_, server.url, server.tls, std::move(headers), limits,
                        WhileAlive([this](std::shared_ptr<net::WebSocket> socket) {
                          return OnOpen(std::move(socket));
                        }),
                        WhileAlive([this](const Error& error) { OnDeclined(error); }));
}

// One of several servers may have another certificate now, or other tokens.
void RemoteWorker::OnDeclined(const Error& error) {
  const bool is_refused = error.code() == ErrorCode::kPermissionDenied;
  if (is_refused && ++refusals_ >= servers_->size()) return Over(error);
  Retry(error.message());
}

net::WebSocketCallbacks RemoteWorker::OnOpen(std::shared_ptr<net::WebSocket> socket) {
  LogInfo("connected to {}; offering {}, kernels for {}", servers_->current().url.Authority(),
          HumanBytes(options_.memory_bytes), kernels::FastKernelsTarget());
  refusals_ = 0;
  socket_ = std::move(socket);
  auto send = [&loop = loop_, weak = std::weak_ptr(socket_)](std::vector<Slice> pieces) {
    loop.Post([weak, pieces = std::move(pieces)]() mutable {
      if (const auto open = weak.lock()) open->Send(std::move(pieces));
    });
  };
  if (has_finished_) {
    worker_.reset();
    keeps_ = false;
  }
  has_finished_ = false;
  if (worker_) {
    worker_->OnConnectedAgain(std::move(send));
  } else {
    worker_ = std::make_unique<worker::NativeWorker>(options_, source_, std::move(send), Hooks());
  }
  net::WebSocketCallbacks callbacks;
  callbacks.on_message =
      WhileAlive([this](Slice message) { worker_->OnMessage(std::move(message)); });
  callbacks.on_close_frame = WhileAlive([this](uint16_t code, const std::string& reason) {
    if (code == net::kTryElsewhere) elsewhere_ = reason;
  });
  callbacks.on_closed = WhileAlive([this](const std::string& reason) { OnClosed(reason); });
  return callbacks;
}

// They are called on the worker's threads.
worker::NativeWorkerHooks RemoteWorker::Hooks() {
  const auto post = [this, &loop = loop_,
                     alive = std::weak_ptr(alive_)](std::function<void(RemoteWorker&)> work) {
    loop.Post([this, alive, work = std::move(work)] {
      if (!alive.expired()) work(*this);
    });
  };
  worker::NativeWorkerHooks hooks;
  hooks.on_finished = [post](const Error& error) {
    post([error](RemoteWorker& self) { self.OnFinished(error); });
  };
  hooks.hang_up = [post](const std::string& reason, bool later) {
    post([reason, later](RemoteWorker& self) { self.OnHungUp(reason, later); });
  };
  hooks.know_successors = [servers =
                               servers_](const std::vector<wire::pb::Init::Successor>& successors) {
    servers->SetSuccessors(successors);
  };
  hooks.limit_silence = [post](Duration time) {
    post([time](RemoteWorker& self) {
      if (self.socket_) self.socket_->SetSilence(time);
    });
  };
  hooks.keep_for = [post](Duration time) {
    post([time](RemoteWorker& self) { self.KeepFor(time); });
  };
  return hooks;
}

void RemoteWorker::KeepFor(Duration time) {
  keeps_ = true;
  keep_.FireAfter(time, [this] {
    keeps_ = false;
    if (worker_) worker_->OnKeptLongEnough();
  });
  // The worker's thread says so a moment after the connection broke, and the pause was chosen.
  if (!may_hurry_ || retry_at_ - MonotonicNow() <= times_.longest_pause_kept) return;
  ConnectAfter(backoff_.Next(times_.longest_pause_kept));
}

void RemoteWorker::ConnectAfter(Duration wait) {
  retry_at_ = MonotonicNow() + wait;
  retry_.FireAfter(wait, [this] { Connect(); });
}

std::shared_ptr<void> RemoteWorker::End() {
  alive_.reset();
  on_over_ = nullptr;
  for (net::EventLoop::Timer* timer : {&retry_, &keep_, &goodbye_}) timer->Cancel();
  if (socket_) std::exchange(socket_, nullptr)->Close("its model was unloaded");
  return std::move(worker_);
}

void RemoteWorker::OnClosed(const std::string& reason) {
  socket_.reset();
  worker_->OnConnectionLost();
  if (leaving_) return Over(OkStatus());
  if (on_over_) Retry(reason);
}

void RemoteWorker::OnFinished(const Error& error) {
  has_finished_ = true;
  // Another connection may do better, unless the server's answer would be the same.
  if (error.code() != ErrorCode::kUnavailable) return Over(error);
  if (socket_) socket_->Close(error.message());
}

void RemoteWorker::OnHungUp(const std::string& reason, bool later) {
  comes_later_ = later;
  if (socket_) socket_->Close(reason);
}

void RemoteWorker::Retry(const std::string& reason) {
  if (leaving_ || !on_over_) return;
  if (MonotonicNow() - connected_at_ > times_.good_connection) {
    backoff_.Reset();
    servers_->Settle();
  }
  const Duration wait = NextServer();
  const bool is_only = servers_->size() == 1;
  const std::string server = is_only ? "again" : servers_->current().url.Authority();
  if (wait.us == 0)
    LogWarn("not connected ({}); trying {} at once", reason, server);
  else
    LogWarn("not connected ({}); trying {} in {:.1f} s", reason, server, wait.seconds());
  ConnectAfter(wait);
}

Duration RemoteWorker::NextServer() {
  const auto elsewhere = std::exchange(elsewhere_, std::nullopt);
  const bool later = std::exchange(comes_later_, false) || has_finished_;
  may_hurry_ = !later;
  const bool is_first_try = elsewhere ? servers_->NextIs(*elsewhere) : servers_->Next();
  if (is_first_try) return {};
  if (later) {
    const Duration wait = backoff_.Next();
    return wait.us == 0 ? backoff_.Next() : wait;
  }
  // A server that cannot lead yet is there, and may lead in a moment.
  return keeps_ || elsewhere ? backoff_.Next(times_.longest_pause_kept) : backoff_.Next();
}

void RemoteWorker::Over(Status status) {
  retry_.Cancel();
  if (const auto on_over = std::exchange(on_over_, nullptr)) on_over(std::move(status));
}

}  // namespace weft::apps
