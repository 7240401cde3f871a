// Moves rows of a plan's sessions through its stages: composes step frames from what waits in front
// of a stage, checks answers, keeps the rows that they bring. Knows nothing of how a plan comes
// about, nor of what is done with the last stage's outputs, nor of other plans (pipelines.h).
//
// Nothing is pushed from stage to stage. What a stage gives goes into the session's history in
// front of the next layer, and each stage is sent what it has not had yet: rows that have just
// come, or all of them where its worker has taken over a moment ago. So a loss, a prompt and a
// token are the same thing at different distances (session.h has a picture).
//
// Rows of several sessions that wait at the same stage share a frame. Conversations that decode
// together go round in as many parts as make the most tokens (micro_batches.h); nothing else waits
// for company. A long prompt neither fills the server with rows that wait in front of a slow stage
// nor makes others wait for more than one chunk of it at each stage (MaySendChunk). Conversations
// that nobody waits for are caught up with while nobody waits at all (MaySendIdle). Answers that
// belong to a generation that is over are recognised by their run and dropped.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "swarm/flow/session.h"
#include "swarm/options.h"
#include "swarm/outbox.h"
#include "swarm/plan_state.h"
#include "swarm/workers/costs.h"
#include "swarm/workers/worker.h"

namespace weft::swarm {

// What the last stage gave for one run of a session that still wants it.
struct StageOutput {
  wire::Run run;
  Slice payload;
};

// What a worker that runs the whole model has chosen for a session.
struct GeneratedTokens {
  wire::Run run;  // first_position: of the row that the first of these tokens follows
  std::vector<int32_t> token_ids;
  bool last = false;  // nothing more comes for this run
  bool live = false;  // the session still wants it
};

// What a session's rows of a step had to do without.
struct LostGroups {
  SessionId session;
  uint32_t groups = 0;
};

struct TrafficCounts {
  uint64_t bytes_sent = 0, bytes_received = 0;  // whole data frames
};

// How wrong predictions of single steps were, of one row, on workers that were idle.
struct PredictionErrors {
  MeanError initial;  // by the plan when it was made, or when its devices had first been measured
  MeanError running;  // by what was known when the step was sent
};

// What all pipelines of a core count together.
struct PipelineTotals {
  uint32_t next_sequence = 1;  // of frames; a worker may go from one plan to another
  TrafficCounts traffic;
  PredictionErrors errors;
  // Workers that were sent something, or answered; some perhaps twice.
  std::vector<WorkerId> touched;
};

class Pipeline {
 public:
  // Of the sessions of `plan`. Keeps references; all outlive the pipeline.
  Pipeline(PlanId plan, const CoreOptions& options, const Costs& costs, Roster& roster,
           SessionTable& sessions, Outbox& outbox, PipelineTotals& totals);

  // From now on frames go along these stages, none where it is null. Followers are loaded and run
  // no part of the plan: in idle time they are sent what the stages of their layers were sent, so
  // that little is missing when they have to take over.
  void SetPlan(const SwarmPlan* plan, std::vector<BoundStage> followers);

  PlanId plan() const { return plan_; }
  // Whether its plan counts on the binding.
  bool Uses(BindingId binding) const { return FindStage(binding) != nullptr; }
  // Whether these bindings are all of its stages, and perhaps more. REQUIRES: serves().
  bool IsMadeOf(std::span<const BindingId> bindings) const;
  // Whether a stage of it is the worker's.
  bool IsOn(WorkerId worker) const;
  // Whether every layer has its worker.
  bool serves() const;
  // When Pump() last met a session of it with a request; nullopt: never.
  std::optional<Instant> asked_at() const { return asked_at_; }
  // Sends what may be sent.
  void Pump(Instant now);
  // Sends followers that are idle what they lack of this plan's sessions; `is_busy`: not this one.
  void FeedFollowers(Instant now, const std::function<bool(WorkerId)>& is_busy);
  // The first row in front of `layer` that a stage has not been sent; UINT32_MAX: there is none.
  uint32_t NeedsFrom(const Session& session, uint32_t layer) const;
  // What the session would wait for its next `tokens` here, beside those that are active: its
  // rows that nobody has computed at these stages, then token by token. REQUIRES: serves().
  double ExpectedUs(const Session& session, uint32_t tokens) const;
  // What computing so many rows of a prompt takes, one stage after the other. REQUIRES: serves().
  double ReadingUs(uint32_t rows) const;
  // Whether all its devices have been seen to answer, so that ExpectedUs is more than a guess.
  bool IsMeasured() const;

