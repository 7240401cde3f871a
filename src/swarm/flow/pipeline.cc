#include "swarm/flow/pipeline.h"

#include <algorithm>

#include "base/check.h"
#include "swarm/flow/slice.h"
#include "swarm/flow/tell_sampling.h"
#include "swarm/workers/measurement.h"
#include "tensor/finite.h"

namespace weft::swarm {
namespace {

// One step computes while the next already lies in the worker's socket.
constexpr size_t kFramesInFlight = 2;
// A frame must not keep a link busy for longer: nothing behind it may look dead.
constexpr double kChunkUs = 100'000;
// More standbys than this that hold the same layers are loaded but not fed: each costs a device its
// rest and every token a look.
constexpr std::ptrdiff_t kFollowersOfARange = 2;
// A follower is sent this many rows at once, or more.
constexpr uint32_t kFollowerRows = 8;
constexpr uint64_t kLogitFrameBytes = 4 << 20;
constexpr size_t kRunsPerFrame = 64;
// Of a run's candidates (wire/data_frame.h).
constexpr uint64_t kCandidateHeadBytes = 12, kCandidateBytes = 8, kMaxCandidates = 256;

Error Unexpected(std::string message) {
  return Error(ErrorCode::kInvalidData, std::move(message));
}

// Its position; 0 where none is known.
uint32_t LastToken(const Session& session) {
  return session.tokens.empty() ? 0 : static_cast<uint32_t>(session.tokens.size()) - 1;
}

}  // namespace

Pipeline::Pipeline(const CoreOptions& options, const Costs& costs, Roster& roster,
                   SessionTable& sessions, Outbox& outbox)
    : options_(options), costs_(costs), roster_(roster), sessions_(sessions), outbox_(outbox) {}

void Pipeline::SetPlan(const SwarmPlan* plan, std::vector<BoundStage> followers) {
  if (generates_ && (plan == nullptr || !plan->Uses(stages_[0].bound.binding)))
    EndGenerating(stages_[0].bound);
  std::vector<Stage> before = std::exchange(stages_, {});
  followers_.clear();
  for (const BoundStage& bound : followers) {
    const auto same =
        std::count_if(followers_.begin(), followers_.end(),
                      [&](const Stage& follower) { return follower.bound.layers == bound.layers; });
    if (same < kFollowersOfARange) followers_.push_back({bound, 0, false, true});
  }
  if (plan == nullptr) {
    generates_ = false;
    return;
  }
  for (const PlanStage& stage : plan->stages) {
    stages_.push_back({stage.bound()});
    if (stage.is_measured) stages_.back().planned_us = stage.predicted_us;
    for (const Stage& old : before) {
      if (old.bound.binding != stage.binding) continue;
      stages_.back().rotation = old.rotation;
      if (!stage.is_measured) stages_.back().planned_us = old.planned_us;
    }
  }
  stages_.back().last = true;
  // Recurrent state cannot go back behind a token that turns out to be the last one wanted.
  generates_ = stages_.size() == 1 && stages_[0].bound.binding != 0 && !plan->is_hub() &&
               !options_.model.is_recurrent() &&
               roster_.Find(stages_[0].bound.worker)->CanGenerate();
  most_rows_ = MostRows();
  FitSlices();
}

// The largest chunk whose hidden rows pass the slowest link of the plan in kChunkUs. Holders of
// experts have said that they take messages of prefill_chunk_rows, so hubs send no more.
uint32_t Pipeline::MostRows() const {
  bool fixed = options_.prefill_slice.us <= 0;
  for (const Stage& stage : stages_) fixed = fixed || stage.bound.layers.is_hub();
  double rows = fixed ? std::min<double>(options_.prefill_chunk_rows, 65535) : kMostSliceRows;
  const double row_bytes = static_cast<double>(costs_.boundary_row_bytes());
  for (size_t i = 0; i < stages_.size(); ++i) {
    if (stages_[i].bound.binding == 0) continue;
    const Worker* worker = roster_.Find(stages_[i].bound.worker);
    CHECK(worker != nullptr);
    const LineRates rates = worker->Rates();
    if (i > 0) rows = std::min(rows, kChunkUs * rates.down / row_bytes);
    if (i + 1 < stages_.size()) rows = std::min(rows, kChunkUs * rates.up / row_bytes);
  }
  return std::max(1u, static_cast<uint32_t>(rows));
}

// What every stage computes within a slice, by what its steps have taken until now.
void Pipeline::FitSlices() {
  chunk_rows_ = most_rows_;
  for (const Stage& stage : stages_)
    if (stage.bound.binding != 0)
      chunk_rows_ = std::min(
          chunk_rows_,
          SliceRows(options_, costs_, *roster_.Find(stage.bound.worker), stage.bound.layers));
  chunk_rows_ = std::max(chunk_rows_, 1u);
}

// Of a step of this stage that asks for no logits: hidden rows of a whole chunk, or at the last
// stage the most candidates for every session.
uint64_t Pipeline::LongestAnswer(const Stage& stage) const {
  const uint64_t runs = std::min<uint64_t>(kRunsPerFrame, options_.session_count);
  uint64_t bytes = wire::kHeaderBytes + runs * wire::kRunBytes;
  if (!stage.last) return bytes + uint64_t{most_rows_} * costs_.boundary_row_bytes();
  return bytes + runs * (kCandidateHeadBytes + kMaxCandidates * kCandidateBytes);
}

void Pipeline::LimitMessages(Worker& worker) {
  if (!worker.ready) return;
  // Control messages always may come; steps that were sent are answered whatever the plan is now.
  uint64_t bytes = 1 + wire::kMaxControlBytes;
  for (const Stage& stage : stages_)
    if (stage.bound.worker == worker.id) bytes = std::max(bytes, LongestAnswer(stage));
  for (const auto* frames : {&worker.steps->in_flight, &worker.steps->generating})
    for (const SentFrame& sent : *frames) bytes = std::max(bytes, sent.answer_bytes);
  bytes = std::max(bytes, worker.experts->longest_message);
  if (worker.steps->message_limit == bytes) return;
  worker.steps.edit().message_limit = bytes;
  outbox_.Add(SetMessageLimit{worker.id, bytes});
}

void Pipeline::NoteLate(Worker& worker) const {
  worker.steps.edit().in_flight.front().was_late = true;
}

const Pipeline::Stage* Pipeline::FindStage(BindingId binding) const {
  for (const Stage& stage : stages_)
    if (stage.bound.binding == binding) return &stage;
  return nullptr;
}

// The session's progress that this run of the binding belongs to; null where nobody waits for it
// any more.
StageProgress* Pipeline::LiveProgress(const wire::Run& run, BindingId binding) const {
  Session* session = sessions_.Find(run.session);
  StageProgress* progress = session ? session->Find(binding) : nullptr;
  return progress && progress->generation == run.generation ? progress : nullptr;
}

// Where the rows end that a stage of these layers could be sent.
uint32_t Pipeline::Available(const Session& session, const LayerSpan& layers) const {
  if (layers.first == 0) return static_cast<uint32_t>(session.tokens.size());
  const auto rows = session.history.find(layers.first);
  return rows == session.history.end() ? 0 : rows->second.end();
}

// Rows that have come for the stage and that it has not been sent: of all sessions, or of those
// that somebody waits for. Rows of a session that waits there for what another one is about to
// compute take no room: that one would wait for it.
uint64_t Pipeline::WaitingRows(size_t stage_index, bool with_idle) const {
  const BoundStage& bound = stages_[stage_index].bound;
  uint64_t rows = 0;
  for (const auto& session : sessions_.sessions()) {
    if (!session->active && !with_idle) continue;
    const auto known = session->history.find(bound.layers.first);
    if (known == session->history.end()) continue;
    const StageProgress* progress = session->Find(bound.binding);
    if (progress != nullptr && WaitsForAnother(*session, *progress, stages_[stage_index])) continue;
    const uint32_t from = std::max(progress ? progress->sent : 0, known->second.first());
    rows += known->second.end() - std::min(from, known->second.end());
  }
  return rows;
}

bool Pipeline::SomeoneDecodes() const {
  const auto& sessions = sessions_.sessions();
  return std::any_of(sessions.begin(), sessions.end(), [](const auto& session) {
    return session->active && session->completed + 1 >= session->tokens.size();
  });
}

// Every stage looks one ahead: what it computes must find room in front of the next one. So a slow
// stage holds back the one in front of it, and that one the next, up to the sessions, where rows
// are mere token ids. Without a bound a prompt of 30,000 tokens in front of a slow last stage would
// wait here as hidden rows, of 8 KB each. In front of a hole the rows are what its next worker will
// be sent, and history's budget is the bound.
//
// Rows of idle sessions take no room from others. Where a last stage has just been taken over,
// three idle conversations of 900 tokens wait in front of it with 2,700 rows: a prompt that counted
// them would begin when its stage has computed them all.
bool Pipeline::HasRoomBehind(size_t stage_index, const Worker& worker, bool with_idle) const {
  if (stage_index + 1 == stages_.size()) return true;
  const Stage& next = stages_[stage_index + 1];
  if (next.bound.binding == 0) return sessions_.history_bytes() < options_.history_bytes;
  uint64_t rows = WaitingRows(stage_index + 1, with_idle);
  for (const SentFrame& sent : worker.steps->in_flight)
    if (sent.epoch == stages_[stage_index].bound.binding && sent.columns > 0) rows += sent.rows;
  return rows < uint64_t{kQueuedChunks} * chunk_rows_;
}

// Single rows are sent always. Those of prompts find room behind, and keep no token waiting: a
// chunk may keep a worker busy for a tenth of a second and more. A second one behind it hides the
// delay of the link, but a row that comes after both waits for both. While somebody decodes, a
// worker has one chunk at a time, so that a token waits for at most one of them at each stage.
bool Pipeline::MaySendChunk(size_t stage_index, const Worker& worker) const {
  if (!HasRoomBehind(stage_index, worker, false)) return false;
  const bool busy = std::any_of(worker.steps->in_flight.begin(), worker.steps->in_flight.end(),
                                [](const SentFrame& sent) {
                                  return sent.rows > sent.runs.size();  // some run has several rows
                                });
  return !busy || !SomeoneDecodes();
}

// Conversations that nobody waits for are computed while nobody waits for any other, a slice at a
// time: whoever comes waits for one at most.
bool Pipeline::MaySendIdle(size_t stage_index, const Worker& worker) const {
  return sessions_.active_count() == 0 && worker.steps->idle() &&
         HasRoomBehind(stage_index, worker, true);
}

// An engine that builds ONNX sessions computes one of ours at a time.
size_t Pipeline::RunLimit(const Worker& worker) const {
  return worker.offer.needs_onnx ? 1 : kRunsPerFrame;
}

void Pipeline::Pump(Instant now) {
  StopUnwanted();
  // From the back, so that what the front sends never finds a stage filled by rows that could have
  // moved on.
  for (size_t i = stages_.size(); i-- > 0;)
    if (stages_[i].bound.binding != 0) SendWaiting(i, now);
  for (Stage& follower : followers_) Feed(follower, now);
  TrimHistory();
}

void Pipeline::SendWaiting(size_t stage_index, Instant now) {
  Stage& stage = stages_[stage_index];
  Worker* worker = roster_.Find(stage.bound.worker);
  CHECK(worker != nullptr);
  const WorkerSteps& steps = *worker->steps;
  if (!generates_ || worker->offer.makes_tokens > 1) {
    if (generates_) SendGenerates(*worker, now);
    while (steps.in_flight.size() < kFramesInFlight && SendStep(stage_index, *worker, now)) {
    }
    return;
  }
  // Steps and Generates take turns.
  while (steps.in_flight.size() + steps.generating.size() < kFramesInFlight) {
    Session* generated = NextToGenerate();
    if (generated && !generated_last_) {
      SendGenerate(*generated, *worker, now);
      generated_last_ = true;
      continue;
    }
    generated_last_ = false;
    if (!SendStep(stage_index, *worker, now) && !generated) return;
  }
}

bool Pipeline::SendStep(size_t stage_index, Worker& worker, Instant now) {
  Batch batch;
  TakeRows(stage_index, worker, batch);
  if (batch.runs.empty()) return false;
  Send(stages_[stage_index], worker, std::move(batch), now);
  return true;
}

// What the stage of this session may be sent, after mending what keeps it from being sent anything;
// null: the session has nothing for it now.
StageProgress* Pipeline::Ready(Session& session, size_t stage_index) {
  const Stage& stage = stages_[stage_index];
  StageProgress* progress = &session.Track(stage.bound);
  if (!TakeShare(session, *progress, stage)) return nullptr;
  if (stage.last && progress->held > session.completed) {
    // The last row is wanted once more: its draw fell into the tail. Rows of a prompt that it was
    // fed before it took over have passed, and nothing is to come of them, unless their logits are
    // wanted.
    const bool has_outputs = session.active && session.active->request.want_logits &&
                             session.completed < session.active->prompt_tokens;
    if (progress->held < session.tokens.size() && !has_outputs)
      session.completed = progress->held;
    else
      session.RewindStage(*progress, session.completed);
  }
  if (stage_index > 0) {
    Reproduce(session, stage_index, *progress);
    // It may have to wait until the stage in front of it is there again.
    return session.history[stage.bound.layers.first].Has(progress->sent) ? progress : nullptr;
  }
  return progress->sent < session.tokens.size() ? progress : nullptr;
}

// Where history lacks the row that the stage needs next (it was dropped, or the layers were never
// cut here), the stage in front of it computes again from there, out of its own history, and so on
// to the tokens.
void Pipeline::Reproduce(Session& session, size_t stage_index, StageProgress& stage) {
  const Stage& before = stages_[stage_index - 1];
  if (before.bound.binding == 0) return;
  RowHistory& rows = session.history[stage.layers.first];
  const uint32_t next = stage.sent;
  if (rows.Has(next)) return;
  const BindingId needing = stage.binding;
  StageProgress& source = session.Track(before.bound);
  if (source.held <= next) {
    // It is still to come, and would not be asked for where later rows are kept.
    if (rows.first() > next) rows.Restart(source.held);
    return;
  }
  session.RewindStage(source, next);
  // What is kept in front of that stays: whoever takes over later needs it.
  if (rows.first() <= source.held && source.held <= rows.end())
    rows.Truncate(source.held);
  else
    rows.Restart(source.held);
  CHECK(session.Find(needing) != nullptr);
}

// First the single rows that conversations wait for, past any chunk; then rows of prompts and what
// a new worker is behind; at last conversations that nobody waits for. Fair turns: each pass begins
// behind the session that was served last. A frame names each session once.
void Pipeline::TakeRows(size_t stage_index, Worker& worker, Batch& batch) {
  const size_t run_limit = RunLimit(worker);
  TakePass(stage_index, Pass::kDecoding, run_limit, batch);
  if (MaySendChunk(stage_index, worker)) TakePass(stage_index, Pass::kChunks, run_limit, batch);
  if (batch.runs.empty() && MaySendIdle(stage_index, worker))
    TakePass(stage_index, Pass::kIdle, run_limit, batch);
}

// Rows of decoding sessions fill a frame as far as scratch is reserved for them. Those of prompts
// get what they leave of a slice; where they leave little, half a slice, or a prompt would never be
// read beside many conversations. Where nobody decodes, nobody waits: a frame is filled then, too.
// Of conversations that nobody waits for it holds a slice: whoever comes waits behind it.
uint32_t Pipeline::RowLimit(Pass pass, const Batch& batch) const {
  const uint32_t most = std::max(chunk_rows_, std::min(options_.prefill_chunk_rows, most_rows_));
  if (pass == Pass::kIdle) return chunk_rows_;
  if (pass == Pass::kDecoding || !SomeoneDecodes()) return most;
  return std::min(most, std::max(chunk_rows_, batch.rows + (chunk_rows_ + 1) / 2));
}

// Behind the session that was served last; prompts first by what their clients were served, so that
// one client's many prompts take no more of a stage than another's one.
std::vector<Session*> Pipeline::TurnsOf(const Stage& stage, Pass pass) const {
  const auto& sessions = sessions_.sessions();
  size_t start = 0;
  while (start < sessions.size() && sessions[start]->id <= stage.rotation) ++start;
  std::vector<Session*> turns;
  for (size_t i = 0; i < sessions.size(); ++i) {
    Session* session = sessions[(start + i) % sessions.size()].get();
    if (session->active.has_value() != (pass == Pass::kIdle)) turns.push_back(session);
  }
  if (pass == Pass::kChunks)
    std::ranges::stable_sort(turns, {}, [&](const Session* each) { return RankOf(*each, stage); });
  return turns;
}

void Pipeline::TakePass(size_t stage_index, Pass pass, size_t run_limit, Batch& batch) {
  Stage& stage = stages_[stage_index];
  const uint32_t row_limit = RowLimit(pass, batch);
  for (Session* each : TurnsOf(stage, pass)) {
    Session& session = *each;
    StageProgress* progress = Ready(session, stage_index);
    if (progress == nullptr) continue;
    // The one row that its conversation waits for, not a part of a longer prompt.
    const bool decodes = progress->sent + 1u == session.tokens.size();
    if (pass != Pass::kIdle && decodes != (pass == Pass::kDecoding)) continue;
    const bool generates = Generates(session);
    if (generates && decodes) continue;
    if (pass == Pass::kChunks && WaitsBehind(session, stage_index)) continue;
    if (batch.runs.size() >= run_limit || batch.rows >= row_limit) return;
    if (session.alone && !batch.runs.empty()) continue;
    uint32_t limit = row_limit - batch.rows;
    // The last known token is where generating begins.
    if (generates)
      limit = std::min(limit, static_cast<uint32_t>(session.tokens.size()) - 1 - progress->sent);
    AddRun(session, *progress, stage, limit, batch);
    stage.rotation = session.id;
    if (session.alone) return;
  }
}

// One run of at most `row_limit` rows from where the stage stands. A run never mixes rows with
// different outputs: what a stage gives is wanted from where the history behind it ends, and of the
// last one what the session says.
void Pipeline::AddRun(Session& session, StageProgress& progress, const Stage& stage,
                      uint32_t row_limit, Batch& batch) {
  const LayerSpan& layers = stage.bound.layers;
  wire::Run run;
  run.session = session.id;
  run.generation = progress.generation;
  run.first_position = progress.sent;
  run.candidate_count = 0;
  run.output = wire::OutputKind::kNone;
  uint32_t limit = std::min(
      {row_limit, Available(session, layers) - progress.sent, session.RowsToMark(progress.sent)});
  if (layers.first > 0) {
    const RowHistory& rows = session.history.at(layers.first);
    limit = std::min(limit, rows.end() - progress.sent);
  }
  if (stage.last) {
    if (session.active && session.active->request.want_logits)
      limit = std::min<uint64_t>(
          limit,
          std::max<uint64_t>(1, kLogitFrameBytes / (uint64_t{options_.model.head_columns()} * 4)));
    limit = session.RunLimit(progress.sent, limit);
    run.output = session.FinalOutput(progress.sent, limit);
  } else if (!stage.follows) {
    const uint32_t known = session.history[layers.end].end();
    if (progress.sent >= known)
      run.output = wire::OutputKind::kHidden;
    else
      limit = std::min(limit, known - progress.sent);
  }
  run.count = static_cast<uint16_t>(limit);
  if (run.output == wire::OutputKind::kHidden) batch.hidden = true;
  if (run.output == wire::OutputKind::kCandidates)
    run.candidate_count = session.active->candidate_count;
  else if (run.output == wire::OutputKind::kDraw)
    run.candidate_count = static_cast<uint16_t>(
        std::min(session.active->request.top_logprobs, options_.model.vocabulary));
  if (run.output == wire::OutputKind::kCandidates || run.output == wire::OutputKind::kDraw)
    TellSampling(session, progress, outbox_);
  if (layers.first == 0) {
    const size_t at = batch.token_ids.size();
    batch.token_ids.resize(at + run.count * sizeof(int32_t));
    std::memcpy(&batch.token_ids[at], &session.tokens[progress.sent], run.count * sizeof(int32_t));
  } else {
    for (Slice& piece : session.history.at(layers.first).Read(progress.sent, run.count))
      batch.payloads.push_back(std::move(piece));
  }
  if (layers.first == 0 && session.active && !stage.follows) sessions_.Charge(session, run.count);
  // Until its first token: afterwards a stage may have to make up for a loss.
  if (session.active && !stage.follows &&
      session.active->generated_tokens == session.active->request.answer_ids.size())
    session.active->cached_prompt_tokens =
        std::min(session.active->cached_prompt_tokens, run.first_position);
  run.marks = session.Sent(progress, run.count);
  batch.rows += run.count;
  batch.runs.push_back(run);
}

// A follower computes only while its worker has nothing else to do, and only when some rows have
// come together: it is to lag by little, not to double the work of every token. What somebody waits
// for comes first, and a frame is a slice of the follower itself: it may have to take over while it
// computes one.
void Pipeline::Feed(Stage& follower, Instant now) {
  Worker* worker = roster_.Find(follower.bound.worker);
  CHECK(worker != nullptr);
  if (!worker->steps->idle() || worker->offer.needs_onnx) return;
  const uint32_t most =
      std::min(chunk_rows_, SliceRows(options_, costs_, *worker, follower.bound.layers));
  Batch batch;
  for (const bool active : {true, false})
    for (const auto& session : sessions_.sessions()) {
      if (batch.rows >= most || batch.runs.size() >= kRunsPerFrame) break;
      if (session->active.has_value() == active) FeedSession(*session, follower, most, batch);
    }
  if (!batch.runs.empty()) Send(follower, *worker, std::move(batch), now);
}

void Pipeline::FeedSession(Session& session, Stage& follower, uint32_t row_limit, Batch& batch) {
  StageProgress& progress = session.Track(follower.bound);
  // What it cannot compute is left to those who have to.
  if (progress.held_at_failure == progress.held) return;
  if (!TakeShare(session, progress, follower)) return;
  // The last known token's row may be cut back again, and is not worth a frame. Those in front of
  // it are what they are, of a prompt that is being read, too: whoever takes over in its midst is
  // not to begin with row 0. Where the logits of a prompt are wanted, each row is.
  const bool has_outputs = session.active && session.active->request.want_logits;
  const uint32_t known =
      has_outputs ? session.completed : std::max(session.completed, LastToken(session));
  const uint32_t end = std::min(Available(session, follower.bound.layers), known);
  if (progress.sent + kFollowerRows > end) return;
  if (follower.bound.layers.first > 0 &&
      !session.history[follower.bound.layers.first].Has(progress.sent))
    return;
  const uint32_t limit = std::min(row_limit - batch.rows, end - progress.sent);
  AddRun(session, progress, follower, limit, batch);
}

// Whether the stages of a plan that are not active yet have had nearly all that live sessions hold.
// Those that cannot be fed beforehand (nobody gives the rows at their cut) do not count.
bool Pipeline::HasCaughtUp(const SwarmPlan& plan) const {
  for (const Stage& follower : followers_) {
    if (!plan.Uses(follower.bound.binding)) continue;
    if (roster_.Find(follower.bound.worker)->offer.needs_onnx) continue;
    for (const auto& session : sessions_.sessions()) {
      if (!session->active) continue;
      const StageProgress* progress = session->Find(follower.bound.binding);
      const uint32_t held = progress ? progress->held : 0;
      const uint32_t first = follower.bound.layers.first;
      const auto rows = session->history.find(first);
      const bool fed = first == 0 || (rows != session->history.end() && rows->second.Has(held));
      if (fed && held + 2 * kFollowerRows < session->completed) return false;
    }
  }
  return true;
}

uint64_t Pipeline::Lag(const BoundStage& stage) const {
  uint64_t rows = 0;
  const auto held_of = [&](Session& session) {
    const StageProgress* progress = session.Find(stage.binding);
    return progress ? progress->held : 0;
  };
  for (const auto& session : sessions_.sessions()) {
    uint32_t held = held_of(*session);
    // What it shares with others they bring along.
    for (const Kin& kin : session->kin) {
      Session& other = *sessions_.Find(kin.session);
      const uint32_t has = other.id < session->id ? other.completed : held_of(other);
      held = std::max(held, std::min(kin.common, has));
    }
    rows += session->completed - std::min(held, session->completed);
  }
  return rows;
}

// Rows go that every stage of the plan and every follower was sent.
void Pipeline::TrimHistory() {
  sessions_.TrimHistory(options_.history_bytes, [this](const Session& session, uint32_t layer) {
    uint32_t from = UINT32_MAX;
    for (const Stage& stage : stages_) {
      if (stage.bound.layers.first != layer) continue;
      const auto found = std::find_if(
          session.progress.begin(), session.progress.end(),
          [&](const StageProgress& each) { return each.binding == stage.bound.binding; });
      from = std::min(from, found == session.progress.end() ? 0 : found->sent);
    }
    return from;
  });
}

void Pipeline::Send(Stage& stage, Worker& worker, Batch batch, Instant now) {
  const BoundStage& bound = stage.bound;
  const bool takes_tokens = bound.layers.first == 0;
  wire::FrameHeader header;
  header.type = wire::FrameType::kStep;
  header.sequence = next_sequence_++;
  header.epoch = bound.binding;
  header.stage = static_cast<uint16_t>(bound.stage);
  header.rows = batch.rows;
  header.columns = takes_tokens ? 1 : options_.model.hidden_columns;
  header.dtype = takes_tokens ? DType::kI32 : options_.model.boundary_dtype;

  SendData data{worker.id, {}};
  size_t payload_bytes = batch.token_ids.size();
  for (const Slice& payload : batch.payloads) payload_bytes += payload.byte_count();
  std::vector<uint8_t> head = wire::EncodeFrameHead(header, batch.runs, payload_bytes);
  const uint64_t step_bytes = head.size() + payload_bytes;
  traffic_.bytes_sent += step_bytes;
  head.insert(head.end(), batch.token_ids.begin(), batch.token_ids.end());
  data.pieces.reserve(1 + batch.payloads.size());
  data.pieces.emplace_back(std::move(head));
  for (Slice& payload : batch.payloads) data.pieces.push_back(std::move(payload));
  outbox_.Add(std::move(data));

  SentFrame sent;
  sent.sequence = header.sequence;
  sent.epoch = bound.binding;
  sent.stage = header.stage;
  sent.layers = bound.layers;
  sent.rows = batch.rows;
  sent.runs = std::move(batch.runs);
  sent.columns = batch.hidden ? options_.model.hidden_columns : 0;
  sent.answer_bytes =
      wire::kHeaderBytes + sent.runs.size() * wire::kRunBytes +
      wire::ResultPayloadBytes(sent.runs, sent.columns, options_.model.boundary_dtype,
                               options_.model.head_columns());
  sent.sent_at = now;
  sent.step_bytes = step_bytes;
  // What is assumed of a kind of device before anything is measured of this one is no prediction.
  if (sent.rows == 1 && worker.SpeedKnown()) {
    sent.predicted_us = costs_.TokenUs(worker, bound.layers);
    if (stage.planned_us == 0) stage.planned_us = sent.predicted_us;
    sent.planned_us = stage.planned_us;
  }
  const double limit_us = costs_.StepUs(worker, bound.layers, sent.rows);
  Track(worker, sent, limit_us, now);
  if (worker.steps->in_flight.empty()) worker.steps.edit().oldest_since = now;
  const auto longest_us = worker.times.batches.LongestUs(sent.rows);
  sent.late = longest_us ? Microseconds(static_cast<int64_t>(*longest_us * 2)) +
                               options_.timeouts.late_slack
                         : sent.limit;
  worker.steps.edit().in_flight.push_back(std::move(sent));
}

// When it must be answered, and that the worker has something to do.
void Pipeline::Track(Worker& worker, SentFrame& sent, double predicted_us, Instant now) {
  sent.alone = worker.steps->idle();
  const Timeouts& timeouts = options_.timeouts;
  const Duration least = worker.steps->answered_epoch == sent.epoch ? timeouts.step_deadline_min
                                                                    : timeouts.step_deadline_first;
  sent.limit = std::max(least, Microseconds(static_cast<int64_t>(
                                   std::min(predicted_us * timeouts.step_deadline_factor, 3.6e9))));
  worker.steps.edit().last_at = now;
  touched_.push_back(worker.id);
}

void Pipeline::PopOldest(Worker& worker, Instant now) {
  worker.steps.edit().NoteAnswered(worker.steps->in_flight.front().epoch);
  worker.steps.edit().met.AddStep(worker.steps->in_flight.front().rows);
  worker.steps.edit().in_flight.pop_front();
  WorkerSteps& steps = worker.steps.edit();
  steps.oldest_since = steps.answered_at = steps.last_at = now;
  touched_.push_back(worker.id);
}

// What a worker says that it computed, as far as it can be. A hub waits for others besides, and a
// step behind Generates, or behind a load, for its turn: nothing can be told of those. One behind
// other steps is computed from when it is the oldest at the latest.
double Pipeline::ComputeUs(const Worker& worker, const SentFrame& sent,
                           const wire::FrameHeader& header, Instant now) const {
  const double claimed_us = header.compute_us;
  const bool only_computes =
      worker.steps->answered_epoch == sent.epoch && worker.steps->generating.empty() &&
      !sent.layers.is_hub() && !worker.IsLoading() &&
      worker.measure->phase == MeasureJob::Phase::kNone && worker.times.latency_us.count() > 0;
  const Instant begin = sent.alone ? sent.sent_at : worker.OldestSince();
  const auto elapsed_us = static_cast<double>((now - begin).us);
  if (!only_computes) return std::min(claimed_us, static_cast<double>((now - sent.sent_at).us));
  const LineRates rates = worker.Rates();
  const double line_us = costs_.LatencyUs(worker) +
                         static_cast<double>(sent.step_bytes) / rates.down +
                         static_cast<double>(sent.answer_bytes) / rates.up;
  return std::max(BoundedComputeUs(claimed_us, elapsed_us, line_us),
                  std::min(claimed_us, static_cast<double>((now - sent.sent_at).us)));
}

// For deadlines every step counts, from when it became the oldest, as they do. Of a worker's speed
// only steps of one row tell that met an idle worker, longer ones of its line and of what rows cost
// together.
void Pipeline::RecordTimes(Worker& worker, const SentFrame& sent, const wire::FrameHeader& header,
                           Instant now) {
  const bool serves = FindStage(sent.epoch) != nullptr;
  // Another worker has been asked meanwhile. That this one takes so long must be known all the
  // same: two that are slower than they were would else be asked in turn, token after token.
  if (serves || sent.was_late)
    worker.times.batches.Add(sent.rows, static_cast<double>((now - worker.OldestSince()).us));
  if (!serves) return;
  StepTime step;
  step.rows = sent.rows;
  step.bytes_down = sent.step_bytes;
  step.bytes_up = sent.answer_bytes;
  step.elapsed_us = static_cast<double>((now - sent.sent_at).us);
  step.queue_us = header.queue_us;
  step.compute_us = ComputeUs(worker, sent, header, now);
  step.alone = sent.alone;
  if (header.compute_us == 0 && step.compute_us <= 0) return;
  worker.times.computed.Add(sent.rows, step.compute_us);
  if (sent.rows > sent.runs.size()) FitSlices();
  if (sent.layers.is_hub())
    worker.times.AddWaits(step, costs_.LatencyUs(worker) + costs_.HandoverUs(worker),
                          costs_.ModelExchangesUs(worker, sent.layers));
  else
    worker.times.AddLine(step, worker.Rates());
  if (sent.rows > 1) worker.times.AddBatch(step, costs_.ComputeUs(worker, sent.layers));
  if (sent.rows != 1) return;
  // A worker that says less than can be true may never be met idle.
  const bool is_doubted = step.compute_us > header.compute_us;
  if (is_doubted && !sent.alone) {
    worker.times.compute_us.Add(step.compute_us);
    worker.times.speed.Add(costs_.SpeedSample(worker, sent.layers, step.compute_us));
  }
  if (!sent.alone) return;
  worker.times.compute_us.Add(step.compute_us);
  worker.times.stage_us.Add(step.elapsed_us);
  const double stage_us = step.elapsed_us + kServerStepUs;
  if (sent.predicted_us > 0) {
    errors_.initial.Add(sent.planned_us, stage_us);
    errors_.running.Add(sent.predicted_us, stage_us);
  }
  worker.times.speed.Add(costs_.SpeedSample(worker, sent.layers, step.compute_us));
}

Result<Pipeline::StepResult> Pipeline::OnResult(Worker& worker, Slice message, Instant now) {
  traffic_.bytes_received += message.byte_count();
  ASSIGN_OR_RETURN(const wire::Frame frame, wire::DecodeFrame(std::move(message)));
  if (worker.steps->in_flight.empty())
    return Unexpected("A data frame came though no step is under way.");
  const SentFrame& expected = worker.steps->in_flight.front();
  TRY(wire::CheckFrame(frame, {wire::FrameType::kResult, expected.sequence, expected.epoch,
                               expected.stage, expected.runs, expected.columns,
                               options_.model.boundary_dtype, options_.model.head_columns()}));
  const SentFrame sent = std::move(worker.steps.edit().in_flight.front());
  RecordTimes(worker, sent, frame.header, now);
  PopOldest(worker, now);
  worker.steps.edit().tokens_computed += sent.rows;
  StepResult result;
  result.failed = {sent.epoch, 1, {}, false};
  result.last_layer = sent.layers.end - 1;
  // Whose place another one has taken, because its answer was late, may still be the first.
  const Stage* stage = FindStage(sent.epoch);
  result.serves = stage != nullptr;
  if (result.serves) worker.steps.edit().has_served = true;
  const bool is_last = stage != nullptr
                           ? stage->last
                           : sent.was_late && sent.layers.end == options_.model.layers.size();
  size_t at = 0;
  for (const wire::Run& run : frame.runs) {
    const size_t byte_count = wire::ResultPayloadBytes(
        {&run, 1}, sent.columns, options_.model.boundary_dtype, options_.model.head_columns());
    Slice payload = frame.payload.Sub(at, byte_count);
    at += byte_count;
    StageProgress* progress = LiveProgress(run, sent.epoch);
    if (progress == nullptr) continue;
    if (run.output == wire::OutputKind::kHidden)
      if (const uint64_t bad = CountNotFinite(options_.model.boundary_dtype, payload.bytes())) {
        result.not_finite += bad;
        result.failed.runs.push_back(run);
        continue;
      }
    progress->held = run.first_position + run.count;
    progress->forked = false;
    Session& session = *sessions_.Find(run.session);
    if (run.output == wire::OutputKind::kHidden) {
      session.history[sent.layers.end].Append(run.first_position, run.count, payload.bytes());
    } else if (is_last) {
      // What comes of rows that have passed the last layer before is known: they were a
      // replacement's, or a late worker's whose place another one had taken. Where that one makes
      // tokens by itself, it is further by now.
      const bool is_overtaken = stage == nullptr && Generates(session);
      if (session.active && progress->held > session.completed && !is_overtaken)
        result.outputs.push_back({run, std::move(payload)});
    }
  }
  return result;
}

Result<Pipeline::FailedRuns> Pipeline::OnStepFailed(Worker& worker,
                                                    const wire::pb::StepFailed& failed,
                                                    Instant now) {
  auto& generating = worker.steps.edit().generating;
  const auto generate = std::find_if(generating.begin(), generating.end(), [&](const auto& sent) {
    return sent.sequence == failed.sequence() && sent.epoch == failed.epoch();
  });
  if (generate != generating.end()) return FailGenerate(worker, generate, now);
  if (worker.steps->in_flight.empty())
    return Unexpected("StepFailed came though no step is under way.");
  const SentFrame& oldest = worker.steps->in_flight.front();
  if (failed.sequence() != oldest.sequence || failed.epoch() != oldest.epoch ||
      failed.stage() != oldest.stage)
    return Unexpected(
        "StepFailed names step " + std::to_string(failed.sequence()) + " of epoch " +
        std::to_string(failed.epoch()) + " and stage " + std::to_string(failed.stage()) +
        ", expected step " + std::to_string(oldest.sequence) + " of epoch " +
        std::to_string(oldest.epoch) + " and stage " + std::to_string(oldest.stage) + ".");
  FailedRuns live{oldest.epoch, oldest.runs.size(), {}, false};
  std::copy_if(oldest.runs.begin(), oldest.runs.end(), std::back_inserter(live.runs),
               [&](const wire::Run& run) { return LiveProgress(run, live.binding) != nullptr; });
  PopOldest(worker, now);
  return live;
}

uint64_t Pipeline::waiting_rows() const {
  uint64_t rows = 0;
  for (size_t i = 1; i < stages_.size(); ++i) rows += WaitingRows(i, true);
  return rows;
}

}  // namespace weft::swarm
