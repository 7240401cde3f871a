// Events tell the core what has happened, and actions say what it wants done. The core has no
// sockets, threads, clock, files or random source. A host (server/swarm_host in production, sim/ in
// simulation) feeds events with the time and carries out actions in order.
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
#include "swarm/successor.h"
#include "wire/control.pb.h"
#include "wire/data_frame.h"

namespace weft::swarm {

using WorkId = uint64_t;  // a planning job

// One answer that is wanted, its prompt rendered and tokenised.
// The session that a request has. Whoever asks may tell a later core of the swarm (flow/claims.h).
struct SessionTrace {
  SessionId session;
  // Rows of these generations are of the request's tokens. It may have others later, and then so
  // may another request.
  uint32_t first_generation = 0, last_generation = 0;
  bool operator==(const SessionTrace&) const = default;
};
struct Request {
  RequestId id;
  // The client who asks, as far as turns and shares of the queue go. "" is the server itself,
  // without a limit.
  std::string client;
  std::vector<int32_t> prompt_ids;  // at least one
  // Requests with different salts share nothing that was computed. So nobody can tell from the time
  // of an answer what somebody else has asked.
  std::string salt;
  // A name under which the prompt is kept; nothing is generated then. Requests of the same salt
  // that begin with the prompt find it there, whatever becomes of plans. It stays until
  // PrefixForgotten, or until another one has the name.
  std::string keep;
  // By this whoever asks again finds its answer (server/linked_requests.h); the core does not look
  // at it. "": nobody does.
  std::string key;
  // Tokens of its answer from before a restart, or from another server. They count as generated and
  // are not emitted again.
  std::vector<int32_t> answer_ids;
  // The session that an earlier core gave it. Devices may still hold what was computed for it.
  std::optional<SessionTrace> resume;
  // The client was told the logprobs of `answer_ids`; else they would be wanted, too.
  bool logprobs_are_known = false;
  // Another server had accepted it: it needs no room in the queue, and stands in front.
  bool was_accepted = false;
  uint32_t max_tokens = 0;        // tokens to generate, at least 1
  sampling::Parameters sampling;  // temperature 0: greedy
  std::vector<int32_t> stop_ids;  // end-of-sequence ids: end the request, are not emitted
  // Positions of the prompt from which a later request may go on: behind the system prompt, before
  // the answer. Models with recurrent state need them; others go on from anywhere.
  std::vector<uint32_t> marks;
  // What the answer has to be; null for anything. The core chooses its tokens one by one.
  std::shared_ptr<const sampling::Constraint> constraint;
  uint32_t top_logprobs = 0;  // candidates to report with each token, 0..20
  bool want_logprobs = false;
  // EmitLogits brings what the head gives for rows of the prompt: logits for evaluation, and what
  // becomes an embedding.
  bool want_logits = false;    // for every row
  bool want_last_row = false;  // for the last one alone