  // Of a step that failed: the runs of it that are still wanted, and whose they were.
  struct FailedRuns {
    BindingId binding;
    size_t frame_runs = 0;  // of all that were computed together
    std::vector<wire::Run> runs;
    bool counted = false;  // a failure of the same batch of Generates has been told already
  };
  // Outputs of the last stage. Rows of other stages go into the history, unless some are not
  // finite: those runs have failed, by the fault of whoever computed them.
  struct StepResult {
    std::vector<StageOutput> outputs;
    FailedRuns failed;
    uint64_t not_finite = 0;  // values
    uint32_t last_layer = 0;  // of the step
    bool serves = false;      // it was one of the plan's
  };
  // The answer to the worker's oldest step. An error means the frame is none that was expected: the
  // worker cannot be trusted any more.
  Result<StepResult> OnResult(Worker& worker, Slice message, Instant now);
  Result<FailedRuns> OnStepFailed(Worker& worker, const wire::pb::StepFailed& failed, Instant now);

  // Some tokens of one of the worker's Generates. Errors as OnResult's.
  Result<GeneratedTokens> OnTokens(Worker& worker, const wire::Tokens& tokens, Instant now);

  // Neuron groups that a step of a hub had to do without. An error: no step was to lose any, or so
  // many.
  Result<std::vector<LostGroups>> OnGroupsLost(Worker& worker, const wire::pb::GroupsLost& lost);

  // Its oldest step is late: from now on the answer of another one may come first. REQUIRES: it has
  // one.
  void NoteLate(Worker& worker) const;

  // The longest answer that its stages give; 0: none of them is the worker's.
  uint64_t LongestAnswerOf(WorkerId worker) const;
  // Tells the host how long a message of a worker may be now (SetMessageLimit), where that changed:
  // its stages' answers here, and those of other plans, which take so many bytes.
  void LimitMessages(Worker& worker, uint64_t others_bytes) const;
  // Rows that stages behind the first have not been sent.
  uint64_t waiting_rows() const;
  // Whether a staged plan, all loaded, may take over without anybody waiting for rows that can be
  // computed beforehand.
  bool HasCaughtUp(const SwarmPlan& plan) const;
  // Positions of the plan's sessions, common ones once, that this binding still lacks to do what it
  // is there for.
  uint64_t Lag(const BoundStage& stage) const;

 private:
  struct Stage {
    BoundStage bound;
    SessionId rotation;    // of the session that was served last
    bool last = false;     // of the plan
    bool follows = false;  // runs no part of the plan
    // Of one row: when the plan was made, or once its device had been measured. 0: it has not.
    double planned_us = 0;
  };
  struct Batch {
    std::vector<wire::Run> runs;
    std::vector<Slice> payloads;
    std::vector<uint8_t> token_ids;
    uint32_t rows = 0;
    bool hidden = false;  // some run gives rows back
  };
  enum class Pass { kDecoding, kChunks, kIdle };
  struct DecodingRows {
    uint32_t waiting = 0, away = 0;
  };
  // One step computes while the next already lies in the worker's socket.
  static constexpr size_t kFramesInFlight = 2;
  // Rows that may wait in front of a stage or be on their way to it before the stage in front of it
  // is given no more chunks, in chunks.
  static constexpr uint32_t kQueuedChunks = 4;
  static constexpr size_t kRunsPerFrame = 64;

