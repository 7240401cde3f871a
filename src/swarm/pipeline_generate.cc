// Whole-model generation: where one worker runs every layer and can choose tokens by itself, a
// session's tokens come several at a time, without a round trip for each (wire/generation.h).
#include <algorithm>
#include <map>

#include "base/check.h"
#include "swarm/pipeline.h"
#include "swarm/tell_sampling.h"

namespace weft::swarm {
namespace {

// A Tokens frame holds what is made in about this time: shorter than people notice.
constexpr double kBurstUs = 100'000;
constexpr uint32_t kFirstInterval = 4, kMaxInterval = 16;
// So many intervals are asked for at once while nobody else waits for the worker.
constexpr uint32_t kIntervalsAlone = 4;
// Of a Tokens frame (wire/generation.h), without its tokens.
constexpr uint64_t kTokensHeadBytes = 24;

Error Unexpected(std::string message) {
  return Error(ErrorCode::kInvalidData, std::move(message));
}

}  // namespace

bool CanGenerate(const Worker& worker) {
  return worker.offer.makes_tokens;
}

// Others are chosen token by token: their logprobs or logits are wanted, or the worker has just
// failed to generate for them.
bool Pipeline::Generates(const Session& session) const {
  if (!generates_ || !session.active || session.active->step_failures > 0) return false;
  const Request& request = session.active->request;
  return !request.want_logits && !request.want_logprobs && request.top_logprobs == 0;
}

uint32_t Pipeline::Interval(const Worker& worker) const {
  if (options_.generate_interval > 0) return options_.generate_interval;
  const auto us = worker.times.compute_us.Median();
  if (!us || *us <= 0) return kFirstInterval;
  return static_cast<uint32_t>(std::clamp(kBurstUs / *us, 1.0, double{kMaxInterval}));
}

// The next session in turn whose one waiting row is the last known token.
Session* Pipeline::NextToGenerate() {
  const auto& sessions = sessions_.sessions();
  size_t start = 0;
  while (start < sessions.size() && sessions[start]->id <= generate_rotation_) ++start;
  for (size_t i = 0; i < sessions.size(); ++i) {
    Session& session = *sessions[(start + i) % sessions.size()];
    if (!Generates(session)) continue;
    const StageProgress* progress = Ready(session, 0);
    if (progress != nullptr && progress->sent + 1u == session.tokens.size()) return &session;
  }
  return nullptr;
}

void Pipeline::SendGenerate(Session& session, Worker& worker, Instant now) {
  const ActiveRequest& active = *session.active;
  const Request& request = active.request;
  const sampling::Parameters& params = request.sampling;
  const uint32_t interval = Interval(worker);
  const bool alone = sessions_.active_count() == 1;
  const BoundStage& bound = stages_[0].bound;
  StageProgress& progress = session.Track(bound);
  wire::Generate frame;
  frame.sequence = next_sequence_++;
  frame.epoch = bound.binding;
  frame.session = session.id;
  frame.generation = progress.generation;
  frame.position = progress.sent;
  frame.token_id = session.tokens.back();
  frame.interval = static_cast<uint16_t>(interval);
  frame.count = static_cast<uint16_t>(std::min(active.max_tokens - active.generated_tokens,
                                               alone ? interval * kIntervalsAlone : interval));
  frame.sampling = params;
  frame.sampling.seed = SeedOf(request);
  frame.stop_ids = request.stop_ids;
  std::erase_if(frame.sampling.logit_bias, [&](const sampling::TokenBias& bias) {
    return static_cast<uint32_t>(bias.token_id) >= options_.model.vocabulary;
  });
  if (params.HasPenalties()) frame.seen = sampling::CountTokens(session.tokens);

  SentFrame sent;
  sent.sequence = frame.sequence;
  sent.epoch = bound.binding;
  sent.layers = bound.layers;
  wire::Run run;
  run.session = session.id;
  run.generation = progress.generation;
  run.first_position = frame.position;
  run.count = frame.count;
  sent.runs = {run};
  sent.sent_at = now;
  sent.generates = true;
  sent.answer_bytes = kTokensHeadBytes + uint64_t{frame.count} * sizeof(int32_t);
  progress.sent = static_cast<uint32_t>(session.tokens.size());
  generate_rotation_ = session.id;
  // The first tokens come when two intervals were made at most: the worker works ahead.
  const double predicted_us = costs_.StepUs(worker, bound.layers, 1) * 2 * interval;
  Track(worker, std::move(sent), predicted_us, now);
  SendFrame(worker.id, frame);
}

void Pipeline::SendFrame(WorkerId worker, const wire::GenerationFrame& frame) {
  SendData data{worker, {}};
  data.pieces.emplace_back(wire::EncodeGeneration(frame));
  outbox_.Add(std::move(data));
}

void Pipeline::StopUnwanted() {
  if (!generates_) return;
  const WorkerId worker = stages_[0].bound.worker;
  for (SentFrame& sent : roster_.Find(worker)->steps.in_flight) {
    if (!sent.generates || sent.stopped || LiveProgress(sent.runs[0], sent.epoch)) continue;
    sent.stopped = true;
    SendFrame(worker, wire::StopGenerating{sent.sequence, sent.epoch});
  }
}

// The binding is not the plan's any more. It has gone on by itself behind what is known, and tokens
// that come from now on are others' to choose.
void Pipeline::EndGenerating(const BoundStage& bound) {
  Worker* worker = roster_.Find(bound.worker);
  if (worker == nullptr) return;
  for (SentFrame& sent : worker->steps.in_flight) {
    if (!sent.generates || sent.epoch != bound.binding) continue;
    if (StageProgress* progress = LiveProgress(sent.runs[0], sent.epoch)) {
      Session& session = *sessions_.Find(sent.runs[0].session);
      session.RewindStage(*progress, session.completed);
    }
    if (sent.stopped) continue;
    sent.stopped = true;
    SendFrame(worker->id, wire::StopGenerating{sent.sequence, sent.epoch});
  }
}

Result<GeneratedTokens> Pipeline::OnTokens(Worker& worker, const wire::Tokens& tokens,
                                           Instant now) {
  if (worker.steps.in_flight.empty() || !worker.steps.in_flight.front().generates)
    return Unexpected("Tokens came though the oldest step under way is no Generate.");
  SentFrame& sent = worker.steps.in_flight.front();
  if (tokens.sequence != sent.sequence || tokens.epoch != sent.epoch)
    return Unexpected("Tokens answers step " + std::to_string(tokens.sequence) + " of epoch " +
                      std::to_string(tokens.epoch) + ", expected step " +
                      std::to_string(sent.sequence) + " of epoch " + std::to_string(sent.epoch) +
                      ".");
  const uint32_t wanted = sent.runs[0].count;
  const size_t made = sent.tokens_made + tokens.token_ids.size();
  const bool may_be_empty = tokens.last && (sent.stopped || sent.tokens_made > 0);
  if (made > wanted || (tokens.token_ids.empty() && !may_be_empty) ||
      (made == wanted && !tokens.last))
    return Unexpected("Tokens brings " + std::to_string(tokens.token_ids.size()) + " after " +
                      std::to_string(sent.tokens_made) + " of " + std::to_string(wanted) +
                      " tokens, expected at least one, no more than asked for, and the last one "
                      "to be marked.");
  for (const int32_t id : tokens.token_ids)
    if (id < 0 || static_cast<uint32_t>(id) >= options_.model.vocabulary)
      return Unexpected("Tokens holds token " + std::to_string(id) + ", expected 0 to " +
                        std::to_string(options_.model.vocabulary - 1) + ".");
  GeneratedTokens out;
  out.run = sent.runs[0];
  out.run.first_position += sent.tokens_made;
  out.token_ids = tokens.token_ids;
  out.last = tokens.last;
  StageProgress* progress = LiveProgress(sent.runs[0], sent.epoch);
  out.live = progress != nullptr && FindStage(sent.epoch) != nullptr &&
             out.run.first_position + 1u == sessions_.Find(out.run.session)->tokens.size();
  if (progress != nullptr) {
    progress->held = out.run.first_position + static_cast<uint32_t>(tokens.token_ids.size());
    // Until the last one has come, the worker goes on by itself.
    progress->sent = progress->held + (tokens.last ? 0 : 1);
  }
  sent.tokens_made = static_cast<uint32_t>(made);
  worker.steps.tokens_computed += tokens.token_ids.size();
  if (FindStage(sent.epoch) != nullptr && !tokens.token_ids.empty() && tokens.compute_us > 0) {
    const double us = tokens.compute_us / static_cast<double>(tokens.token_ids.size());
    worker.times.compute_us.Add(us);
    worker.times.stage_us.Add(us);
    worker.times.batches.Add(1, us);
    worker.times.speed.Add(costs_.SpeedSample(worker, sent.layers, us));
  }
  if (tokens.last) {
    PopOldest(worker, now);
  } else {
    worker.steps.answered_epoch = sent.epoch;
    worker.steps.oldest_since = worker.steps.last_at = now;
  }
  return out;
}

}  // namespace weft::swarm
