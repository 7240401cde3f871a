// A modelled worker: speaks the protocol exactly as docs/protocol.md says, computes the hash model,
// takes time for it, and refuses - loudly, as a violation - everything that the core should never
// have asked of it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/random.h"
#include "sim/hash_model.h"
#include "sim/scheduler.h"
#include "swarm/costs.h"
#include "swarm/layer_set.h"
#include "swarm/options.h"
#include "wire/generation.h"

namespace weft::sim {

// A device, across its connections.
struct Device {
  std::string id;
  std::string kind = "native", engine = "native";
  bool needs_onnx = false;
  bool pings_wait =
      false;  // one thread for everything: a ping is answered after the step before it
  uint64_t memory_bytes = 0;
  double weight_factor = 1;  // true factor, reported after loading
  double claimed_weight_factor = 1;
  double overhead_us = 200;       // per step
  double bytes_per_us = 1000;     // compute
  double slowdown = 1;            // faults change this
  double link_bytes_per_us = 10;  // each direction
  Duration latency;               // one way
  // Faults of this device, each a probability.
  double step_failure = 0, numbers_failure = 0, prepare_failure = 0, corrupt_frame = 0,
         illegal_message = 0, commit_crash = 0;
  swarm::LayerSet disk;  // blobs survive reconnects
};

using FromWorker = std::variant<wire::pb::WorkerMessage, Slice>;

class ModelWorker : public std::enable_shared_from_this<ModelWorker> {
 public:
  struct Hooks {
    std::function<void(FromWorker)> send;
    // Something that must never happen, in words.
    std::function<void(const std::string&)> violation;
    std::function<void()> crash;
    // So many tokens were chosen without the core.
    std::function<void(size_t count)> generated = [](size_t) {};
    // A step of this session was made to fail on purpose because its numbers were not finite.
    std::function<void(uint32_t session)> numbers_failed;
  };

  ModelWorker(const swarm::CoreOptions& options, const swarm::Costs& costs, const HashModel& model,
              Device& device, Scheduler& scheduler, uint64_t seed, Hooks hooks);

  void OnControl(wire::pb::ServerMessage message);
  void OnFrame(Slice message);
  // Nothing is answered any more; a frozen worker still takes messages.
  void Freeze() { frozen_ = true; }
  // Steps and loads are not answered any more; pings are, where they do not wait for them.
  void Stall() { stalled_ = true; }
  // Its user presses "Run it all here", or takes it back.
  void AskWhole(bool wanted);
  bool refused() const { return refused_; }
  uint64_t held_bytes() const;
  size_t session_count() const { return sessions_.size(); }

 private:
  struct Session {
    uint32_t generation = 0;
    std::map<uint32_t, std::vector<uint64_t>> chains;  // by layer
  };
  struct Told {
    uint32_t generation = 0;
    SamplingParams params;
    std::vector<int32_t> tokens;
  };
  struct Stage {
    uint32_t epoch = 0, stage = 0, first = 0, end = 0;
    bool loaded = false, committed = false;
  };
  struct Load {
    uint32_t epoch;
  };
  struct Step {
    Slice message;
    Instant arrival;
  };
  struct Generation {
    wire::Generate frame;
    uint32_t made = 0;
    bool began = false;
  };
  using Job = std::variant<wire::pb::ServerMessage, Load, Step, Generation>;

  void Push(Job job);
  void RunNext();
  Duration TimeOf(const Job& job);
  void Do(wire::pb::ServerMessage& message, Instant began);
  void Do(const Load& load, Instant began);
  void Do(const Step& step, Instant began);
  void ForgetAll() {
    sessions_.clear();
    told_.clear();
  }
  void Forget(const wire::pb::InvalidateSessions& message);
  void OnSampling(const wire::pb::Sampling& sampling);
  void Choose(const wire::Run& run, uint32_t position, uint64_t row, std::vector<uint8_t>& payload);
  void Do(Generation& generation, Instant began);
  void OnGenerationFrame(ByteSpan message);
  int32_t ChooseToken(const wire::Generate& asked, uint64_t row) const;
  Result<wire::Tokens> MakeTokens(Generation& generation);
  void FailStep(uint32_t sequence, uint32_t epoch, uint32_t stage, const Error& error);
  void OnPrepare(const wire::pb::PrepareStage& prepare);
  void Commit(const wire::pb::CommitStage& commit);
  void Retire(const swarm::LayerSet& keep);
  void Download(std::vector<uint32_t> layers, std::function<void()> done);
  void DownloadNext();
  Result<std::vector<uint8_t>> Compute(const wire::Frame& frame, uint32_t compute_us);
  Status TakeRun(const wire::Run& run, const Stage& stage);
  void RunRow(const wire::Run& run, const Stage& stage, uint32_t position, uint64_t row,
              std::vector<uint8_t>& payload);
  void SendFrame(std::vector<uint8_t> message);
  void Reply(wire::pb::WorkerMessage message);
  void Violation(const std::string& text) { hooks_.violation(device_.id + ": " + text); }
  void MaybeIllegal();

  const swarm::CoreOptions& options_;
  const swarm::Costs& costs_;
  const HashModel& model_;
  Device& device_;
  Scheduler& scheduler_;
  SeededRandom random_;
  Hooks hooks_;
  bool frozen_ = false, stalled_ = false, refused_ = false, connected_ = false;
  std::deque<Job> jobs_;
  bool running_ = false;
  struct Fetch {
    std::vector<uint32_t> layers;
    std::function<void()> done;
  };
  std::deque<Fetch> fetches_;
  bool fetching_ = false;
  swarm::LayerSet loaded_;
  std::vector<Stage> stages_;
  uint32_t committed_epoch_ = 0;
  std::map<uint32_t, Session> sessions_;
  std::map<uint32_t, Told> told_;  // by session: how it samples
  std::set<uint32_t> unwanted_;    // sequences of generations that were stopped
  // Sessions whose last step was failed on purpose, with its generation: what follows in it cannot
  // continue.
  std::map<uint32_t, uint32_t> failed_;
};

}  // namespace weft::sim
