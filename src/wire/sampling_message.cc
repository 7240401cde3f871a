#include "wire/sampling_message.h"

#include <algorithm>
#include <string>

namespace weft::wire {
namespace {

constexpr int kMaxBiasEntries = 65536;

}  // namespace

void FillSamplingParams(const sampling::Parameters& parameters, uint64_t seed,
                        pb::SamplingParams& out) {
  out.set_temperature(parameters.temperature);
  out.set_top_k(static_cast<uint32_t>(parameters.top_k));
  out.set_top_p(parameters.top_p);
  out.set_min_p(parameters.min_p);
  out.set_repetition_penalty(parameters.repetition_penalty);
  out.set_presence_penalty(parameters.presence_penalty);
  out.set_frequency_penalty(parameters.frequency_penalty);
  out.set_seed(seed);
  for (const sampling::TokenBias& bias : parameters.logit_bias) {
    out.add_bias_tokens(static_cast<uint32_t>(bias.token_id));
    out.add_biases(bias.bias);
  }
}

Result<sampling::Parameters> ReadSamplingParams(const pb::SamplingParams& params) {
  if (params.bias_tokens_size() != params.biases_size() || params.biases_size() > kMaxBiasEntries) {
    return Error(ErrorCode::kInvalidData, "There are " + std::to_string(params.biases_size()) +
                                              " biases for " +
                                              std::to_string(params.bias_tokens_size()) +
                                              " tokens, expected as many of both and at most " +
                                              std::to_string(kMaxBiasEntries) + ".");
  }
  sampling::Parameters parameters;
  parameters.temperature = params.temperature();
  parameters.top_k = static_cast<int32_t>(std::min<uint32_t>(params.top_k(), INT32_MAX));
  parameters.top_p = params.top_p();
  parameters.min_p = params.min_p();
  parameters.repetition_penalty = params.repetition_penalty();
  parameters.presence_penalty = params.presence_penalty();
  parameters.frequency_penalty = params.frequency_penalty();
  parameters.seed = params.seed();
  for (int i = 0; i < params.biases_size(); ++i) {
    // No vocabulary reaches beyond i32: such a token has no logit.
    if (params.bias_tokens(i) > INT32_MAX) continue;
    parameters.logit_bias.push_back(
        {static_cast<int32_t>(params.bias_tokens(i)), params.biases(i)});
  }
  TRY(sampling::CheckComputable(parameters));
  return parameters;
}

}  // namespace weft::wire
