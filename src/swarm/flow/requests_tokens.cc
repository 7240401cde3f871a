// From what the last stage gives to tokens: chosen, kept and told.
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "sampling/choose.h"
#include "sampling/draw.h"
#include "sampling/penalize.h"
#include "swarm/flow/asked_of_stage.h"
#include "swarm/flow/requests.h"
#include "swarm/flow/tell_sampling.h"

namespace weft::swarm {
namespace {

// A stage that must be asked again for one token in so many, or more often, draws by itself.
constexpr uint32_t kTokensPerTailDraw = 8;

// Of the token to choose next. Without a seed the request's number is one: a replay after a loss
// must draw the same token. `draw` 1: the first one was refused.
double UniformOf(const Session& session, uint32_t draw = 0) {
  const Request& request = session.active->request;
  return CounterDouble(SeedOf(request), session.tokens.size(), draw);
}

template <typename Best>
void AddTop(const Best& best, size_t count, float logsumexp, EmitToken& token) {
  for (size_t i = 0; i < std::min(count, best.size()); ++i)
    token.top.push_back({best[i].token_id, best[i].logit - logsumexp});
}

// The token, or where the answer may not go on with it one that is drawn from those that it may.
std::optional<int32_t> DrawOfAnswer(const Session& session, int32_t drawn,
                                    std::span<const float> logits) {
  const Request& request = session.active->request;
  sampling::AnswerState& answer = *session.active->answer;
  if (answer.Allows(drawn)) return drawn;
  std::vector<float> changed(logits.begin(), logits.end());
  if (request.sampling.ChangesLogits())
    sampling::Penalize(request.sampling, sampling::CountTokens(session.tokens), changed);
  return sampling::DrawAllowed(request.sampling, changed, answer, UniformOf(session, 1));
}

Error NothingAllowed() {
  return Error(ErrorCode::kUnavailable,
               "The answer cannot go on: no token of the model's vocabulary fits what it has to "
               "be. Ask for a form that its tokens can write.");
}

// The k best of a row of logits, as a stage would give them.
Result<wire::CandidatesResult> CandidatesOf(std::span<const float> logits, size_t k) {
  std::vector<int32_t> ids(logits.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>(i);
    if (!std::isfinite(logits[i]))
      return Error(ErrorCode::kInvalidData, "A row of logits holds a value that is not finite.");
  }
  k = std::min(k, ids.size());
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(k), ids.end(),
                    [&](int32_t a, int32_t b) {
                      const float x = logits[static_cast<size_t>(a)];
                      const float y = logits[static_cast<size_t>(b)];
                      return x != y ? x > y : a < b;
                    });
  wire::CandidatesResult result;
  for (size_t i = 0; i < k; ++i)
    result.candidates.push_back({ids[i], logits[static_cast<size_t>(ids[i])]});
  double sum = 0;
  for (const float logit : logits)
    sum += std::exp(static_cast<double>(logit - result.candidates[0].logit));
  result.logsumexp = result.candidates[0].logit + static_cast<float>(std::log(sum));
  return result;
}

}  // namespace

Status Requests::OnOutput(const StageOutput& output, Instant now) {
  Session* session = sessions_.Find(SessionId(output.run.session));
  if (!session || !session->active) return OkStatus();  // an earlier output of the frame ended it
  const uint32_t completed = session->completed;
  session->completed = std::max(completed, output.run.first_position + output.run.count);
  Status status = TakeOutput(*session, output, now);
  // What cannot be read has brought nothing: another worker computes these rows.
  if (!status.ok()) session->completed = completed;
  return status;
}

Status Requests::TakeOutput(Session& session, const StageOutput& output, Instant now) {
  switch (output.run.output) {
    case wire::OutputKind::kNone:
      if (!session.active->request.keep.empty() && session.completed == session.tokens.size())
        EndKept(session, now);
      return OkStatus();
    case wire::OutputKind::kArgmax:
      return OnArgmax(session, output.payload.bytes(), now);
    case wire::OutputKind::kCandidates: {
      ASSIGN_OR_RETURN(const wire::CandidatesResult result,
                       wire::DecodeCandidates(output.payload.bytes(), output.run.candidate_count,
                                              options_.model.vocabulary));
      return OnCandidates(session, result, now);
    }
    case wire::OutputKind::kDraw: {
      ASSIGN_OR_RETURN(const wire::DrawResult result,
                       wire::DecodeDraw(output.payload.bytes(), output.run.candidate_count,
                                        options_.model.vocabulary));
      return OnDraw(session, result, now);
    }
    case wire::OutputKind::kLogits:
      return OnLogits(session, output, now);
    case wire::OutputKind::kHidden:
      break;
  }
  CHECK(false, "the last stage never gives hidden rows");
}