  // Of the sessions that somebody waits for.
  uint32_t active_count() const { return sessions_.active_count(plan_); }
  uint32_t MostRowsOf(const LayerSpan& layers) const;
  uint32_t MostRows() const;
  void FitChunks();
  double TogetherUs(const Stage& stage, uint32_t rows) const;
  uint64_t LongestAnswer(const Stage& stage) const;
  // Whether a conversation waits for its next token.
  uint32_t RowLimit(Pass pass, const Batch& batch) const;
  DecodingRows CountDecoding() const;
  uint32_t DecodingLimit(uint32_t most);
  uint32_t FittingParts(uint32_t rows) const;
  const Stage* FindStage(BindingId binding) const;
  StageProgress* LiveProgress(const wire::Run& run, BindingId binding) const;
  uint64_t WaitingRows(size_t stage_index, bool with_idle) const;
  uint32_t Available(const Session& session, const LayerSpan& layers) const;
  bool SomeoneDecodes() const;
  bool HasRoomBehind(size_t stage_index, const Worker& worker, bool with_idle) const;
  bool MaySendChunk(size_t stage_index, const Worker& worker) const;
  bool MaySendIdle(size_t stage_index, const Worker& worker) const;
  size_t RunLimit(const Worker& worker) const;
  StageProgress* Ready(Session& session, size_t stage_index);
  // A session that another one may be forked from at a stage, and up to where.
  struct Share {
    Session* donor = nullptr;
    StageProgress* theirs = nullptr;
    uint32_t now = 0;    // where a fork could be made
    uint32_t reach = 0;  // and before long
  };
  Share ShareOf(const Session& session, const StageProgress& progress, const Kin& kin,
                bool follows) const;
  Share BestShare(const Session& session, const StageProgress& progress, const Stage& stage) const;
  bool WaitsForAnother(const Session& session, const StageProgress& progress,
                       const Stage& stage) const;
  bool WaitsBehind(Session& session, size_t stage_index) const;
  bool SuitsWhatIsBehind(Session& session, const Stage& stage, const Share& share);
  bool TakeShare(Session& session, StageProgress& progress, const Stage& stage);
  void Fork(Session& session, StageProgress& progress, const Stage& stage, const Share& share);
  void Reproduce(Session& session, size_t stage_index, StageProgress& stage);
  void TakeRows(size_t stage_index, Worker& worker, Batch& batch);
  uint64_t RankOf(const Session& session, const Stage& stage) const;
  std::vector<Session*> TurnsOf(const Stage& stage, Pass pass) const;
  void TakePass(size_t stage_index, Pass pass, size_t run_limit, Batch& batch);
  // Whoever asked hears in which generations rows are computed for the request, before they are.
  void TellTrace(const Session& session, ActiveRequest& active);
  void AddRun(Session& session, StageProgress& progress, const Stage& stage, uint32_t row_limit,
              Batch& batch);
  void Send(Stage& stage, Worker& worker, Batch batch, Instant now);
  void SendWaiting(size_t stage_index, Instant now);
  bool SendStep(size_t stage_index, Worker& worker, Instant now);
  void SendGenerates(Worker& worker, Instant now);
  void Feed(Stage& follower, Instant now);
  void FeedSession(Session& session, Stage& follower, uint32_t row_limit, Batch& batch);
  void Track(Worker& worker, SentFrame& sent, double predicted_us, Instant now);
  bool Generates(const Session& session) const;
  std::optional<double> GenerateUs(const Worker& worker, size_t sessions) const;
  uint32_t Interval(std::optional<double> step_us) const;
  uint32_t TokensToAsk(const Worker& worker, uint32_t interval, bool measured) const;
  double TokensUs(const Worker& worker, const SentFrame& sent, const wire::Tokens& tokens,
                  Instant now) const;
  void RecordTokens(Worker& worker, const SentFrame& sent, double step_us);
  Session* NextToGenerate();
  void SendGenerate(Session& session, Worker& worker, Instant now);
  void SendFrame(WorkerId worker, const wire::WholeFrame& frame);
  void StopUnwanted();
  void EndGenerating(const BoundStage& bound);
  FailedRuns FailGenerate(Worker& worker, std::deque<SentFrame>::iterator generate, Instant now);
  void PopOldest(Worker& worker, Instant now);
  double ComputeUs(const Worker& worker, const SentFrame& sent, const wire::FrameHeader& header,
                   Instant now) const;
  void RecordTimes(Worker& worker, const SentFrame& sent, const wire::FrameHeader& header,
                   Instant now);

  const PlanId plan_;
  const CoreOptions& options_;
  const Costs& costs_;
  Roster& roster_;
  SessionTable& sessions_;
  Outbox& outbox_;
  PipelineTotals& totals_;
  std::vector<Stage> stages_, followers_;
  uint32_t most_rows_ = 1;   // of a frame, as far as the lines decide
  uint32_t chunk_rows_ = 1;  // of a frame of prompts
  uint32_t alone_rows_ = 1;  // of one beside which nobody decodes
  // In how many parts so many decoding rows go round, and since how many steps.
  uint32_t parts_ = 1, parts_of_ = 0, parts_steps_ = 0;
  bool generates_ = false;       // one stage, on a worker that chooses tokens by itself
  SessionId generate_rotation_;  // of the session that was last asked tokens for
  std::optional<Instant> asked_at_;
  bool generated_last_ = false;  // prompts and Generates take turns
};

}  // namespace weft::swarm
