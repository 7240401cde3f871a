#include "swarm/pipeline.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "swarm/tell_sampling.h"

namespace weft::swarm {
namespace {

// One step computes while the next already lies in the worker's socket.
constexpr size_t kFramesInFlight = 2;
// Rows that may wait in front of a stage or be on their way to it before the stage in front of it
// is given no more chunks, in chunks.
constexpr uint32_t kQueuedChunks = 4;
// A frame must not keep a link busy for longer: nothing behind it may look dead.
constexpr double kChunkUs = 100'000;
constexpr uint64_t kLogitFrameBytes = 4 << 20;
constexpr size_t kRunsPerFrame = 64;
// Of a run's candidates (wire/data_frame.h).
constexpr uint64_t kCandidateHeadBytes = 12, kCandidateBytes = 8, kMaxCandidates = 256;

Error Unexpected(std::string message) {
  return Error(ErrorCode::kInvalidData, std::move(message));
}

}  // namespace

Pipeline::Pipeline(const CoreOptions& options, const Costs& costs, Roster& roster,
                   SessionTable& sessions, Outbox& outbox)
    : options_(options), costs_(costs), roster_(roster), sessions_(sessions), outbox_(outbox) {}

void Pipeline::Start(const SwarmPlan& plan) {
  CHECK(plan.epoch != 0 && !plan.stages.empty());
  stages_.clear();
  for (const PlanStage& stage : plan.stages)
    stages_.push_back({stage.worker, stage.first, stage.end, {}, 0});
  epoch_ = plan.epoch;
  generates_ = stages_.size() == 1 && CanGenerate(*roster_.Find(stages_[0].worker));
  chunk_rows_ = ChunkRows();
}

void Pipeline::Stop() {
  stages_.clear();
  epoch_ = 0;
  generates_ = false;
}

// The largest chunk whose hidden rows pass the slowest link of the plan in kChunkUs.
uint32_t Pipeline::ChunkRows() const {
  double rows = std::min<double>(options_.prefill_chunk_rows, 65535);
  const double row_bytes = static_cast<double>(costs_.boundary_row_bytes());
  for (size_t i = 0; i < stages_.size(); ++i) {
    const Worker* worker = roster_.Find(stages_[i].worker);
    CHECK(worker != nullptr);
    if (i > 0)
      rows = std::min(rows, kChunkUs * 1e-6 * worker->offer.download_bytes_per_s / row_bytes);
    if (i + 1 < stages_.size())
      rows = std::min(rows, kChunkUs * 1e-6 * worker->offer.upload_bytes_per_s / row_bytes);
  }
  return std::max(1u, static_cast<uint32_t>(rows));
}

// Of a step of this stage that asks for no logits: hidden rows of a whole chunk, or at the last
// stage the most candidates for every session.
uint64_t Pipeline::LongestAnswer(size_t stage_index) const {
  const uint64_t runs = std::min<uint64_t>(kRunsPerFrame, options_.session_count);
  uint64_t bytes = wire::kHeaderBytes + runs * wire::kRunBytes;
  if (stage_index + 1 < stages_.size())
    return bytes + uint64_t{chunk_rows_} * costs_.boundary_row_bytes();
  return bytes + runs * (kCandidateHeadBytes + kMaxCandidates * kCandidateBytes);
}

void Pipeline::LimitMessages() {
  std::map<WorkerId, uint64_t> of_plan;
  for (size_t i = 0; i < stages_.size(); ++i) of_plan[stages_[i].worker] = LongestAnswer(i);
  for (auto& [id, worker] : roster_) {
    if (!worker.ready) continue;
    // Control messages always may come; steps that were sent are answered whatever the plan is now.
    uint64_t bytes = 1 + wire::kMaxControlBytes;
    if (const auto found = of_plan.find(id); found != of_plan.end())
      bytes = std::max(bytes, found->second);
    for (const SentFrame& sent : worker.steps.in_flight) bytes = std::max(bytes, sent.answer_bytes);
    if (worker.told.message_limit == bytes) continue;
    worker.told.message_limit = bytes;
    outbox_.Add(SetMessageLimit{id, bytes});
  }
}

bool Pipeline::IsLive(const wire::Run& run) const {
  const Session* session = sessions_.Find(run.session);
  return session && session->active && session->generation == run.generation;
}

// Whether this is the one row that its conversation waits for, not a part of a longer prompt.
bool Pipeline::IsNextToken(const wire::Run& run) const {
  return run.count == 1 && run.first_position + 1u == sessions_.Find(run.session)->tokens.size();
}

bool Pipeline::SomeoneDecodes() const {
  const auto& sessions = sessions_.sessions();
  return std::any_of(sessions.begin(), sessions.end(), [](const auto& session) {
    return session->active && session->completed + 1 >= session->tokens.size();
  });
}

// Rows of prompts are sent where two things hold, single rows always.
// - Every stage looks one ahead: what it computes must find room in front of the next one. So a
//   slow stage holds back the one in front of it, and that one the next, up to the sessions, where
//   rows are mere token ids. Without a bound a prompt of 30,000 tokens in front of a slow last
//   stage would wait here as hidden rows, of 8 KB each.
// - A chunk may keep a worker busy for a tenth of a second and more. A second one behind it hides
//   the delay of the link, but a row that comes after both waits for both: while somebody decodes,
//   a worker has one chunk at a time, so that a token waits for at most one of them at each stage.
bool Pipeline::MaySendChunk(size_t stage_index, const Worker& worker) const {
  if (stage_index + 1 < stages_.size()) {
    uint64_t rows = stages_[stage_index + 1].queued_rows;
    for (const SentFrame& sent : worker.steps.in_flight)
      if (sent.epoch == epoch_) rows += sent.rows;
    if (rows >= uint64_t{kQueuedChunks} * chunk_rows_) return false;
  }
  const bool busy = std::any_of(
      worker.steps.in_flight.begin(), worker.steps.in_flight.end(), [](const SentFrame& sent) {
        return !sent.generates && sent.rows > sent.runs.size();  // some run has several rows
      });
  return !busy || !SomeoneDecodes();
}

// An engine that builds ONNX sessions computes one of ours at a time.
size_t Pipeline::RunLimit(const Worker& worker) const {
  return worker.offer.needs_onnx ? 1 : kRunsPerFrame;
}

void Pipeline::Pump(Instant now) {
  StopUnwanted();
  // From the back, so that what the front sends never finds a stage filled by rows that could have
  // moved on.
  for (size_t i = stages_.size(); i-- > 0;) SendWaiting(i, now);
}

void Pipeline::SendWaiting(size_t stage_index, Instant now) {
  Stage& stage = stages_[stage_index];
  Worker* worker = roster_.Find(stage.worker);
  CHECK(worker != nullptr);
  while (worker->steps.in_flight.size() < kFramesInFlight) {
    Session* generated = generates_ ? NextToGenerate() : nullptr;
    if (generated && !generated_last_) {
      SendGenerate(*generated, *worker, now);
      generated_last_ = true;
      continue;
    }
    generated_last_ = false;
    Batch batch;
    const bool chunks = MaySendChunk(stage_index, *worker);
    if (stage_index == 0)
      TakeFromSessions(batch, RunLimit(*worker), chunks);
    else
      TakeFromQueue(stage, batch, RunLimit(*worker), chunks);
    if (batch.runs.empty() && generated) continue;
    if (batch.runs.empty()) return;
    Send(stage_index, *worker, std::move(batch), now);
  }
}

void Pipeline::TakeFromSessions(Batch& batch, size_t run_limit, bool chunks) {
  const auto& sessions = sessions_.sessions();
  // Fair turns: begin behind the session that was served last; single rows before chunks.
  size_t start = 0;
  while (start < sessions.size() && sessions[start]->id <= rotation_) ++start;
  for (const bool decoding : {true, false}) {
    if (!decoding && !chunks) return;
    for (size_t i = 0; i < sessions.size(); ++i) {
      Session& session = *sessions[(start + i) % sessions.size()];
      const uint32_t waiting = session.WaitingRows();
      if (waiting == 0 || (waiting == 1) != decoding) continue;
      const bool generates = Generates(session);
      if (generates && decoding) continue;
      if (batch.runs.size() >= run_limit || batch.rows >= chunk_rows_) return;
      if (session.alone && !batch.runs.empty()) continue;
      wire::Run run;
      run.session = session.id;
      run.generation = session.generation;
      run.first_position = session.scheduled;
      uint32_t limit = chunk_rows_ - batch.rows;
      if (session.active->request.want_logits)
        limit = std::min<uint64_t>(
            limit,
            std::max<uint64_t>(1, kLogitFrameBytes / (uint64_t{options_.model.vocabulary} * 4)));
      // The last known token is where generating begins.
      if (generates) limit = std::min(limit, waiting - 1);
      run.count = static_cast<uint16_t>(session.RunLimit(session.scheduled, limit));
      const size_t at = batch.token_ids.size();
      batch.token_ids.resize(at + run.count * sizeof(int32_t));
      std::memcpy(&batch.token_ids[at], &session.tokens[session.scheduled],
                  run.count * sizeof(int32_t));
      session.scheduled += run.count;
      batch.rows += run.count;
      batch.runs.push_back(run);
      rotation_ = session.id;
      if (session.alone) return;
    }
  }
}

// First the single rows that conversations wait for, past any chunk; then the others as they came.
// Rows of one session never overtake each other, and a frame names each session once.
void Pipeline::TakeFromQueue(Stage& stage, Batch& batch, size_t run_limit, bool chunks) {
  std::erase_if(stage.queue, [&](const Waiting& waiting) {
    if (IsLive(waiting.run)) return false;
    stage.queued_rows -= waiting.run.count;
    return true;
  });
  for (const bool decoding : {true, false}) {
    if (!decoding && !chunks) return;
    std::vector<uint32_t> passed;  // sessions with an earlier run that stays in the queue
    for (size_t i = 0; i < stage.queue.size() && batch.runs.size() < run_limit;) {
      Waiting& waiting = stage.queue[i];
      const uint32_t session = waiting.run.session;
      const bool taken = std::any_of(batch.runs.begin(), batch.runs.end(),
                                     [&](const auto& run) { return run.session == session; });
      const bool alone = sessions_.Find(session)->alone;
      const bool fits =
          batch.runs.empty() || (!alone && batch.rows + waiting.run.count <= chunk_rows_);
      if (!decoding && !taken && !fits) return;
      if (taken || !fits || (decoding && !IsNextToken(waiting.run)) ||
          std::find(passed.begin(), passed.end(), session) != passed.end()) {
        passed.push_back(session);
        ++i;
        continue;
      }
      batch.rows += waiting.run.count;
      batch.runs.push_back(waiting.run);
      batch.payloads.push_back(std::move(waiting.payload));
      stage.queued_rows -= waiting.run.count;
      stage.queue.erase(stage.queue.begin() + static_cast<std::ptrdiff_t>(i));
      if (alone) return;
    }
  }
}

void Pipeline::Send(size_t stage_index, Worker& worker, Batch batch, Instant now) {
  const Stage& stage = stages_[stage_index];
  const bool last = stage_index + 1 == stages_.size();
  bool hidden = false;
  for (wire::Run& run : batch.runs) {
    run.candidate_count = 0;
    run.output = wire::OutputKind::kHidden;
    if (!last) {
      hidden = true;
      continue;
    }
    Session& session = *sessions_.Find(run.session);
    run.output = session.FinalOutput(run.first_position, run.count);
    if (run.output == wire::OutputKind::kCandidates)
      run.candidate_count = session.active->candidate_count;
    else if (run.output == wire::OutputKind::kDraw)
      run.candidate_count = static_cast<uint16_t>(
          std::min(session.active->request.top_logprobs, options_.model.vocabulary));
    else
      continue;
    TellSampling(session, worker.id, outbox_);
  }
  wire::FrameHeader header;
  header.type = wire::FrameType::kStep;
  header.sequence = next_sequence_++;
  header.epoch = epoch_;
  header.stage = static_cast<uint16_t>(stage_index);
  header.rows = batch.rows;
  header.columns = stage_index == 0 ? 1 : options_.model.hidden_columns;
  header.dtype = stage_index == 0 ? DType::kI32 : options_.model.boundary_dtype;

  SendData data{worker.id, {}};
  size_t payload_bytes = batch.token_ids.size();
  for (const Slice& payload : batch.payloads) payload_bytes += payload.byte_count();
  std::vector<uint8_t> head = wire::EncodeFrameHead(header, batch.runs, payload_bytes);
  traffic_.bytes_sent += head.size() + payload_bytes;
  head.insert(head.end(), batch.token_ids.begin(), batch.token_ids.end());
  data.pieces.reserve(1 + batch.payloads.size());
  data.pieces.emplace_back(std::move(head));
  for (Slice& payload : batch.payloads) data.pieces.push_back(std::move(payload));
  outbox_.Add(std::move(data));

  SentFrame sent;
  sent.sequence = header.sequence;
  sent.epoch = epoch_;
  sent.stage = header.stage;
  sent.rows = batch.rows;
  sent.runs = std::move(batch.runs);
  sent.columns = hidden ? options_.model.hidden_columns : 0;
  sent.answer_bytes =
      wire::kHeaderBytes + sent.runs.size() * wire::kRunBytes +
      wire::ResultPayloadBytes(sent.runs, sent.columns, options_.model.boundary_dtype,
                               options_.model.vocabulary);
  sent.sent_at = now;
  const double predicted_us = costs_.StepUs(worker, stage.first, stage.end, sent.rows);
  Track(worker, std::move(sent), predicted_us, now);
}

void Pipeline::Track(Worker& worker, SentFrame sent, double predicted_us, Instant now) {
  sent.alone = worker.steps.in_flight.empty();
  const Timeouts& timeouts = options_.timeouts;
  const Duration least = worker.steps.answered_epoch == epoch_ ? timeouts.step_deadline_min
                                                               : timeouts.step_deadline_first;
  sent.limit = std::max(least, Microseconds(static_cast<int64_t>(
                                   std::min(predicted_us * timeouts.step_deadline_factor, 3.6e9))));
  if (worker.steps.in_flight.empty()) worker.steps.oldest_since = now;
  worker.steps.last_at = now;
  worker.steps.in_flight.push_back(std::move(sent));
}

void Pipeline::PopOldest(Worker& worker, Instant now) {
  worker.steps.answered_epoch = worker.steps.in_flight.front().epoch;
  worker.steps.in_flight.pop_front();
  worker.steps.oldest_since = now;
  worker.steps.last_at = now;
}

// For deadlines every step counts, from when it became the oldest, as they do. For plans only steps
// of one row that met an idle worker are samples: longer ones are not what they are about.
void Pipeline::RecordTimes(Worker& worker, const SentFrame& sent, const wire::FrameHeader& header,
                           Instant now) {
  if (sent.epoch != epoch_) return;
  worker.times.batches.Add(sent.rows, static_cast<double>((now - worker.steps.oldest_since).us));
  if (sent.rows != 1 || !sent.alone || header.compute_us == 0) return;
  const Stage& stage = stages_[sent.stage];
  const double compute_us = header.compute_us;
  worker.times.compute_us.Add(compute_us);
  worker.times.stage_us.Add(static_cast<double>((now - sent.sent_at).us));
  worker.times.speed.Add(costs_.SpeedSample(worker, stage.first, stage.end, compute_us));
}

Result<std::vector<StageOutput>> Pipeline::OnResult(Worker& worker, Slice message, Instant now) {
  traffic_.bytes_received += message.byte_count();
  ASSIGN_OR_RETURN(const wire::Frame frame, wire::DecodeFrame(std::move(message)));
  if (worker.steps.in_flight.empty())
    return Unexpected("A data frame came though no step is under way.");
  const SentFrame& expected = worker.steps.in_flight.front();
  if (expected.generates) return Unexpected("A data frame came in answer to a Generate.");
  TRY(wire::CheckFrame(frame, {wire::FrameType::kResult, expected.sequence, expected.epoch,
                               expected.stage, expected.runs, expected.columns,
                               options_.model.boundary_dtype, options_.model.vocabulary}));
  const SentFrame sent = std::move(worker.steps.in_flight.front());
  RecordTimes(worker, sent, frame.header, now);
  PopOldest(worker, now);
  worker.steps.tokens_computed += sent.rows;
  std::vector<StageOutput> outputs;
  if (sent.epoch != epoch_) return outputs;
  const bool last = sent.stage + 1u == stages_.size();
  size_t at = 0;
  for (const wire::Run& run : frame.runs) {
    const size_t byte_count = wire::ResultPayloadBytes(
        {&run, 1}, sent.columns, options_.model.boundary_dtype, options_.model.vocabulary);
    Slice payload = frame.payload.Sub(at, byte_count);
    at += byte_count;
    if (!IsLive(run)) continue;
    if (last) {
      outputs.push_back({run, std::move(payload)});
    } else {
      Stage& next = stages_[sent.stage + 1u];
      next.queue.push_back({run, std::move(payload)});
      next.queued_rows += run.count;
    }
  }
  return outputs;
}

Result<std::vector<wire::Run>> Pipeline::OnStepFailed(Worker& worker,
                                                      const wire::pb::StepFailed& failed,
                                                      Instant now) {
  if (worker.steps.in_flight.empty())
    return Unexpected("StepFailed came though no step is under way.");
  const SentFrame& oldest = worker.steps.in_flight.front();
  if (failed.sequence() != oldest.sequence || failed.epoch() != oldest.epoch ||
      failed.stage() != oldest.stage)
    return Unexpected(
        "StepFailed names step " + std::to_string(failed.sequence()) + " of epoch " +
        std::to_string(failed.epoch()) + " and stage " + std::to_string(failed.stage()) +
        ", expected step " + std::to_string(oldest.sequence) + " of epoch " +
        std::to_string(oldest.epoch) + " and stage " + std::to_string(oldest.stage) + ".");
  std::vector<wire::Run> live;
  if (oldest.epoch == epoch_)
    std::copy_if(oldest.runs.begin(), oldest.runs.end(), std::back_inserter(live),
                 [this](const wire::Run& run) { return IsLive(run); });
  PopOldest(worker, now);
  return live;
}

uint64_t Pipeline::waiting_rows() const {
  uint64_t rows = 0;
  for (const Stage& stage : stages_) rows += stage.queued_rows;
  return rows;
}

}  // namespace weft::swarm