void Requests::OnGenerated(const GeneratedTokens& generated, Instant now) {
  const wire::Run& run = generated.run;
  uint32_t position = run.first_position;
  for (const int32_t id : generated.token_ids) {
    Session* session = sessions_.Find(SessionId(run.session));
    if (!session || !session->active) return;
    CHECK(position + 1 == session->tokens.size());
    session->completed = ++position;
    sessions_.Charge(*session, 1);
    EmitToken token;
    token.token_id = id;
    Emit(*session, std::move(token), now);
  }
}

Status Requests::OnArgmax(Session& session, ByteSpan payload, Instant now) {
  ASSIGN_OR_RETURN(const wire::ArgmaxResult result,
                   wire::DecodeArgmax(payload, options_.model.vocabulary));
  EmitToken token;
  token.token_id = result.token_id;
  token.margin = result.margin;
  Emit(session, std::move(token), now);
  return OkStatus();
}

Status Requests::OnCandidates(Session& session, const wire::CandidatesResult& result, Instant now) {
  ActiveRequest& active = *session.active;
  const Request& request = active.request;
  std::vector<sampling::TokenLogit> candidates;
  candidates.reserve(result.candidates.size());
  for (const sampling::TokenLogit& candidate : result.candidates)
    candidates.push_back({candidate.token_id, candidate.logit});
  auto chosen = sampling::ChooseCandidate(request.sampling, candidates, result.scaled_sum,
                                          options_.model.vocabulary, UniformOf(session));
  if (chosen && active.answer && !active.answer->Allows(candidates[*chosen].token_id))
    chosen =
        sampling::ChooseAllowed(request.sampling, candidates, result.scaled_sum,
                                options_.model.vocabulary, *active.answer, UniformOf(session, 1));
  if (!chosen && active.answer) {
    // The last row once more, with the logits of all tokens.
    active.wants_row = true;
    session.completed = static_cast<uint32_t>(session.tokens.size()) - 1;
    return OkStatus();
  }
  if (!chosen) {
    // The draw fell beyond what the stage gave: it runs the last row again and draws by itself.
    ++active.tail_draws;
    active.stage_draws = true;
    session.completed = static_cast<uint32_t>(session.tokens.size()) - 1;
    return OkStatus();
  }
  EmitToken token;
  token.token_id = candidates[*chosen].token_id;
  // Where logprobs are wanted, nothing changed these logits (MustDraw).
  if (request.want_logprobs) token.logprob = candidates[*chosen].logit - result.logsumexp;
  if (candidates.size() > 1) token.margin = candidates[0].logit - candidates[1].logit;
  AddTop(candidates, request.top_logprobs, result.logsumexp, token);
  Emit(session, std::move(token), now);
  return OkStatus();
}

Status Requests::OnDraw(Session& session, const wire::DrawResult& result, Instant now) {
  ActiveRequest& active = *session.active;
  // Back to candidates where the tail is seldom needed: they cost the stage less.
  const bool often =
      active.tail_draws > 1 && active.tail_draws * kTokensPerTailDraw >= active.generated_tokens;
  active.stage_draws = MustDraw(active.request, options_) || often;
  EmitToken token;
  token.token_id = result.drawn.token_id;
  if (active.request.want_logprobs) token.logprob = result.drawn.logit - result.logsumexp;
  AddTop(result.best, active.request.top_logprobs, result.logsumexp, token);
  Emit(session, std::move(token), now);
  return OkStatus();
}

