#include "swarm/flow/pipeline.h"

#include <algorithm>

#include "base/check.h"
#include "swarm/flow/chunk.h"
#include "swarm/flow/tell_sampling.h"
#include "swarm/workers/measurement.h"
#include "tensor/finite.h"

namespace weft::swarm {
namespace {

// A frame must not keep a link busy for longer: nothing behind it may look dead.
constexpr double kChunkUs = 100'000;
// More standbys than this that hold the same layers are loaded but not fed: each costs a device its
// rest and every token a look.
constexpr std::ptrdiff_t kFollowersOfARange = 2;
// Of a run's candidates (wire/data_frame.h).
constexpr uint64_t kCandidateHeadBytes = 12, kCandidateBytes = 8, kMaxCandidates = 256;

}  // namespace

Pipeline::Pipeline(PlanId plan, const CoreOptions& options, const Costs& costs, Roster& roster,
                   SessionTable& sessions, Outbox& outbox, PipelineTotals& totals)
    : plan_(plan),
      options_(options),
      costs_(costs),
      roster_(roster),
      sessions_(sessions),
      outbox_(outbox),
      totals_(totals) {}

bool Pipeline::IsOn(WorkerId worker) const {
  return std::ranges::any_of(stages_,
                             [worker](const Stage& stage) { return stage.bound.worker == worker; });
}

bool Pipeline::serves() const {
  return !stages_.empty() && std::ranges::none_of(stages_, [](const Stage& stage) {
    return !stage.bound.binding.is_set();
  });
}

void Pipeline::SetPlan(const SwarmPlan* plan, std::vector<BoundStage> followers) {
  if (generates_ && (plan == nullptr || !plan->Uses(stages_[0].bound.binding)))
    EndGenerating(stages_[0].bound);
  std::vector<Stage> before = std::exchange(stages_, {});
  followers_.clear();
  for (const BoundStage& bound : followers) {
    const auto same =
        std::count_if(followers_.begin(), followers_.end(),
                      [&](const Stage& follower) { return follower.bound.layers == bound.layers; });
    if (same < kFollowersOfARange) followers_.push_back({bound, {}, false, true});
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
  generates_ = false;
  if (stages_.size() == 1 && stages_[0].bound.binding.is_set() && !plan->is_hub()) {
    const Worker& worker = *roster_.Find(stages_[0].bound.worker);
    // It goes back behind a token that turns out to be the last one wanted.
    const bool can_go_back = worker.offer.states_ahead || !options_.model.is_recurrent();
    generates_ = worker.CanGenerate() && can_go_back;
  }
  most_rows_ = MostRows();
  FitChunks();
}

// Holders of experts have said that they take messages of prefill_chunk_rows, so hubs are sent no
// more, those that stand by included.
uint32_t Pipeline::MostRowsOf(const LayerSpan& layers) const {
  const bool fixed = options_.prefill_chunk_time.us <= 0 || layers.is_hub();
  return fixed ? std::min(options_.prefill_chunk_rows, 65535u) : kMostChunkRows;
}

// The largest chunk whose hidden rows pass the slowest link of the plan in kChunkUs.
uint32_t Pipeline::MostRows() const {
  double rows = 65535;
  for (const Stage& stage : stages_) rows = std::min<double>(rows, MostRowsOf(stage.bound.layers));
  const double row_bytes = static_cast<double>(costs_.boundary_row_bytes());
  for (size_t i = 0; i < stages_.size(); ++i) {
    if (!stages_[i].bound.binding.is_set()) continue;
    const Worker* worker = roster_.Find(stages_[i].bound.worker);
    CHECK(worker != nullptr);
    const LineRates rates = worker->Rates();
    if (i > 0) rows = std::min(rows, kChunkUs * rates.down / row_bytes);
    if (i + 1 < stages_.size()) rows = std::min(rows, kChunkUs * rates.up / row_bytes);
  }
  return std::max(1u, static_cast<uint32_t>(rows));
}

// What every stage computes within a chunk, by what its steps have taken until now. Several stages
// share a prompt by its frames, so that longer ones gain nothing there.
void Pipeline::FitChunks() {
  chunk_rows_ = alone_rows_ = most_rows_;
  for (const Stage& stage : stages_) {
    if (!stage.bound.binding.is_set()) continue;
    const Worker& worker = *roster_.Find(stage.bound.worker);
    const LayerSpan& layers = stage.bound.layers;
    const double alone = stages_.size() == 1 ? kChunksAlone : 1;
    chunk_rows_ = std::min(chunk_rows_, ChunkRows(options_, costs_, worker, layers));
    alone_rows_ = std::min(alone_rows_, ChunkRows(options_, costs_, worker, layers, alone));
  }
  chunk_rows_ = std::max(chunk_rows_, 1u);
  alone_rows_ = std::max(alone_rows_, 1u);
}

// Of a step of this stage that asks for no logits: hidden rows of a whole chunk, or at the last
// stage the most candidates for every session.
uint64_t Pipeline::LongestAnswer(const Stage& stage) const {
  const uint64_t runs = std::min<uint64_t>(kRunsPerFrame, options_.session_count);
  uint64_t bytes = wire::kHeaderBytes + runs * wire::kRunBytes;
  if (!stage.last) return bytes + uint64_t{most_rows_} * costs_.boundary_row_bytes();
  return bytes + runs * (kCandidateHeadBytes + kMaxCandidates * kCandidateBytes);
}

uint64_t Pipeline::LongestAnswerOf(WorkerId worker) const {
  uint64_t bytes = 0;
  for (const Stage& stage : stages_)
    if (stage.bound.worker == worker) bytes = std::max(bytes, LongestAnswer(stage));
  return bytes;
}

bool Pipeline::IsMadeOf(std::span<const BindingId> bindings) const {
  return std::ranges::all_of(stages_, [bindings](const Stage& stage) {
    return std::ranges::find(bindings, stage.bound.binding) != bindings.end();
  });
}

double Pipeline::ReadingUs(uint32_t rows) const {
  double row_us = 0;
  for (const Stage& stage : stages_)
    row_us += costs_.StepUs(*roster_.Find(stage.bound.worker), stage.bound.layers, chunk_rows_) /
              chunk_rows_;
  return row_us * rows;
}

bool Pipeline::IsMeasured() const {
  return std::ranges::all_of(stages_, [this](const Stage& stage) {
    return roster_.Find(stage.bound.worker)->times.together.ExpectedUs(1).has_value();
  });
}

// One row of each of so many sessions. What was not measured of the device grows as it does on
// others of its kind: one that has computed a single row is not taken to need sixteen times as long
// for sixteen, where its neighbour needs three times as long.
double Pipeline::TogetherUs(const Stage& stage, uint32_t rows) const {
  const Worker& worker = *roster_.Find(stage.bound.worker);
  const BatchTimes& own = worker.times.together;
  const auto own_us = own.ExpectedUs(rows);
  if (own_us && (rows == 1 || own.GrowthTo(rows))) return *own_us;
  const double one_us = own.ExpectedUs(1).value_or(costs_.StepUs(worker, stage.bound.layers, 1));
  for (const auto& [id, other] : roster_)
    if (other.offer.kind == worker.offer.kind)
      if (const auto growth = other.times.together.GrowthTo(rows)) return one_us * *growth;
  return own_us.value_or(costs_.StepUs(worker, stage.bound.layers, rows));
}

// Each stage computes what is left of the prompt in turn, then a row of each active session.
double Pipeline::ExpectedUs(const Session& session, uint32_t tokens) const {
  const bool is_here = session.plan == plan_ && session.active;
  const uint32_t together = active_count() + (is_here ? 0 : 1);
  double token_us = 0;
  for (const Stage& stage : stages_) token_us += TogetherUs(stage, together);
  const BindingId first = stages_[0].bound.binding;
  const auto held_of = [first](const Session& each) {
    const auto at = std::ranges::find(each.progress, first, &StageProgress::binding);
    return at == each.progress.end() ? 0 : at->held;
  };
  uint32_t held = held_of(session);
  for (const Kin& kin : session.kin)
    held = std::max(held, std::min(kin.common, held_of(*sessions_.Find(kin.session))));
  const auto known = static_cast<uint32_t>(session.tokens.size());
  return ReadingUs(known - std::min(held, known)) + token_us * tokens;
}

void Pipeline::LimitMessages(Worker& worker, uint64_t others_bytes) const {
  if (!worker.ready) return;
  // Control messages always may come; steps that were sent are answered whatever the plan is now.
  uint64_t bytes = std::max({1 + wire::kMaxControlBytes, LongestAnswerOf(worker.id), others_bytes});
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
  Session* session = sessions_.Find(SessionId(run.session));
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
    if (session->plan != plan_ || (!session->active && !with_idle)) continue;
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
  return std::any_of(sessions.begin(), sessions.end(), [this](const auto& session) {
    return session->plan == plan_ && session->active &&
           session->completed + 1 >= session->tokens.size();
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
  if (!next.bound.binding.is_set()) return sessions_.history_bytes() < options_.history_bytes;
  uint64_t rows = WaitingRows(stage_index + 1, with_idle);
  for (const SentFrame& sent : worker.steps->in_flight)
    if (sent.binding == stages_[stage_index].bound.binding && sent.columns > 0) rows += sent.rows;
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

// Conversations that nobody waits for are computed while nobody waits for any other, a chunk at a
// time: whoever comes waits for one at most.
bool Pipeline::MaySendIdle(size_t stage_index, const Worker& worker) const {
  return active_count() == 0 && worker.steps->idle() && HasRoomBehind(stage_index, worker, true);
}

// An engine that builds ONNX sessions computes one of ours at a time.
size_t Pipeline::RunLimit(const Worker& worker) const {
  return worker.offer.needs_onnx ? 1 : kRunsPerFrame;
}

void Pipeline::Pump(Instant now) {
  if (active_count() > 0) asked_at_ = now;
  StopUnwanted();
  // From the back, so that what the front sends never finds a stage filled by rows that could have
  // moved on.
  for (size_t i = stages_.size(); i-- > 0;)
    if (stages_[i].bound.binding.is_set()) SendWaiting(i, now);
}

void Pipeline::FeedFollowers(Instant now, const std::function<bool(WorkerId)>& is_busy) {
  for (Stage& follower : followers_)
    if (!is_busy(follower.bound.worker)) Feed(follower, now);
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
  if (stage_index == 0) ++parts_steps_;
  Send(stages_[stage_index], worker, std::move(batch), now);
  return true;
}

uint32_t Pipeline::NeedsFrom(const Session& session, uint32_t layer) const {
  uint32_t from = UINT32_MAX;
  for (const Stage& stage : stages_) {
    if (stage.bound.layers.first != layer) continue;
    const auto found =
        std::ranges::find(session.progress, stage.bound.binding, &StageProgress::binding);
    from = std::min(from, found == session.progress.end() ? 0 : found->sent);
  }
  return from;
}

void Pipeline::Send(Stage& stage, Worker& worker, Batch batch, Instant now) {
  const BoundStage& bound = stage.bound;
  const bool takes_tokens = bound.layers.first == 0;
  wire::FrameHeader header;
  header.type = wire::FrameType::kStep;
  header.sequence = totals_.next_sequence++;
  header.binding = bound.binding.value();
  header.stage = static_cast<uint16_t>(bound.stage);
  header.rows = batch.rows;
  header.columns = takes_tokens ? 1 : options_.model.hidden_columns;
  header.dtype = takes_tokens ? DType::kI32 : options_.model.boundary_dtype;

  SendData data{worker.id, {}};
  size_t payload_bytes = batch.token_ids.size();
  for (const Slice& payload : batch.payloads) payload_bytes += payload.byte_count();
  std::vector<uint8_t> head = wire::EncodeFrameHead(header, batch.runs, payload_bytes);
  const uint64_t step_bytes = head.size() + payload_bytes;
  totals_.traffic.bytes_sent += step_bytes;
  head.insert(head.end(), batch.token_ids.begin(), batch.token_ids.end());
  data.pieces.reserve(1 + batch.payloads.size());
  data.pieces.emplace_back(std::move(head));
  for (Slice& payload : batch.payloads) data.pieces.push_back(std::move(payload));
  outbox_.Add(std::move(data));

  SentFrame sent;
  sent.plan = plan_;
  sent.sequence = header.sequence;
  sent.binding = bound.binding;
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
  const Duration least = worker.steps->answered_binding == sent.binding
                             ? timeouts.step_deadline_min
                             : timeouts.step_deadline_first;
  sent.limit = std::max(least, Microseconds(static_cast<int64_t>(
                                   std::min(predicted_us * timeouts.step_deadline_factor, 3.6e9))));
  worker.steps.edit().last_at = now;
  totals_.touched.push_back(worker.id);
}

uint64_t Pipeline::waiting_rows() const {
  uint64_t rows = 0;
  for (size_t i = 1; i < stages_.size(); ++i) rows += WaitingRows(i, true);
  return rows;
}

}  // namespace weft::swarm
