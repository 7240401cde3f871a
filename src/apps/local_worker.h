// Native workers inside this process, attached to a host as ordinary workers: the built-in worker
// of `weft serve`, and the whole swarm of `weft generate` and `weft eval`.
#pragma once

#include <memory>

#include "net/udp_socket.h"
#include "server/swarm_host.h"
#include "worker/native_worker.h"

namespace weft::apps {

class LocalWorker {
 public:
  // Loop thread. `on_given_up` (may be empty) is called on the loop when the worker stops by
  // itself.
  // `datagrams` may be null: where sums of neuron groups come that may be lost.
  LocalWorker(net::EventLoop& loop, server::SwarmHost& host, worker::NativeWorkerOptions options,
              package::Package package, std::function<void(Error)> on_given_up,
              std::shared_ptr<net::UdpSocket> datagrams = nullptr);
  ~LocalWorker();
  LocalWorker(const LocalWorker&) = delete;
  LocalWorker& operator=(const LocalWorker&) = delete;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace weft::apps
