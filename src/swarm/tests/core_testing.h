// For tests of the core: a swarm of scripted workers around a Core, without time of its own. Each
// worker answers everything at once and correctly unless a test switches an answer off; every
// action is kept for inspection. Whatever a test is about, it fails where the core sends a step
// that a real worker would refuse: of a binding that is not loaded, or rows that do not continue
// what its layers hold (core_testing_engine.h).
//
// The "model" adds one: its hidden rows carry token ids, and the last stage answers with the next
// id (modulo the vocabulary), so that an answer to the prompt {..., 5} is 6, 7, 8, ...
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/datagram_address.h"
#include "swarm/core/core.h"
#include "swarm/tests/core_testing_engine.h"
#include "wire/fork_frame.h"
#include "wire/whole_frame.h"

namespace weft::swarm {

inline constexpr uint64_t kTestLayerBytes = 1'000'000;

// Six layers of 1 MB, no keys and values to speak of, context 64, two sessions. Whoever joins may
// be planned with at once.
CoreOptions TestOptions();

struct TestWorker {
  uint64_t memory_bytes = 100'000'000;
  std::string kind = "native", engine = "native";
  bool needs_onnx = false, takes_experts = false, can_be_hub = false, keeps_state = false,
       runs_groups = false, divides_heads = false, divides_products = false, half_rows = false,
       sum_steps = false, integer_rows = false, states_ahead = false, rows_to_server = false;
  uint32_t makes_tokens = 0;
  std::vector<uint32_t> cached_layers;
  std::string device_id, network, device = "test", address = "127.0.0.1";
  bool trusted = true;
  std::string token;
  std::vector<DatagramAddress> datagram_addresses;
  double bytes_per_s = 1e9;
  std::vector<DType> dtypes;
  // Answers that a test may hold back.
  bool answer_prepare = true, answer_steps = true, answer_pings = true, answer_downloads = true,
       answer_measure = true, answer_experts = true;
  uint32_t run_us = 100;       // reported for every measured run, times the number of layers
  uint32_t compute_us = 1000;  // reported for every step, and for each of its rows
  uint32_t row_us = 0;
  bool takes_time = false;  // it answers a step so much later, and tells each of several tokens
  bool wrong_rows = false;  // of probes: it gives them back as they came
  float row_error = 0;      // a share
};

TestWorker Half();    // holds three layers of TestOptions
TestWorker Third();   // holds two
TestWorker Silent();  // answers no step by itself

// Tokens that count up from `from`.
std::vector<int32_t> Counting(int32_t from, size_t count);

// A binding as its worker knows it.
struct TestBinding {
  BindingId id;
  uint32_t stage = 0;
  LayerSpan layers;
  bool standby = false;
  bool loaded = false;  // the worker has said Prepared
};

// Rows of one session as a worker got them.
struct TestRun {
  WorkerId worker;
  BindingId binding;
  LayerSpan layers;
  wire::Run run;
};

class TestSwarm {
 public:
  explicit TestSwarm(CoreOptions options = TestOptions());

  // Connects a worker and answers Init; returns its id.
  WorkerId Join(TestWorker worker = {});
  // Connects without answering Init.
  WorkerId Open(TestWorker worker = {});
  void Lose(WorkerId id);
  // A worker that was lost connects again, with what it had loaded and held.
  WorkerId Return(WorkerId lost);
  // The same of one that was not missed yet: its old line still seems to be there.
  WorkerId ReturnUnmissed(WorkerId lost) {
    Gone(lost);
    return Return(lost);
  }
  // The core ends without a word, and another one begins with what it has placed. All workers are
  // lost; nobody hears any more of the requests there were.
  void Restart(const std::function<void(CoreOptions&)>& change = {});
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

  // What the worker was told to hold and not told to drop, by rising number.
  const std::vector<TestBinding>& bindings(WorkerId id) const { return seen_.at(id).bindings; }
  // The answer to the last PrepareStage, where it was held back, or to this one.
  wire::pb::WorkerMessage Prepared(WorkerId id) const;
  wire::pb::WorkerMessage Prepared(WorkerId id, BindingId binding) const;
  // Answers every PrepareStage that was held back.
  void AnswerPrepares(WorkerId id);
  // The answer to the last HoldExperts, where it was held back; later ones are answered at once.
  void AnswerExperts(WorkerId id);
  // The same for this statement alone.
  void AnswerExpertsOnce(WorkerId id);
  wire::pb::WorkerMessage Failed(BindingId binding, ErrorCode code) const;
  // The oldest unanswered step of the worker, answered now.
  void AnswerStep(WorkerId id);
  // From now on the worker answers steps at once; first those that were held back.
  void AnswerSteps(WorkerId id);
  void FailStep(WorkerId id, ErrorCode code, const std::string& message);
  Slice ResultOf(WorkerId id) const;
  size_t unanswered_steps(WorkerId id) const;
  // The oldest unanswered one. REQUIRES: there is one.
  const wire::Frame& step(WorkerId id) const { return seen_.at(id).steps.front().frame; }
  // Positions of the session that all these layers hold on the worker.
  uint32_t Held(WorkerId id, LayerSpan layers, uint32_t session = 1) const {
    return seen_.at(id).engine.Held(layers, session);
  }
  // whole-model frames (wire/whole_frame.h) that a worker got and has not answered. `TellTokens`
  // gives the next `count` of one of them, the oldest unless told: the ids behind its token.
  const std::deque<wire::Generate>& generates(WorkerId id) const { return seen_.at(id).generates; }
  void TellTokens(WorkerId id, uint32_t count, size_t which = 0);
  void FailGenerate(WorkerId id, size_t which = 0);
  std::optional<wire::WholeModel::State> told_whole(WorkerId id) const {
    return seen_.at(id).whole;
  }
  // Fork frames that a worker got, in order: "1 into 2 at 40".
  const std::vector<std::string>& forks(WorkerId id) const { return seen_.at(id).forks; }
  uint32_t stops(WorkerId id) const { return seen_.at(id).stops; }
  // Of the last SetMessageLimit; 0: none came.
  uint64_t message_limit(WorkerId id) const { return seen_.at(id).message_limit; }
  void AskWhole(WorkerId id, bool wanted, const std::string& api_key = "");
  const std::string& whole_message(WorkerId id) const { return seen_.at(id).whole_message; }

