// What a step is made of: which sessions have rows for a stage, in which order, and how many.
#include <algorithm>

#include "base/check.h"
#include "swarm/flow/chunk.h"
#include "swarm/flow/micro_batches.h"
#include "swarm/flow/pipeline.h"
#include "swarm/flow/tell_sampling.h"

namespace weft::swarm {
namespace {

// Rows of a prompt whose logits are wanted, of all tokens, share frames of so many bytes.
constexpr uint64_t kLogitFrameBytes = 4 << 20;
// Steps of the first stage until its device's times are looked at again for micro-batches.
constexpr uint32_t kStepsOfParts = 64;

}  // namespace

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
  if (!before.bound.binding.is_set()) return;
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
// get what they leave of a chunk; where they leave little, half a chunk, or a prompt would never be
// read beside many conversations. Where nobody decodes, nobody waits: a frame is filled then, too,
// and one for the only stage holds more, as only who comes meanwhile waits for it. Of conversations
// that nobody waits for it holds a chunk: whoever comes waits behind it.
uint32_t Pipeline::RowLimit(Pass pass, const Batch& batch) const {
  const uint32_t most = std::max(chunk_rows_, std::min(options_.prefill_chunk_rows, most_rows_));
  if (pass == Pass::kIdle) return chunk_rows_;
  if (pass == Pass::kDecoding) return most;
  if (!SomeoneDecodes()) return std::max(most, alone_rows_);
  return std::min(most, std::max(chunk_rows_, batch.rows + (chunk_rows_ + 1) / 2));
}

// Conversations that decode: those whose row waits in front of the first stage, and those that are
// on their way round.
Pipeline::DecodingRows Pipeline::CountDecoding() const {
  const BindingId first = stages_[0].bound.binding;
  DecodingRows rows;
  for (const auto& session : sessions_.sessions()) {
    if (session->plan != plan_ || !session->active || Generates(*session)) continue;
    if (session->completed + 1 < session->tokens.size()) continue;
    const auto at = std::ranges::find(session->progress, first, &StageProgress::binding);
    if (at == session->progress.end() || at->sent + 1 < session->tokens.size()) continue;
    ++(at->sent < session->tokens.size() ? rows.waiting : rows.away);
  }
  return rows;
}

// Rows that the first stage is sent at once, `most` at most; 0: what waits there waits for others.
uint32_t Pipeline::DecodingLimit(uint32_t most) {
  const auto [waiting, away] = CountDecoding();
  const uint32_t rows = waiting + away;
  if (rows < 2) return most;
  if (parts_of_ != rows || parts_steps_ >= kStepsOfParts) {
    parts_ = std::max(FittingParts(rows), (rows + most - 1) / most);
    parts_of_ = rows;
    parts_steps_ = 0;
  }
  const bool is_too_few = waiting < rows / parts_ && away > 0;
  return is_too_few ? 0 : std::min(most, (rows + parts_ - 1) / parts_);
}

// All of them where some worker computes one run at a time: these wait for nobody.
uint32_t Pipeline::FittingParts(uint32_t rows) const {
  std::vector<StageCosts> costs;
  for (const Stage& stage : stages_) {
    if (!stage.bound.binding.is_set()) continue;
    const Worker& worker = *roster_.Find(stage.bound.worker);
    if (RunLimit(worker) == 1) return rows;
    const auto passed_us = [this, &stage, &worker](uint32_t together) {
      const double us = TogetherUs(stage, together);
      return std::min(us, worker.times.together.AtMostUs(together).value_or(us));
    };
    const auto computed_us = [&worker, passed_us](uint32_t together) {
      return worker.times.BusyUs(together).value_or(passed_us(together));
    };
    costs.push_back({passed_us, computed_us});
  }
  return MicroBatches(rows, costs, static_cast<uint32_t>(kFramesInFlight * costs.size()));
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
    if (session->plan == plan_ && session->active.has_value() != (pass == Pass::kIdle))
      turns.push_back(session);
  }
  if (pass == Pass::kChunks)
    std::ranges::stable_sort(turns, {}, [&](const Session* each) { return RankOf(*each, stage); });
  return turns;
}

void Pipeline::TakePass(size_t stage_index, Pass pass, size_t run_limit, Batch& batch) {
  Stage& stage = stages_[stage_index];
  uint32_t row_limit = RowLimit(pass, batch);
  if (pass == Pass::kDecoding && stage_index == 0)
    row_limit = DecodingLimit(std::min<uint32_t>(row_limit, run_limit));
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

void Pipeline::TellTrace(const Session& session, ActiveRequest& active) {
  if (active.trace.last_generation == session.last_generation()) return;
  active.trace.last_generation = session.last_generation();
  outbox_.Add(EmitSession{active.request.id, active.trace});
}

// One run of at most `row_limit` rows from where the stage stands. A run never mixes rows with
// different outputs: what a stage gives is wanted from where the history behind it ends, and of the
// last one what the session says.
void Pipeline::AddRun(Session& session, StageProgress& progress, const Stage& stage,
                      uint32_t row_limit, Batch& batch) {
  const LayerSpan& layers = stage.bound.layers;
  if (session.active) TellTrace(session, *session.active);
  wire::Run run;
  run.session = session.id.value();
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

}  // namespace weft::swarm
