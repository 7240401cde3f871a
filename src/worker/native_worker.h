// NativeWorker: one worker of a swarm on this machine's processor. It answers the orchestrator's
// messages (docs/protocol.md): downloads layers, loads them, runs steps. It has no socket: the
// owner hands it messages and sends what it gives out, over a WebSocket or in process. It outlives
// connections: what it holds can be used again by the next one to the same swarm.
//
// What is done is decided by membership (membership.h); this puts it on threads. One downloads and
// verifies blobs, one reads and repacks layers, and one owns the engine and computes. So steps of
// the active plan go on while a new stage is fetched and loaded.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/datagram_address.h"
#include "base/result.h"
#include "dispatch/dispatcher.h"
#include "wire/control.pb.h"
#include "worker/package_source.h"

namespace weft::engine {
class MemoryLimit;
}
namespace weft::kernels {
class SharedThreads;
}

namespace weft::worker {

struct NativeWorkerOptions {
  std::string name;       // shown to people; "" becomes "native worker"
  std::string device;     // "" becomes what DescribeProcessor says
  std::string worker_id;  // the same across restarts of one device
  std::string join_token;
  uint64_t memory_bytes = 0;  // the offer
  // What this device's workers of several models hold together; null: the offer is the limit.
  std::shared_ptr<engine::MemoryLimit> memory;
  uint32_t thread_count = 1;
  // What computes this device's workers of several models; null: threads of this worker's own.
  std::shared_ptr<kernels::SharedThreads> threads;
  bool reference_kernels = false;
  dispatch::Options dispatch = {};  // as a hub
  // For channels between hubs and holders; null: there are no datagrams. What comes is
  // OnDatagram's. With them the worker is destroyed on the thread that receives, or when that runs
  // no more.
  std::shared_ptr<DatagramSender> datagrams;
};

// One WebSocket message in pieces.
using SendMessage = std::function<void(std::vector<Slice>)>;

// Called on any of the worker's threads or from within its functions; they must not call back.
struct NativeWorkerHooks {
  // Once, when the worker gives up, with a sentence for people; the owner then closes the
  // connection and destroys the worker. kUnavailable: the server is busy or its package could not
  // be had, another worker may do better. Any other code: it would not (refused, wrong version, a
  // server that breaks the protocol).
  std::function<void(Error)> on_finished;
  // This connection is to be closed, and the worker to be told of another one, after a pause where
  // `later`. What it holds stays.
  std::function<void(std::string reason, bool later)> hang_up = [](const std::string&, bool) {};
  // These servers may lead the swarm after this one; in place of those told before.
  std::function<void(std::vector<wire::pb::Init::Successor>)> know_successors =
      [](const std::vector<wire::pb::Init::Successor>&) {};
  // When nothing at all came for this time, the connection is to be taken for dead.
  std::function<void(Duration)> limit_silence = [](Duration) {};
  // OnKeptLongEnough is to be called after this time.
  std::function<void(Duration)> keep_for = [](Duration) {};
};

class NativeWorker {
 public:
  // `send` belongs to the first connection and, like the hooks, must not call back.
  NativeWorker(NativeWorkerOptions options, std::shared_ptr<PackageSource> source, SendMessage send,
               NativeWorkerHooks hooks);
  // Stops its threads; a download is cancelled, a step in progress is finished.
  ~NativeWorker();
  NativeWorker(const NativeWorker&) = delete;
  NativeWorker& operator=(const NativeWorker&) = delete;

  // Any thread; never blocks for long.
  void OnMessage(Slice message);
  void OnDatagram(ReceivedDatagram datagram);
  // The connection broke: `send` is not called any more.
  void OnConnectionLost();
  // There is another one. Nothing of the one before is sent to it.
  void OnConnectedAgain(SendMessage send);
  void OnKeptLongEnough();
  // Says goodbye to the orchestrator. Steps are answered until the connection is lost.
  void Leave(const std::string& reason);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// "8 threads, AVX-512" and the like.
std::string DescribeProcessor(uint32_t thread_count);
// Memory that a worker offers when the user says nothing: half of what the system has available.
uint64_t DefaultMemoryOffer();
// Of this machine, in bytes.
uint64_t TotalMemory();

}  // namespace weft::worker