  Core& core() { return core_; }
  Snapshot picture() const { return core_.snapshot(now_); }
  Instant now() const { return now_; }
  float tail_mass = 0;      // beyond the candidates; the best one has 1
  bool hold_plans = false;  // keep StartPlanning for the test
  std::vector<StartPlanning> held_plans;
  // Answers the last one of them, as if no plan were better than these stages (of a repair: for the
  // hole), or with no plan at all.
  void AnswerPlan(const std::vector<std::pair<WorkerId, LayerSpan>>& stages);
  void AnswerNoPlan() { Feed(PlanFound{held_plans.back().work, {}}); }
  // A worker joins a swarm that serves, with plans held, and is timed: the plan that is held then
  // may count on it.
  WorkerId JoinTimed(TestWorker worker);

  // What happened, in order, since the start or ClearLog().
  const std::vector<Action>& log() const { return log_; }
  void ClearLog() {
    log_.clear();
    runs_.clear();
  }
  const std::vector<TestRun>& runs() const { return runs_; }
  // Those of a session that a worker got, in order, frames that continue each other taken together:
  // "[0,24) none [24,25) hidden".
  std::string Rows(WorkerId id, uint32_t session = 1) const;
  std::vector<int32_t> Tokens(RequestId id) const;
  // The last one that was told.
  std::optional<SessionTrace> Trace(RequestId id) const;
  std::vector<FinishRequest> Ends(RequestId id) const;
  std::vector<std::string> CloseReasons(WorkerId id) const;
  // Names of the control messages sent to a worker, pings left out: "init prepare_stage
  // retire".
  std::string Sent(WorkerId id) const;
  // What pings have told a worker of successors: "b c | " of two servers, and then of none.
  std::string SuccessorsInPings(WorkerId id) const;
  // The last control message of this kind to the worker. REQUIRES: one was sent.
  wire::pb::ServerMessage Last(WorkerId id, wire::pb::ServerMessage::KindCase kind) const;
  wire::pb::WorkerMessage ConnectOf(WorkerId id) const;

 private:
  struct Step {
    wire::Frame frame;
    LayerSpan layers;
    // Of every run: its rows, and its session's tokens up to its end as they were when it came.
    std::vector<std::vector<int32_t>> rows, known;
  };
  struct Seen {
    BindingId newest_binding;
    std::vector<TestBinding> bindings;
    TestEngine engine;
    std::deque<Step> steps;
    // What changes the engine takes effect behind the steps that came before it.
    uint32_t steps_received = 0, steps_done = 0, steps_at_failure = 0;
    std::deque<std::pair<uint32_t, std::variant<wire::pb::ServerMessage, wire::Fork>>> behind_steps;
    std::deque<wire::Generate> generates;
    std::optional<wire::WholeModel::State> whole;
    std::vector<std::string> forks;
    std::string whole_message;
    uint32_t stops = 0;
    uint64_t message_limit = 0;
  };
  void Carry(const Action& action);
  void NoteAnswer(const Event& event);
  void OnStep(WorkerId id, wire::Frame frame);
  void OnFork(WorkerId id, const wire::Fork& fork);
  std::string Compute(Seen& seen, const Step& step);
  void ChangeEngine(Seen& seen);
  void OnBindings(WorkerId id, const wire::pb::ServerMessage& message);
  void OnWholeFrame(WorkerId id, const wire::WholeFrame& frame);
  wire::pb::WorkerMessage ExpertsHeld(const wire::pb::HoldExperts& asked) const;
  wire::pb::Measured::Answer AnswerOf(const TestWorker& worker,
                                      const wire::pb::MeasureSpeed::Probe& probe) const;
  void OnControlAction(const SendControl& action);
  void SayStepFailed(WorkerId id, const wire::Frame& frame, ErrorCode code,
                     const std::string& message);
  void Gone(WorkerId id);
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
  std::map<WorkerId, std::pair<TestWorker, Seen>> lost_;
  TestTokens tokens_;
  std::deque<Event> queue_;
  bool running_ = false;
  std::vector<Action> log_;
  std::vector<TestRun> runs_;
};

}  // namespace weft::swarm
