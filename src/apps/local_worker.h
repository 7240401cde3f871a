// Native workers inside this process, attached to a host as ordinary workers: the built-in worker
// of `weft serve`, and the whole swarm of `weft generate` and `weft eval`. The core may close one
// (it was late too often, or silent while the machine slept). It attaches again with what it still
// holds, as a worker over a socket connects again.
#pragma once

#include <memory>

#include "net/udp_socket.h"
#include "server/swarm_host.h"
#include "worker/native_worker.h"

namespace weft::apps {

class LocalWorker {
 public:
  // Loop thread. `datagrams` may be null: where sums of neuron groups come that may be lost.
  LocalWorker(net::EventLoop& loop, server::SwarmHost& host, worker::NativeWorkerOptions options,
              package::Package package, std::shared_ptr<net::UdpSocket> datagrams = nullptr);
  ~LocalWorker();
  // Takes no more part, and gives what is to be destroyed for its memory to be free, on any thread:
  // that waits for the worker's threads.
  std::shared_ptr<void> End();
  LocalWorker(const LocalWorker&) = delete;
  LocalWorker& operator=(const LocalWorker&) = delete;

 private:
  class State;
  std::shared_ptr<net::UdpSocket> datagrams_;  // outlives the worker
  std::shared_ptr<State> state_;
};

}  // namespace weft::apps
