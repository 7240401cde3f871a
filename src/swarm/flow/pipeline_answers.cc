// Answers to steps: checked, measured, and the rows that they bring.
#include <algorithm>

#include "swarm/flow/pipeline.h"
#include "swarm/workers/measurement.h"
#include "tensor/finite.h"

namespace weft::swarm {
namespace {

Error Unexpected(std::string message) {
  return Error(ErrorCode::kInvalidData, std::move(message));
}

}  // namespace

void Pipeline::PopOldest(Worker& worker, Instant now) {
  worker.steps.edit().NoteAnswered(worker.steps->in_flight.front().binding);
  worker.steps.edit().met.AddStep(worker.steps->in_flight.front().rows);
  worker.steps.edit().in_flight.pop_front();
  WorkerSteps& steps = worker.steps.edit();
  steps.oldest_since = steps.answered_at = steps.last_at = now;
  totals_.touched.push_back(worker.id);
}

// What a worker says that it computed, as far as it can be. A hub waits for others besides, and a
// step behind Generates, or behind a load, for its turn: nothing can be told of those. One behind
// other steps is computed from when it is the oldest at the latest.
double Pipeline::ComputeUs(const Worker& worker, const SentFrame& sent,
                           const wire::FrameHeader& header, Instant now) const {
  const double claimed_us = header.compute_us;
  const bool only_computes =
      worker.steps->answered_binding == sent.binding && worker.steps->generating.empty() &&
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
  const bool serves = FindStage(sent.binding) != nullptr;
  // Another worker has been asked meanwhile. That this one takes so long must be known all the
  // same: two that are slower than they were would else be asked in turn, token after token.
  const auto oldest_us = static_cast<double>((now - worker.OldestSince()).us);
  if (serves || sent.was_late) worker.times.batches.Add(sent.rows, oldest_us);
  if (serves && sent.rows == sent.runs.size()) worker.times.together.Add(sent.rows, oldest_us);
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
  if (!sent.alone && header.queue_us > 0) worker.times.behind.Add(sent.rows, step.compute_us);
  if (sent.rows > sent.runs.size()) FitChunks();
  if (sent.layers.is_hub())
    worker.times.AddWaits(step, costs_.LatencyUs(worker) + costs_.HandoverUs(worker),
                          costs_.Exchanges(sent.layers));
  else
    worker.times.AddLine(step, worker.Rates());
  if (sent.rows > 1) worker.times.AddBatch(step, costs_.ComputeUs(worker, sent.layers));
  if (sent.rows != 1) return;
  // A worker that says less than can be true may never be met idle.
  const bool is_doubted = step.compute_us > header.compute_us;
  if (is_doubted && !sent.alone) {
    worker.times.compute_us.Add(step.compute_us);
    worker.times.AddSpeed(costs_.SpeedSample(worker, sent.layers, step.compute_us));
  }
  if (!sent.alone) return;
  worker.times.compute_us.Add(step.compute_us);
  worker.times.stage_us.Add(step.elapsed_us);
  const double stage_us = step.elapsed_us + kServerStepUs;
  if (sent.predicted_us > 0) {
    totals_.errors.initial.Add(sent.planned_us, stage_us);
    totals_.errors.running.Add(sent.predicted_us, stage_us);
  }
  worker.times.AddSpeed(costs_.SpeedSample(worker, sent.layers, step.compute_us));
}

Result<Pipeline::StepResult> Pipeline::OnResult(Worker& worker, Slice message, Instant now) {
  totals_.traffic.bytes_received += message.byte_count();
  ASSIGN_OR_RETURN(const wire::Frame frame, wire::DecodeFrame(std::move(message)));
  if (worker.steps->in_flight.empty())
    return Unexpected("A data frame came though no step is under way.");
  const SentFrame& expected = worker.steps->in_flight.front();
  TRY(wire::CheckFrame(
      frame, {wire::FrameType::kResult, expected.sequence, expected.binding.value(), expected.stage,
              expected.runs, expected.columns, options_.model.boundary_dtype,
              options_.model.head_columns()}));
  const SentFrame sent = std::move(worker.steps.edit().in_flight.front());
  RecordTimes(worker, sent, frame.header, now);
  PopOldest(worker, now);
  worker.steps.edit().tokens_computed += sent.rows;
  StepSums& sums = worker.steps.edit().sums;
  ++sums.count;
  sums.rows += sent.rows;
  sums.queue_us += frame.header.queue_us;
  sums.compute_us += frame.header.compute_us;
  sums.passed_us += (now - sent.sent_at).us;
  worker.steps.edit().times.Add(now - sent.sent_at);
  StepResult result;
  result.failed = {sent.binding, 1, {}, false};
  result.last_layer = sent.layers.end - 1;
  // Whose place another one has taken, because its answer was late, may still be the first.
  const Stage* stage = FindStage(sent.binding);
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
    StageProgress* progress = LiveProgress(run, sent.binding);
    if (progress == nullptr) continue;
    if (run.output == wire::OutputKind::kHidden)
      if (const uint64_t bad = CountNotFinite(options_.model.boundary_dtype, payload.bytes())) {
        result.not_finite += bad;
        result.failed.runs.push_back(run);
        continue;
      }
    progress->held = run.first_position + run.count;
    progress->forked = false;
    Session& session = *sessions_.Find(SessionId(run.session));
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
    return sent.sequence == failed.sequence() && sent.binding.value() == failed.binding();
  });
  if (generate != generating.end()) return FailGenerate(worker, generate, now);
  if (worker.steps->in_flight.empty())
    return Unexpected("StepFailed came though no step is under way.");
  const SentFrame& oldest = worker.steps->in_flight.front();
  if (failed.sequence() != oldest.sequence || failed.binding() != oldest.binding.value() ||
      failed.stage() != oldest.stage)
    return Unexpected("StepFailed names step " + std::to_string(failed.sequence()) +
                      " of binding " + std::to_string(failed.binding()) + " and stage " +
                      std::to_string(failed.stage()) + ", expected step " +
                      std::to_string(oldest.sequence) + " of binding " + ToString(oldest.binding) +
                      " and stage " + std::to_string(oldest.stage) + ".");
  FailedRuns live{oldest.binding, oldest.runs.size(), {}, false};
  std::copy_if(oldest.runs.begin(), oldest.runs.end(), std::back_inserter(live.runs),
               [&](const wire::Run& run) { return LiveProgress(run, live.binding) != nullptr; });
  PopOldest(worker, now);
  return live;
}

}  // namespace weft::swarm
