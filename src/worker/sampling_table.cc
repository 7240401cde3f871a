#include "worker/sampling_table.h"

#include <algorithm>
#include <string>

#include "base/random.h"

namespace weft::worker {
namespace {

constexpr size_t kMaxSessions = 65536;
constexpr int kMaxBiases = 65536;

Error Bad(const wire::pb::Sampling& message, const std::string& what) {
  return Error(ErrorCode::kInvalidData, "The server's sampling of session " +
                                            std::to_string(message.session()) + " " + what + ".");
}

// Far wider than what requests may ask: this guards the arithmetic, not the taste.
Status CheckParams(const wire::pb::Sampling& message) {
  const wire::pb::SamplingParams& params = message.params();
  const auto check = [&](const char* name, float value, float lowest, float highest) -> Status {
    if (value >= lowest && value <= highest) return OkStatus();  // false for NaN
    return Bad(message, "has a " + std::string(name) + " of " + std::to_string(value) +
                            ", expected " + std::to_string(lowest) + " to " +
                            std::to_string(highest));
  };
  TRY(check("temperature", params.temperature(), 0, 1e6f));
  TRY(check("top_p", params.top_p(), 0, 1));
  TRY(check("min_p", params.min_p(), 0, 1));
  TRY(check("repetition penalty", params.repetition_penalty(), 1e-6f, 1e6f));
  TRY(check("presence penalty", params.presence_penalty(), -1e6f, 1e6f));
  TRY(check("frequency penalty", params.frequency_penalty(), -1e6f, 1e6f));
  if (params.bias_tokens_size() != params.biases_size() || params.biases_size() > kMaxBiases)
    return Bad(message, "has " + std::to_string(params.biases_size()) + " biases for " +
                            std::to_string(params.bias_tokens_size()) +
                            " tokens, expected as many of both and at most " +
                            std::to_string(kMaxBiases));
  for (const float bias : params.biases()) TRY(check("bias", bias, -1e6f, 1e6f));
  return OkStatus();
}

engine::Sampling SamplingOf(const wire::pb::SamplingParams& params) {
  engine::Sampling sampling;
  sampling.temperature = params.temperature();
  sampling.top_k = static_cast<int32_t>(std::min<uint32_t>(params.top_k(), INT32_MAX));
  sampling.top_p = params.top_p();
  sampling.min_p = params.min_p();
  sampling.repetition = params.repetition_penalty();
  sampling.presence = params.presence_penalty();
  sampling.frequency = params.frequency_penalty();
  for (int i = 0; i < params.biases_size(); ++i) {
    // No vocabulary reaches beyond i32: such a token has no logit.
    if (params.bias_tokens(i) > INT32_MAX) continue;
    sampling.biases.push_back({static_cast<int32_t>(params.bias_tokens(i)), params.biases(i)});
  }
  return sampling;
}

}  // namespace

Status SamplingTable::OnMessage(const wire::pb::Sampling& message, uint32_t vocabulary) {
  if (message.has_params()) {
    TRY(CheckParams(message));
    if (entries_.size() >= kMaxSessions && !entries_.contains(message.session()))
      return Bad(message, "comes beside that of " + std::to_string(kMaxSessions) +
                              " others, expected that sessions end");
    Entry& entry = entries_[message.session()];
    entry = {message.generation(), message.params().seed(), 0, SamplingOf(message.params()), {}};
  }
  const auto found = entries_.find(message.session());
  if (found == entries_.end() || found->second.generation != message.generation())
    return Bad(message, "continues generation " + std::to_string(message.generation()) +
                            ", which was not begun here");
  Entry& entry = found->second;
  for (const uint32_t token : message.tokens()) {
    if (token >= vocabulary)
      return Bad(message, "names token " + std::to_string(token) + ", expected less than " +
                              std::to_string(vocabulary));
    const auto [place, fresh] = entry.places.try_emplace(token, entry.sampling.counts.size());
    if (fresh) entry.sampling.counts.push_back({static_cast<int32_t>(token), 0});
    ++entry.sampling.counts[place->second].count;
  }
  entry.token_count += static_cast<uint64_t>(message.tokens_size());
  return OkStatus();
}

Result<SamplingTable::Found> SamplingTable::Find(uint32_t session, uint32_t generation,
                                                 uint64_t position) const {
  const auto found = entries_.find(session);
  if (found == entries_.end() || found->second.generation != generation)
    return Error(ErrorCode::kInvalidArgument,
                 "How session " + std::to_string(session) + " samples in generation " +
                     std::to_string(generation) + " was not told here.");
  const Entry& entry = found->second;
  if (entry.sampling.HasPenalties() && entry.token_count != position)
    return Error(ErrorCode::kInvalidArgument,
                 "Of session " + std::to_string(session) + " " + std::to_string(entry.token_count) +
                     " tokens are known here, expected the " + std::to_string(position) +
                     " before the one to choose.");
  return Found{&entry.sampling, CounterDouble(entry.seed, position, 0)};
}

}  // namespace weft::worker
