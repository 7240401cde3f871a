// NativeWorker: one worker of a swarm on this machine's processor. It answers the orchestrator's
// messages (docs/protocol.md): downloads layers, loads them, runs steps. It has no socket: the
// owner hands it messages and sends what it gives out, over a WebSocket or in process.
//
// Threads: OnMessage may be called from any one thread and never blocks. A download thread fetches
// blobs, a compute thread owns the engine; steps of the active plan go on while a new stage is
// downloaded. `send` is called from all three.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "engine/engine.h"
#include "worker/package_source.h"

namespace weft::worker {

struct NativeWorkerOptions {
  std::string name;       // shown to people; "" becomes "native worker"
  std::string device;     // "" becomes what DescribeProcessor says
  std::string worker_id;  // the same across restarts of one device
  std::string join_token;
  uint64_t memory_bytes = 0;  // the offer
  uint32_t thread_count = 1;
  bool reference_kernels = false;
};

class NativeWorker {
 public:
  // `send` takes one WebSocket message in pieces. `on_finished` is called once when the worker
  // gives up (refused, wrong version), with a sentence for people; the owner then closes the
  // connection.
  NativeWorker(NativeWorkerOptions options, std::shared_ptr<PackageSource> source,
               std::function<void(std::vector<Slice>)> send,
               std::function<void(Error)> on_finished);
  // Stops both threads; a download is cancelled, a step in progress is finished.
  ~NativeWorker();
  NativeWorker(const NativeWorker&) = delete;
  NativeWorker& operator=(const NativeWorker&) = delete;

  void OnMessage(Slice message);
  // Says goodbye to the orchestrator.
  void Leave(const std::string& reason);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// "8 threads, AVX-512" and the like.
std::string DescribeProcessor(uint32_t thread_count);
// Memory that a worker offers when the user says nothing: half of what the system has available.
uint64_t DefaultMemoryOffer();

}  // namespace weft::worker
