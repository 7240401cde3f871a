// Whole-model generation: where one worker runs every layer and can choose tokens by itself, a
// session's tokens come several at a time, without a round trip for each (wire/whole_frame.h).
#include <algorithm>
#include <map>

#include "base/check.h"
#include "swarm/flow/pipeline.h"
#include "swarm/flow/tell_sampling.h"
#include "swarm/workers/measurement.h"

namespace weft::swarm {
namespace {

// A Tokens frame holds what is made in about this time: shorter than people notice. A device works
// two of them ahead, and a new conversation waits for both.
constexpr double kBurstUs = 40'000;
constexpr uint32_t kFirstInterval = 4, kMaxInterval = 16;
// So many intervals are asked for at once where a device's speed is not known yet, or a session is
// alone on one that takes turns.
constexpr uint32_t kIntervalsAlone = 4;
// Of a device that takes every session into its batch. Behind the last token its place in the batch
// is empty for a round trip, and a Generate can be stopped at any time: so many that it is seldom.
constexpr uint32_t kMostTokens = 512;
// Of a Tokens frame (wire/whole_frame.h), without its tokens.
constexpr uint64_t kTokensHeadBytes = 24;

Error Unexpected(std::string message) {
  return Error(ErrorCode::kInvalidData, std::move(message));
}

}  // namespace

// Others are chosen token by token: their logprobs or logits are wanted, their answers have to be
// something, the worker has just failed to generate for them, or devices have gone while they did
// and it must be known whose fault it is.
bool Pipeline::Generates(const Session& session) const {
  if (!generates_ || !session.active || session.active->step_failures > 0 ||
      !session.active->victims.empty())
    return false;
  const Request& request = session.active->request;
  return !request.wants_rows() && !request.want_logprobs && request.top_logprobs == 0 &&
         request.keep.empty() && request.constraint == nullptr;
}

// What a step of one row of each of so many sessions takes.
std::optional<double> Pipeline::GenerateUs(const Worker& worker, size_t sessions) const {
  if (sessions > 1)
    if (const auto us = worker.times.together.ExpectedUs(static_cast<uint32_t>(sessions)))
      return us;
  return worker.times.compute_us.Median();
}

uint32_t Pipeline::Interval(std::optional<double> step_us) const {
  if (options_.generate_interval > 0) return options_.generate_interval;
  if (!step_us || *step_us <= 0) return kFirstInterval;
  return static_cast<uint32_t>(std::clamp(kBurstUs / *step_us, 1.0, double{kMaxInterval}));
}

uint32_t Pipeline::TokensToAsk(const Worker& worker, uint32_t interval, bool measured) const {
  const uint32_t places = worker.offer.makes_tokens;
  if (places == 1) return active_count() == 1 ? interval * kIntervalsAlone : interval;
  // Where more sessions are active than have a place, they take turns.
  return measured && active_count() <= places ? kMostTokens : interval * kIntervalsAlone;
}

// The next session in turn whose one waiting row is the last known token.
Session* Pipeline::NextToGenerate() {
  const auto& sessions = sessions_.sessions();
  size_t start = 0;
  while (start < sessions.size() && sessions[start]->id <= generate_rotation_) ++start;
  for (size_t i = 0; i < sessions.size(); ++i) {
    Session& session = *sessions[(start + i) % sessions.size()];
    if (session.plan != plan_ || !Generates(session)) continue;
    const StageProgress* progress = Ready(session, 0);
    if (progress != nullptr && progress->sent + 1u == session.tokens.size()) return &session;
  }
  return nullptr;
}

// A device that takes several computes them as one batch, beside the steps.
void Pipeline::SendGenerates(Worker& worker, Instant now) {
  while (worker.steps->generating.size() < worker.offer.makes_tokens) {
    Session* session = NextToGenerate();
    if (session == nullptr) return;
    SendGenerate(*session, worker, now);
  }
}

void Pipeline::SendGenerate(Session& session, Worker& worker, Instant now) {
  const ActiveRequest& active = *session.active;
  const Request& request = active.request;
  const sampling::Parameters& params = request.sampling;
  const size_t together = worker.steps->generating.size() + 1;
  const auto step_us = GenerateUs(worker, together);
  const uint32_t interval = Interval(step_us);
  const BoundStage& bound = stages_[0].bound;
  StageProgress& progress = session.Track(bound);
  wire::Generate frame;
  frame.sequence = totals_.next_sequence++;
  frame.binding = bound.binding.value();
  frame.session = session.id.value();
  frame.generation = progress.generation;
  frame.position = progress.sent;
  frame.token_id = session.tokens.back();
  frame.interval = static_cast<uint16_t>(interval);
  frame.count = static_cast<uint16_t>(std::min(active.max_tokens - active.generated_tokens,
                                               TokensToAsk(worker, interval, step_us.has_value())));
  frame.sampling = params;
  frame.sampling.seed = SeedOf(request);
  frame.stop_ids = request.stop_ids;
  std::erase_if(frame.sampling.logit_bias, [&](const sampling::TokenBias& bias) {
    return static_cast<uint32_t>(bias.token_id) >= options_.model.vocabulary;
  });
  if (params.HasPenalties()) frame.seen = sampling::CountTokens(session.tokens);

  TellTrace(session, *session.active);
  SentFrame sent;
  sent.plan = plan_;
  sent.sequence = frame.sequence;
  sent.binding = bound.binding;
  sent.layers = bound.layers;
  wire::Run run;
  run.session = session.id.value();
  run.generation = progress.generation;
  run.first_position = frame.position;
  run.count = frame.count;
  sent.runs = {run};
  sent.sent_at = sent.told_at = now;
  sent.answer_bytes = kTokensHeadBytes + uint64_t{frame.count} * sizeof(int32_t);
  progress.sent = static_cast<uint32_t>(session.tokens.size());
  generate_rotation_ = session.id;
  // The first tokens come when two intervals were made at most: the worker works ahead.
  const double predicted_us =
      costs_.StepUs(worker, bound.layers, static_cast<uint32_t>(together)) * 2 * interval;
  Track(worker, sent, predicted_us, now);
  worker.steps.edit().generating.push_back(std::move(sent));
  SendFrame(worker.id, frame);
}

void Pipeline::SendFrame(WorkerId worker, const wire::WholeFrame& frame) {
  SendData data{worker, {}};
  data.pieces.emplace_back(wire::EncodeWholeFrame(frame));
  outbox_.Add(std::move(data));
}

void Pipeline::StopUnwanted() {
  if (!generates_) return;
  const WorkerId worker = stages_[0].bound.worker;
  for (SentFrame& sent : roster_.Find(worker)->steps.edit().generating) {
    if (sent.stopped || LiveProgress(sent.runs[0], sent.binding)) continue;
    sent.stopped = true;
    SendFrame(worker, wire::StopGenerating{sent.sequence, sent.binding.value()});
  }
}

// The binding is not the plan's any more. It has gone on by itself behind what is known, and tokens
// that come from now on are others' to choose.
void Pipeline::EndGenerating(const BoundStage& bound) {
  Worker* worker = roster_.Find(bound.worker);
  if (worker == nullptr) return;
  for (SentFrame& sent : worker->steps.edit().generating) {
    if (sent.binding != bound.binding) continue;
    if (StageProgress* progress = LiveProgress(sent.runs[0], sent.binding)) {
      Session& session = *sessions_.Find(SessionId(sent.runs[0].session));
      session.RewindStage(*progress, session.completed);
    }
    if (sent.stopped) continue;
    sent.stopped = true;
    SendFrame(worker->id, wire::StopGenerating{sent.sequence, sent.binding.value()});
  }
}

// What fails with one of a batch is told of each, one after the other.
Pipeline::FailedRuns Pipeline::FailGenerate(Worker& worker,
                                            std::deque<SentFrame>::iterator generate, Instant now) {
  FailedRuns live{generate->binding, 1, {}, generate->failure_counted};
  if (LiveProgress(generate->runs[0], live.binding) != nullptr)
    live.runs.push_back(generate->runs[0]);
  worker.steps.edit().generating.erase(generate);
  for (SentFrame& sent : worker.steps.edit().generating) sent.failure_counted = true;
  worker.steps.edit().NoteAnswered(live.binding);
  WorkerSteps& steps = worker.steps.edit();
  steps.oldest_since = steps.last_at = now;
  totals_.touched.push_back(worker.id);
  return live;
}

Result<GeneratedTokens> Pipeline::OnTokens(Worker& worker, const wire::Tokens& tokens,
                                           Instant now) {
  auto& generating = worker.steps.edit().generating;
  const auto found = std::find_if(generating.begin(), generating.end(), [&](const auto& sent) {
    return sent.sequence == tokens.sequence && sent.binding.value() == tokens.binding;
  });
  if (found == generating.end()) {
    std::string expected = generating.empty() ? "none" : "one of";
    for (const SentFrame& sent : generating)
      expected += " " + std::to_string(sent.sequence) + " of binding " + ToString(sent.binding);
    return Unexpected("Tokens answers the Generate " + std::to_string(tokens.sequence) +
                      " of binding " + std::to_string(tokens.binding) + ", expected " + expected +
                      ".");
  }
  SentFrame& sent = *found;
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
  StageProgress* progress = LiveProgress(sent.runs[0], sent.binding);
  out.live =
      progress != nullptr && FindStage(sent.binding) != nullptr &&
      out.run.first_position + 1u == sessions_.Find(SessionId(out.run.session))->tokens.size();
  if (progress != nullptr) {
    progress->forked = false;
    progress->held = out.run.first_position + static_cast<uint32_t>(tokens.token_ids.size());
    // Until the last one has come, the worker goes on by itself.
    progress->sent = progress->held + (tokens.last ? 0 : 1);
  }
  sent.tokens_made = static_cast<uint32_t>(made);
  WorkerSteps& steps = worker.steps.edit();
  steps.has_served = true;
  steps.tokens_computed += tokens.token_ids.size();
  if (FindStage(sent.binding) != nullptr && !tokens.token_ids.empty())
    if (const double us = TokensUs(worker, sent, tokens, now); tokens.compute_us > 0 || us > 0)
      RecordTokens(worker, sent, us);
  steps.NoteAnswered(sent.binding);
  // One that has not told yet may still wait for the kernels of so large a batch.
  const auto told =
      std::ranges::count_if(generating, [](const SentFrame& each) { return each.tokens_made > 0; });
  if (static_cast<size_t>(told) >= worker.SessionsTogether())
    steps.met.AddBatch(worker.SessionsTogether());
  steps.oldest_since = steps.last_at = sent.told_at = now;
  sent.failure_counted = false;
  if (tokens.last) {
    generating.erase(found);
    totals_.touched.push_back(worker.id);
  }
  return out;
}

// What each of these tokens took, as far as it can be. The worker works ahead and the line gives
// tokens in bursts, so what is bounded is the mean since they were asked for.
double Pipeline::TokensUs(const Worker& worker, const SentFrame& sent, const wire::Tokens& tokens,
                          Instant now) const {
  const double claimed_us = tokens.compute_us / static_cast<double>(tokens.token_ids.size());
  const auto elapsed_us = static_cast<double>((now - sent.sent_at).us);
  const double most_us = elapsed_us / static_cast<double>(tokens.token_ids.size());
  const bool only_generates = sent.alone && active_count() == 1;
  if (!only_generates) return std::min(claimed_us, most_us);
  const double least_us = BoundedComputeUs(0, elapsed_us, costs_.LatencyUs(worker));
  return std::min(std::max(claimed_us, least_us / std::max(sent.tokens_made, 1u)), most_us);
}

// Of a device's speed only a session that was alone tells.
void Pipeline::RecordTokens(Worker& worker, const SentFrame& sent, double step_us) {
  const auto sessions = static_cast<uint32_t>(worker.steps->generating.size());
  worker.times.batches.Add(sessions, step_us);
  worker.times.together.Add(sessions, step_us);
  worker.times.computed.Add(sessions, step_us);
  if (sessions > 1) return;
  worker.times.compute_us.Add(step_us);
  worker.times.stage_us.Add(step_us);
  worker.times.AddSpeed(costs_.SpeedSample(worker, sent.layers, step_us));
}

}  // namespace weft::swarm