  bool wants_rows() const { return want_logits || want_last_row; }
};

// ---- events ----
struct WorkerConnected {
  WorkerId worker;
  std::string address;
  std::string network;  // by which joins are limited; empty: they are not
  // The device is in this process, came from this machine as the server's own user, or has shown
  // the API key. Others are checked with what it computes.
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
// The host reads nothing from this worker for now, since what it sends to another worker waits
// there.
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
// The prompt under this name makes room when that is needed. An unknown name is ignored.
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
// The owner wants the device to go. Its layers move to others first, where there are any, and it is
// told the sentence. CoreOptions::find_eviction keeps it from coming back.
struct WorkerEvicted {
  WorkerId worker;
  std::string sentence;
};
// The result of CheckLayers: a sentence about what is wrong with them on the server, or nullopt.
struct LayersChecked {
  uint32_t first = 0, end = 0;
  std::optional<std::string> problem;
};
// This server goes on leading with another number, or others may lead after it. The number never
// falls. Workers hear the number with their next Init.
struct LeadershipChanged {
  uint64_t incarnation = 0;
  std::vector<Successor> successors;
};
struct TimerFired {};  // Core::next_timer() has come

using Event =
    std::variant<WorkerConnected, WorkerControl, WorkerData, WorkerLost, WorkerHeldBack,
                 RequestSubmitted, RequestCancelled, PrefixForgotten, PlanFound, ConsentGiven,
                 WorkerEvicted, LayersChecked, LeadershipChanged, TimerFired>;

// ---- actions ----
struct SendControl {
  WorkerId worker;
  wire::pb::ServerMessage message;
};
// One WebSocket message is made of these pieces in order. Payload slices are shared, not copied.
struct SendData {
  WorkerId worker;
  std::vector<Slice> pieces;
  WorkerId sender;  // of a shard message, which the host passes on as the receiver takes it
};
struct CloseWorker {
  WorkerId worker;
  std::string reason;
};
// No legal message of this connection is longer than `bytes` from now on, so that the host need not
// receive, let alone keep, anything longer. This comes with the first accepted Connect, and
// whenever what is expected of the worker changes. Until then a connection may send 64 KiB in all
// (wire::kMaxControlBytes): Connect and nothing else.
struct SetMessageLimit {
  WorkerId worker;
  uint64_t bytes = 0;
};

struct TokenLogprob {
  int32_t token_id = 0;
  float logprob = 0;
};
// What is computed for the request from now on is in these generations of this session.
struct EmitSession {
  RequestId request;
  SessionTrace trace;
};
struct EmitToken {
  RequestId request;
  uint32_t index = 0;  // in the answer, with Request::answer_ids in front
  int32_t token_id = 0;
  float logprob = 0;              // when asked for
  float margin = 0;               // best minus second logit of the step, greedy requests
  std::vector<TokenLogprob> top;  // when asked for
};
// Rows of the head for prompt positions from first_position on, [rows, ModelInfo::head_columns()]
// f32. A model that makes embeddings may begin once more with the first, in place of all that came.
// Then a device that computed some of them turned out to be wrong.
struct EmitLogits {
  RequestId request;
  uint32_t first_position = 0;
  uint32_t rows = 0;
  Slice logits;
};
enum class FinishReason { kStop, kLength, kCancelled, kError };
// This event ends a request, once.
struct FinishRequest {
  RequestId request;
  FinishReason reason = FinishReason::kStop;
  std::optional<Error> error;  // kError only
  uint32_t prompt_tokens = 0;
  uint32_t cached_prompt_tokens = 0;  // of them taken from a kept session
  uint32_t generated_tokens = 0;
  // The neuron groups that its rows had to do without; nullopt where nothing may be lost.
  std::optional<uint64_t> lost_groups;
  bool has_no_room = false;  // refused: the queue has no place for it
  bool over_share = false;   // because so many requests of its client wait already
};
// The host calls RunPlanning on another thread and answers with PlanFound{work, its outcome}.
struct StartPlanning {
  WorkId work = 0;
  std::vector<planner::LayerCost> layers;
  std::vector<planner::WorkerMetrics> workers;
  planner::PlanContext context;
  // This hole is to be filled (planner::RepairPlan), where it is set. The outcome's plan is of the
  // hole alone.
  std::optional<planner::RepairProblem> repair;
};
// A device says that the layers [first, end) that it was given are not what the package promises.
// The host looks whether the server's own files are, and answers with LayersChecked.
struct CheckLayers {
  uint32_t first = 0, end = 0;
};
// Finds the plan. This is pure and may be called from any thread.
planner::PlanOutcome RunPlanning(const StartPlanning& job);
// The server's log should say this.
struct Warn {
  std::string sentence;
};
// Snapshot() has changed. The host may publish it, and decides how often.
struct SwarmChanged {};

using Action =
    std::variant<SendControl, SendData, CloseWorker, SetMessageLimit, EmitSession, EmitToken,
                 EmitLogits, FinishRequest, StartPlanning, CheckLayers, Warn, SwarmChanged>;

}  // namespace weft::swarm
