// For tests of the core: a swarm of scripted workers around a Core, without time of its own. Each
// worker answers everything at once and correctly unless a test switches an answer off; every
// action is kept for inspection.
//
// The "model" adds one: its hidden rows carry token ids, and the last stage answers with the next
// id (modulo the vocabulary), so that a generation from prompt {..., 5} is 6, 7, 8, ...
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "swarm/core.h"
#include "wire/generation.h"

namespace weft::swarm {

inline constexpr uint64_t kTestLayerBytes = 1'000'000;

// Six layers of 1 MB, no keys and values to speak of, context 64, two sessions.
CoreOptions TestOptions();

struct TestWorker {
  uint64_t memory_bytes = 100'000'000;
  std::string kind = "native", engine = "native";
  bool needs_onnx = false, makes_tokens = false;
  std::vector<uint32_t> cached_layers;
  std::string device_id;
  std::string token;
  double bytes_per_s = 1e9;
  // Answers that a test may hold back.
  bool answer_prepare = true, answer_steps = true, answer_pings = true,
       answer_downloads = true, answer_measure = true;
  uint32_t run_us = 100;       // reported for every measured run, times the number of layers
  uint32_t compute_us = 1000;  // reported for every step
};

class TestSwarm {
 public:
  explicit TestSwarm(CoreOptions options = TestOptions());

  // Connects a worker and answers Init; returns its id.
  WorkerId Join(TestWorker worker = {});
  // Connects without answering Init.
  WorkerId Open(TestWorker worker = {});
  void Lose(WorkerId id);
  TestWorker& worker(WorkerId id) { return workers_.at(id); }

  RequestId Submit(std::vector<int32_t> prompt, uint32_t max_tokens);
  void Submit(Request request);
  void Cancel(RequestId id) { Feed(RequestCancelled{id}); }

  // Hands the core an event, carries out what follows from it until nothing happens any more.
  void Feed(Event event);
  void Control(WorkerId id, wire::pb::WorkerMessage message) {
    Feed(WorkerControl{id, std::move(message)});
  }
  // Lets time pass, firing timers on the way.
  void Advance(Duration duration);
  // Join, debounce, plan, prepare.
  void BringUp(int workers, TestWorker worker = {});

  // The answer to the last PrepareStage, where it was held back.
  wire::pb::WorkerMessage Prepared(WorkerId id) const;
  // The oldest unanswered step of the worker, answered now.
  void AnswerStep(WorkerId id);
  void FailStep(WorkerId id, ErrorCode code, const std::string& message);
  Slice ResultOf(WorkerId id) const;
  size_t unanswered_steps(WorkerId id) const;
  // The oldest unanswered one. REQUIRES: there is one.
  const wire::Frame& step(WorkerId id) const { return seen_.at(id).steps.front(); }
  // Generate frames (wire/generation.h) that a worker got and has not answered. `TellTokens` gives
  // the next `count` of the oldest one: the ids behind its token.
  const std::deque<wire::Generate>& generates(WorkerId id) const { return seen_.at(id).generates; }
  void TellTokens(WorkerId id, uint32_t count);
  void FailGenerate(WorkerId id);
  std::optional<wire::WholeModel::State> told_whole(WorkerId id) const {
    return seen_.at(id).whole;
  }
  uint32_t stops(WorkerId id) const { return seen_.at(id).stops; }
  // Of the last SetMessageLimit; 0: none came.
  uint64_t message_limit(WorkerId id) const { return seen_.at(id).message_limit; }
  void AskWhole(WorkerId id, bool wanted);

  Core& core() { return core_; }
  Snapshot picture() const { return core_.snapshot(now_); }
  Instant now() const { return now_; }
  float tail_mass = 0;      // beyond the candidates; the best one has 1
  bool hold_plans = false;  // keep StartPlanning for the test
  std::vector<StartPlanning> held_plans;

  // What happened, in order, since the start or ClearLog().
  const std::vector<Action>& log() const { return log_; }
  void ClearLog() { log_.clear(); }
  std::vector<int32_t> Tokens(RequestId id) const;
  std::vector<FinishRequest> Ends(RequestId id) const;
  std::vector<std::string> CloseReasons(WorkerId id) const;
  // Names of the control messages sent to a worker, pings left out: "init prepare_stage
  // retire".
  std::string Sent(WorkerId id) const;
  // The last control message of this kind to the worker. REQUIRES: one was sent.
  wire::pb::ServerMessage Last(WorkerId id, wire::pb::ServerMessage::KindCase kind) const;
  wire::pb::WorkerMessage ConnectOf(WorkerId id) const;

 private:
  struct Seen {
    uint32_t prepare_epoch = 0;
    std::deque<wire::Frame> steps;
    std::deque<wire::Generate> generates;
    std::optional<wire::WholeModel::State> whole;
    uint32_t stops = 0;
    uint64_t message_limit = 0;
  };
  void Carry(const Action& action);
  void OnGenerationFrame(WorkerId id, const wire::GenerationFrame& frame);
  void OnControlAction(const SendControl& action);
  void Reply(WorkerId id, wire::pb::WorkerMessage message) {
    queue_.push_back(WorkerControl{id, std::move(message)});
  }

  CoreOptions options_;
  Core core_;
  Instant now_{1'000'000};
  WorkerId next_worker_ = 1;
  RequestId next_request_ = 1;
  std::map<WorkerId, TestWorker> workers_;
  std::map<WorkerId, Seen> seen_;
  std::deque<Event> queue_;
  bool running_ = false;
  std::vector<Action> log_;
};

}  // namespace weft::swarm
