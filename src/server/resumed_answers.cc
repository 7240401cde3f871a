#include "server/resumed_answers.h"

#include <ctime>
#include <utility>

#include "base/log.h"

namespace weft::server {

journal::pb::Generation ToRecord(const swarm::Request& request) {
  journal::pb::Generation record;
  record.mutable_prompt_ids()->Assign(request.prompt_ids.begin(), request.prompt_ids.end());
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

swarm::Request FromRecord(const journal::RequestEntry& entry) {
  const journal::pb::Generation& record = entry.begun.generation();
  swarm::Request request;
  request.prompt_ids.assign(record.prompt_ids().begin(), record.prompt_ids().end());
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
  sampling.seed = entry.begun.seed();
  // The logprobs of the tokens that are known are not: all of them are computed again.
  if (!request.want_logprobs) request.answer_ids = entry.token_ids;
  return request;
}

void ResumedAnswers::Start(const journal::Contents& found) {
  for (const journal::RequestEntry& entry : found.requests())
    if (entry.begun.has_generation() && !entry.generated_tokens) Start(entry);
  if (!answers_.empty()) LogInfo("{} interrupted requests go on", answers_.size());
}

void ResumedAnswers::Start(const journal::RequestEntry& entry) {
  swarm::Request request = FromRecord(entry);
  const auto answer = std::make_shared<Answer>();
  answers_[entry.begun.key()] = answer;
  const RequestLedger::Run run = ledger_.Begin(entry.begun, std::time(nullptr));
  for (const int32_t id : request.answer_ids) {
    answer->tokens.push_back({.token_id = id});
    ledger_.AddToken(run, id);
  }
  RequestCallbacks callbacks;
  callbacks.on_token = [this, run, answer](const swarm::EmitToken& token) {
    ledger_.AddToken(run, token.token_id);
    if (answer->client.on_token) return answer->client.on_token(token);
    answer->tokens.push_back(token);
  };
  callbacks.on_finish = [this, run, answer](const swarm::FinishRequest& end) {
    ledger_.End(run, end.generated_tokens);
    if (answer->client.on_finish) return std::exchange(answer->client, {}).on_finish(end);
    answer->end = end;
  };
  answer->id = host_.Submit(std::move(request), std::move(callbacks));
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
