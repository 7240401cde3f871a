// A RemoteWorker is a worker of a swarm on another machine. It connects, and connects again when
// the connection breaks, to the same server or the next one (server_list.h), with what the worker
// still holds.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "apps/backoff.h"
#include "apps/server_list.h"
#include "base/result.h"
#include "net/client.h"
#include "worker/native_worker.h"

namespace weft::apps {

struct RemoteWorkerTimes {
  Duration shortest_pause = Seconds(1), longest_pause = Seconds(30);  // of Backoff
  // The pause of a worker that holds layers, keys and values which the server counts on for a
  // while.
  Duration longest_pause_kept = Milliseconds(250);
  // A connection that lasted this long was a good one: the next attempt comes at once again.
  Duration good_connection = Seconds(20);
  // A worker that goes waits so long for the server to have taken over what it does.
  Duration goodbye = Seconds(2);
};

// All of it happens on the loop's thread.
class RemoteWorker {
 public:
  // `on_over` is called once: with the server's refusal, or OkStatus after Leave. `query` names the
  // model, where the server has several.
  RemoteWorker(net::EventLoop& loop, std::shared_ptr<ServerList> servers, std::string query,
               worker::NativeWorkerOptions options, std::shared_ptr<worker::PackageSource> source,
               std::function<void(Status)> on_over, RemoteWorkerTimes times = {});

  ~RemoteWorker() { End(); }
  RemoteWorker(const RemoteWorker&) = delete;
  RemoteWorker& operator=(const RemoteWorker&) = delete;

  void Start() { Connect(); }
  // Takes a datagram of the socket of `options`.
  void OnDatagram(ReceivedDatagram datagram) {
    if (worker_ && !has_finished_) worker_->OnDatagram(std::move(datagram));
  }
  // Finishes what it was asked to compute and goes.
  void Leave(const std::string& reason);
  // Takes no more part, and gives what is to be destroyed for its memory to be free, on any thread:
  // that waits for the worker's threads.
  std::shared_ptr<void> End();

 private:
  // `work`, unless this was destroyed meanwhile.
  template <class Work>
  auto WhileAlive(Work work) {
    return [alive = std::weak_ptr(alive_), work = std::move(work)](auto&&... arguments) {
      using Answer = decltype(work(std::forward<decltype(arguments)>(arguments)...));
      if (alive.expired()) return Answer();
      return work(std::forward<decltype(arguments)>(arguments)...);
    };
  }
  void Connect();
  net::WebSocketCallbacks OnOpen(std::shared_ptr<net::WebSocket> socket);
  void OnClosed(const std::string& reason);
  // The worker has given up.
  void OnFinished(const Error& error);
  void OnHungUp(const std::string& reason, bool later);
  void OnDeclined(const Error& error);
  void Retry(const std::string& reason);
  // Goes on to the next server, and gives the pause until it is tried.
  Duration NextServer();
  void Over(Status status);
  void KeepFor(Duration time);
  void ConnectAfter(Duration wait);
  worker::NativeWorkerHooks Hooks();

  net::EventLoop& loop_;
  const std::shared_ptr<ServerList> servers_;
  const std::string query_;
  const worker::NativeWorkerOptions options_;
  const std::shared_ptr<worker::PackageSource> source_;
  const RemoteWorkerTimes times_;
  std::function<void(Status)> on_over_;  // null once it was called
  net::EventLoop::Timer retry_, keep_, goodbye_;
  Backoff backoff_;
  std::shared_ptr<net::WebSocket> socket_;
  std::unique_ptr<worker::NativeWorker> worker_;  // outlives connections
  bool has_finished_ = false;                     // the worker; the next connection has another
  bool comes_later_ = false;                      // the server has asked for a pause
  std::optional<std::string> elsewhere_;  // the server cannot lead, and who can; "": unknown
  size_t refusals_ = 0;                   // servers in a row that let it in no more
  Instant connected_at_;
  Instant retry_at_;        // when the next attempt is, while it waits
  bool may_hurry_ = false;  // it waits, and not because the server has asked for it
  bool keeps_ = false;      // what was loaded, for the next connection
  bool leaving_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace weft::apps
