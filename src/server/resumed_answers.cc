#include "server/resumed_answers.h"

#include <ctime>
#include <utility>

#include "base/log.h"

namespace weft::server {
namespace {

// Of starts that ended without being told to while they went on with a request.
constexpr uint32_t kMostAttempts = 2;

}  // namespace

store::pb::Request ToRecord(const swarm::Request& request) {
  store::pb::Request record;
  record.mutable_prompt_ids()->Assign(request.prompt_ids.begin(), request.prompt_ids.end());
  record.set_salt(request.salt);
  record.set_max_tokens(request.max_tokens);
  record.mutable_stop_ids()->Assign(request.stop_ids.begin(), request.stop_ids.end());
  record.set_want_logprobs(request.want_logprobs);
  record.set_top_logprobs(request.top_logprobs);
  const sampling::Parameters& sampling = request.sampling;
  record.set_temperature(sampling.temperature);
  record.set_top_k(sampling.top_k);
  record.set_top_p(sampling.top_p);
  record.set_min_p(sampling.min_p);
  record.set_repetition_penalty(sampling.repetition_penalty);
  record.set_presence_penalty(sampling.presence_penalty);
  record.set_frequency_penalty(sampling.frequency_penalty);
  for (const sampling::TokenBias& bias : sampling.logit_bias) {
    record.add_logit_bias()->set_token_id(bias.token_id);
    record.mutable_logit_bias()->rbegin()->set_bias(bias.bias);
  }
  return record;
}

store::StoredSession ToRecord(const swarm::SessionTrace& trace) {
  return {trace.session.value(), trace.first_generation, trace.last_generation};
}

swarm::Request FromRecord(const store::OpenRequest& noted) {
  const store::pb::Request& record = *noted.request;
  swarm::Request request;
  request.prompt_ids.assign(record.prompt_ids().begin(), record.prompt_ids().end());
  request.salt = record.salt();
  request.max_tokens = record.max_tokens();
  request.stop_ids.assign(record.stop_ids().begin(), record.stop_ids().end());
  request.want_logprobs = record.want_logprobs();
  request.top_logprobs = record.top_logprobs();
  sampling::Parameters& sampling = request.sampling;
  sampling.temperature = record.temperature();
  sampling.top_k = record.top_k();
  sampling.top_p = record.top_p();
  sampling.min_p = record.min_p();
  sampling.repetition_penalty = record.repetition_penalty();
  sampling.presence_penalty = record.presence_penalty();
  sampling.frequency_penalty = record.frequency_penalty();
  for (const auto& bias : record.logit_bias())
    sampling.logit_bias.push_back({bias.token_id(), bias.bias()});
  sampling.seed = noted.seed;
  // The logprobs of the tokens that are known are not: all of them are computed again.
  if (!request.want_logprobs) request.answer_ids = noted.token_ids;
  if (noted.session)
    request.resume = {swarm::SessionId(noted.session->session), noted.session->first_generation,
                      noted.session->last_generation};
  return request;
}

void ResumedAnswers::Start(const store::FoundCell& found) {
  for (const store::OpenRequest& noted : found.open_requests) {
    // A start that was told to stop has not failed because of it.
    const uint32_t attempts = found.stopped_at_ms ? 0 : noted.attempts;
    if (attempts < kMostAttempts) {
      Start(noted, attempts + 1);
      continue;
    }
    LogWarn(
        "an interrupted request of {} prompt tokens is dropped: the server has ended {} times "
        "while it went on with it",
        noted.prompt_tokens, attempts);
    ledger_.Drop(noted.key);
  }
  if (answers_.empty()) return;
  ledger_.Flush();
  LogInfo("{} interrupted requests go on", answers_.size());
  for (const auto& [key, answer] : answers_) Submit(answer);
}

void ResumedAnswers::Start(const store::OpenRequest& noted, uint32_t attempts) {
  const auto answer = std::make_shared<Answer>();
  answers_[noted.key] = answer;
  answer->request = FromRecord(noted);
  store::KeyedRequest again = noted;
  again.attempts = attempts;
  answer->run = ledger_.Begin(std::move(again), std::time(nullptr));
  for (const int32_t id : answer->request.answer_ids) {
    answer->tokens.push_back({.token_id = id});
    ledger_.AddToken(answer->run, id);
  }
}

void ResumedAnswers::Submit(const std::shared_ptr<Answer>& answer) {
  RequestCallbacks callbacks;
  callbacks.on_session = [this, answer](const swarm::SessionTrace& trace) {
    ledger_.SetSession(answer->run, ToRecord(trace));
  };
  callbacks.on_token = [this, answer](const swarm::EmitToken& token) {
    ledger_.AddToken(answer->run, token.token_id);
    if (answer->client.on_token) return answer->client.on_token(token);
    answer->tokens.push_back(token);
  };
  callbacks.on_finish = [this, answer](const swarm::FinishRequest& end) {
    ledger_.End(answer->run, end.generated_tokens);
    if (answer->client.on_finish) return std::exchange(answer->client, {}).on_finish(end);
    answer->end = end;
  };
  answer->id = generator_.Submit(std::exchange(answer->request, {}), std::move(callbacks));
}

Generate ResumedAnswers::Take(const KeyedCall& call) {
  const auto found = answers_.find(call.key);
  if (found == answers_.end()) return nullptr;
  const std::shared_ptr<Answer> answer = std::move(found->second);
  answers_.erase(found);
  // One that failed is computed again.
  if (answer->end && answer->end->error) return nullptr;
  return [answer](RequestCallbacks callbacks) {
    for (const swarm::EmitToken& token : answer->tokens) callbacks.on_token(token);
    if (answer->end)
      callbacks.on_finish(*answer->end);
    else
      answer->client = std::move(callbacks);
    return answer->id;
  };
}

}  // namespace weft::server
