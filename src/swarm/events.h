// What the core is told (Event) and what it wants done (Action). The core has no sockets, threads,
// clock, files or random source: a host (server/swarm_host in production, sim/ in simulation) feeds
// events with the time and carries out actions in order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "planner/problem.h"
#include "sampling/constraint.h"
#include "sampling/parameters.h"
#include "swarm/ids.h"
#include "wire/control.pb.h"
#include "wire/data_frame.h"

namespace weft::swarm {

using WorkId = uint64_t;  // a planning job

// One answer that is wanted, its prompt rendered and tokenised.
struct Request {
  RequestId id;
  // Who asks, as far as turns and shares of the queue go; "": the server itself, without a limit.
  std::string client;
  std::vector<int32_t> prompt_ids;  // at least one
  // Requests with different salts share nothing that was computed, so that nobody can tell from the
  // time that an answer takes what somebody else has asked.
  std::string salt;
  // Not empty: nothing is generated. The prompt is computed, and kept under this name for requests
  // of the same salt that begin with it, whatever becomes of plans, until PrefixForgotten or until
  // another one has the name.
  std::string keep;
  // Of its answer, before a restart: they count as generated and are not emitted again.
  std::vector<int32_t> answer_ids;
  uint32_t max_tokens = 0;        // tokens to generate, at least 1
  sampling::Parameters sampling;  // temperature 0: greedy
  std::vector<int32_t> stop_ids;  // end-of-sequence ids: end the request, are not emitted
  // Positions of the prompt from which a later request may go on: behind the system prompt, before
  // the answer. Of use to models with recurrent state; others go on from anywhere.
  std::vector<uint32_t> marks;
  // What the answer has to be; null: anything. Its tokens are chosen by the core, one by one.
  std::shared_ptr<const sampling::Constraint> constraint;
  uint32_t top_logprobs = 0;  // candidates to report with each token, 0..20
  bool want_logprobs = false;
  // What the head gives for rows of the prompt comes with EmitLogits: logits for evaluation, and
  // what becomes an embedding.
  bool want_logits = false;    // for every row
  bool want_last_row = false;  // for the last one alone

  bool wants_rows() const { return want_logits || want_last_row; }
};

// ---- events ----
struct WorkerConnected {
  WorkerId worker;
  std::string address;
  std::string network;  // by which joins are limited; empty: they are not
  // It is in this process, came from this machine as the server's own user, or has shown the API
  // key: what it computes is what others are checked with.
  bool trusted = false;
};
struct WorkerControl {
  WorkerId worker;
  wire::pb::WorkerMessage message;
};
struct WorkerData {
  WorkerId worker;
  Slice frame;
};
struct WorkerLost {
  WorkerId worker;
  std::string reason;
};
// Nothing is read from it for now, since what it sends to another worker waits there.
struct WorkerHeldBack {
  WorkerId worker;
  bool held = false;  // false: it is read from again
};
struct RequestSubmitted {
  Request request;
};
struct RequestCancelled {
  RequestId request;
};
// What is kept under the name makes room when that is needed; a name that is unknown is ignored.
struct PrefixForgotten {
  std::string salt, name;
};
struct PlanFound {
  WorkId work = 0;
  planner::PlanOutcome outcome;
};
// The owner's answer to a device that wants to compute the whole model.
struct ConsentGiven {
  WorkerId worker;
  bool allowed = false;
};
// What came of CheckLayers: what is wrong with them on the server, in a sentence; nullopt: nothing.
struct LayersChecked {
  uint32_t first = 0, end = 0;
  std::optional<std::string> problem;
};
struct TimerFired {};  // Core::next_timer() has come

using Event = std::variant<WorkerConnected, WorkerControl, WorkerData, WorkerLost, WorkerHeldBack,
                           RequestSubmitted, RequestCancelled, PrefixForgotten, PlanFound,
                           ConsentGiven, LayersChecked, TimerFired>;

// ---- actions ----
struct SendControl {
  WorkerId worker;
  wire::pb::ServerMessage message;
};
// One WebSocket message made of these pieces in order; payload slices are shared, not copied.
struct SendData {
  WorkerId worker;
  std::vector<Slice> pieces;
  WorkerId sender;  // of a shard message, which the host passes on as the receiver takes it
};
struct CloseWorker {
  WorkerId worker;
  std::string reason;
};
// From now on no legal message of this connection is longer than `bytes`, so that the host need not
// receive, let alone keep, anything longer. Comes with the first accepted Connect and whenever what
// is expected of the worker changes. Until then a connection may send 64 KiB in all
// (wire::kMaxControlBytes): Connect and nothing else.
struct SetMessageLimit {
  WorkerId worker;
  uint64_t bytes = 0;
};

struct TokenLogprob {
  int32_t token_id = 0;
  float logprob = 0;
};
struct EmitToken {
  RequestId request;
  int32_t token_id = 0;
  float logprob = 0;              // when asked for
  float margin = 0;               // best minus second logit of the step, greedy requests
  std::vector<TokenLogprob> top;  // when asked for
};
// [rows, ModelInfo::head_columns()] f32 for prompt positions first_position... Of a model that
// makes embeddings they may begin once more with the first, in place of all that came: a device
// that computed some of them turned out to be wrong.
struct EmitLogits {
  RequestId request;
  uint32_t first_position = 0;
  uint32_t rows = 0;
  Slice logits;
};
enum class FinishReason { kStop, kLength, kCancelled, kError };
// The one terminal event of a request.
struct FinishRequest {
  RequestId request;
  FinishReason reason = FinishReason::kStop;
  std::optional<Error> error;  // kError only
  uint32_t prompt_tokens = 0;
  uint32_t cached_prompt_tokens = 0;  // of them taken from a kept session
  uint32_t generated_tokens = 0;
  // Neuron groups that its rows had to do without; nullopt: where nothing may be lost.
  std::optional<uint64_t> lost_groups;
  bool over_share = false;  // refused: so many requests of its client wait already
};
// Call RunPlanning on another thread and answer with PlanFound{work, its outcome}.
struct StartPlanning {
  WorkId work = 0;
  std::vector<planner::LayerCost> layers;
  std::vector<planner::WorkerMetrics> workers;
  planner::PlanContext context;
  // Set: who fills this hole (planner::RepairPlan); the outcome's plan is of the hole alone.
  std::optional<planner::RepairProblem> repair;
};
// A device says that what the server gave it of layers [first, end) is not what the package
// promises: look whether the server's own files are, and answer with LayersChecked.
struct CheckLayers {
  uint32_t first = 0, end = 0;
};
// Pure and thread-safe.
planner::PlanOutcome RunPlanning(const StartPlanning& job);
// Something that the server's log should say.
struct Warn {
  std::string sentence;
};
// Snapshot() has changed; the host may publish it (it decides how often).
struct SwarmChanged {};

using Action =
    std::variant<SendControl, SendData, CloseWorker, SetMessageLimit, EmitToken, EmitLogits,
                 FinishRequest, StartPlanning, CheckLayers, Warn, SwarmChanged>;

}  // namespace weft::swarm
