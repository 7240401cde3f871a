// Moves rows through the stages of the active plan: composes step frames from what waits at a
// stage, checks answers, hands them on. Knows nothing of how a plan comes about nor of what is done
// with the last stage's outputs.
//
// Rows of several sessions that wait at the same stage share a frame; nothing ever waits for
// company. A long prompt neither fills the server with rows that wait in front of a slow stage nor
// makes others wait for more than one chunk of it at each stage (MaySendChunk). Answers that belong
// to a generation or epoch that is over are recognised by their run and dropped.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/result.h"
#include "swarm/costs.h"
#include "swarm/options.h"
#include "swarm/outbox.h"
#include "swarm/plan_state.h"
#include "swarm/session.h"
#include "swarm/worker.h"

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

// Whether tokens can be chosen on the worker without a round trip for each, if it holds all layers.
bool CanGenerate(const Worker& worker);

struct TrafficCounts {
  uint64_t bytes_sent = 0, bytes_received = 0;  // whole data frames
};

class Pipeline {
 public:
  // Keeps references; all outlive the pipeline.
  Pipeline(const CoreOptions& options, const Costs& costs, Roster& roster, SessionTable& sessions,
           Outbox& outbox);

  // From now on frames go along these stages. Whatever waited for the old ones is dropped; the
  // caller restarts the sessions.
  void Start(const SwarmPlan& plan);
  void Stop();
  uint32_t epoch() const { return epoch_; }  // 0: stopped

  // Sends what may be sent.
  void Pump(Instant now);

  // The answer to the worker's oldest step. Outputs of the last stage come back, other rows move on
  // to the next stage. An error means the frame is none that was expected: the worker cannot be
  // trusted any more.
  Result<std::vector<StageOutput>> OnResult(Worker& worker, Slice message, Instant now);
  // Likewise for a step that failed; the runs of it that are still wanted.
  Result<std::vector<wire::Run>> OnStepFailed(Worker& worker, const wire::pb::StepFailed& failed,
                                              Instant now);

  // Some tokens of the worker's oldest step, which must be a Generate. Errors as OnResult's.
  Result<GeneratedTokens> OnTokens(Worker& worker, const wire::Tokens& tokens, Instant now);

  // Tells the host how long a message of each worker may be now (SetMessageLimit).
  void LimitMessages();

  const TrafficCounts& traffic() const { return traffic_; }
  // Rows that wait at stages behind the first, of all sessions.
  uint64_t waiting_rows() const;

 private:
  struct Waiting {
    wire::Run run;  // its output is filled in when it is sent
    Slice payload;  // hidden rows
  };
  struct Stage {
    WorkerId worker = 0;
    uint32_t first = 0, end = 0;
    std::deque<Waiting> queue;  // empty at the first stage: its rows come from the sessions
    uint64_t queued_rows = 0;
  };
  struct Batch {
    std::vector<wire::Run> runs;
    std::vector<Slice> payloads;
    std::vector<uint8_t> token_ids;
    uint32_t rows = 0;
  };

  uint32_t ChunkRows() const;
  uint64_t LongestAnswer(size_t stage_index) const;
  bool IsLive(const wire::Run& run) const;
  bool IsNextToken(const wire::Run& run) const;
  bool SomeoneDecodes() const;
  bool MaySendChunk(size_t stage_index, const Worker& worker) const;
  size_t RunLimit(const Worker& worker) const;
  void TakeFromSessions(Batch& batch, size_t run_limit, bool chunks);
  void TakeFromQueue(Stage& stage, Batch& batch, size_t run_limit, bool chunks);
  void Send(size_t stage_index, Worker& worker, Batch batch, Instant now);
  void SendWaiting(size_t stage_index, Instant now);
  void Track(Worker& worker, SentFrame sent, double predicted_us, Instant now);
  bool Generates(const Session& session) const;
  uint32_t Interval(const Worker& worker) const;
  Session* NextToGenerate();
  void SendGenerate(Session& session, Worker& worker, Instant now);
  void SendFrame(WorkerId worker, const wire::GenerationFrame& frame);
  void StopUnwanted();
  void PopOldest(Worker& worker, Instant now);
  void RecordTimes(Worker& worker, const SentFrame& sent, const wire::FrameHeader& header,
                   Instant now);

  const CoreOptions& options_;
  const Costs& costs_;
  Roster& roster_;
  SessionTable& sessions_;
  Outbox& outbox_;
  uint32_t epoch_ = 0;
  std::vector<Stage> stages_;
  uint32_t chunk_rows_ = 1;
  uint32_t next_sequence_ = 1;
  uint32_t rotation_ = 0;           // id of the session that was served last at the first stage
  bool generates_ = false;          // one stage, on a worker that chooses tokens by itself
  uint32_t generate_rotation_ = 0;  // id of the session that was last asked tokens for
  bool generated_last_ = false;     // prompts and generations take turns
  TrafficCounts traffic_;
};

}  // namespace weft::swarm