Status Requests::OnLogits(Session& session, const StageOutput& output, Instant now) {
  ActiveRequest& active = *session.active;
  const uint32_t first = output.run.first_position, end = first + output.run.count;
  const size_t row_bytes = size_t{options_.model.head_columns()} * sizeof(float);
  const uint32_t fresh = std::max(first, active.logits_emitted);
  // Rows that the client has already (the context was recomputed) are not sent twice.
  if (active.request.wants_rows() && fresh < end) {
    outbox_.Add(
        EmitLogits{active.request.id, fresh, end - fresh,
                   output.payload.Sub((fresh - first) * row_bytes, (end - fresh) * row_bytes)});
    active.logits_emitted = end;
  }
  if (end != session.tokens.size()) return OkStatus();
  if (active.max_tokens == 0) {
    EndSession(session, FinishReason::kLength, std::nullopt, now);
    return OkStatus();
  }
  std::vector<float> row(options_.model.vocabulary);
  std::memcpy(row.data(), output.payload.bytes().data() + (output.run.count - 1u) * row_bytes,
              row_bytes);
  const Request& request = active.request;
  ASSIGN_OR_RETURN(const wire::CandidatesResult best,
                   CandidatesOf(row, std::max<size_t>(request.top_logprobs, 2)));
  EmitToken token;
  token.token_id =
      sampling::DrawAfterPenalties(request.sampling, session.tokens, row, UniformOf(session));
  if (active.answer) {
    active.wants_row = MustSeeLogits(request, options_);
    const auto allowed = DrawOfAnswer(session, token.token_id, row);
    if (!allowed) {
      Fail(session, NothingAllowed(), now);
      return OkStatus();
    }
    token.token_id = *allowed;
  }
  if (request.want_logprobs)
    token.logprob = row[static_cast<size_t>(token.token_id)] - best.logsumexp;
  if (best.candidates.size() > 1)
    token.margin = best.candidates[0].logit - best.candidates[1].logit;
  AddTop(best.candidates, request.top_logprobs, best.logsumexp, token);
  Emit(session, std::move(token), now);
  return OkStatus();
}

void Requests::Emit(Session& session, EmitToken token, Instant now) {
  ActiveRequest& active = *session.active;
  const std::vector<int32_t>& stops = active.request.stop_ids;
  if (std::find(stops.begin(), stops.end(), token.token_id) != stops.end())
    return EndSession(session, FinishReason::kStop, std::nullopt, now);
  token.request = active.request.id;
  active.step_failures = 0;
  active.last_token_at = now;
  active.denials.clear();
  if (std::exchange(active.last_try, false)) --last_tries_;
  if (!active.victims.empty()) {
    active.victims.clear();
    session.alone = false;
  }
  for (StageProgress& stage : session.progress) stage.held_at_failure.reset();
  Append(session, std::move(token), now);
  AppendForced(session, now);
  if (active.answer && active.answer->IsOver())
    return EndSession(session, FinishReason::kStop, std::nullopt, now);
  if (active.generated_tokens >= active.max_tokens)
    EndSession(session, FinishReason::kLength, std::nullopt, now);
}

void Requests::Append(Session& session, EmitToken token, Instant now) {
  ActiveRequest& active = *session.active;
  token.index = active.generated_tokens++;
  ++active.told_tokens;
  ++counts_.generated_tokens;
  if (session.plan != kActivePlan) ++counts_.side_tokens;
  rate_.Add(now);
  session.tokens.push_back(token.token_id);
  const bool goes_on = !active.answer || active.answer->Advance(token.token_id);
  outbox_.Add(std::move(token));
  CHECK(goes_on, "a token was emitted that the constraint refuses");
}

// Tokens that must come are known as those of a prompt are: the next lap computes all of them. How
// likely each was nobody computes, so that an answer with logprobs goes without.
void Requests::AppendForced(Session& session, Instant now) {
  ActiveRequest& active = *session.active;
  if (!active.answer || active.request.want_logprobs) return;
  for (const int32_t id : active.answer->Forced()) {
    const bool is_over = active.answer->IsOver() || active.generated_tokens >= active.max_tokens;
    if (is_over || !active.answer->Allows(id)) return;
    EmitToken token;
    token.request = active.request.id;
    token.token_id = id;
    Append(session, std::move(token), now);
    ++counts_.forced_tokens;
  }
}

}  // namespace weft::swarm
