#include "sampling/parameters.h"

#include <string>

namespace weft::sampling {
namespace {

std::string Number(float x) {
  std::string text = std::to_string(x);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

Status CheckRange(ErrorCode code, std::string_view name, float value, float lowest, float highest) {
  if (value >= lowest && value <= highest) return OkStatus();  // false for NaN
  return Error(code, std::string(name) + " is " + Number(value) + ", but must be from " +
                         Number(lowest) + " to " + Number(highest) + ".");
}

struct Ranges {
  float temperature;       // from 0
  float least_repetition;  // of repetition_penalty
  float repetition;        // the same, at most
  float penalty;           // of presence and frequency, either side of 0
  float bias;              // either side of 0
};

Status CheckRanges(ErrorCode code, const Parameters& parameters, const Ranges& ranges) {
  const auto check = [&](std::string_view name, float value, float lowest, float highest) {
    return CheckRange(code, name, value, lowest, highest);
  };
  TRY(check("temperature", parameters.temperature, 0, ranges.temperature));
  TRY(check("top_p", parameters.top_p, 0, 1));
  TRY(check("min_p", parameters.min_p, 0, 1));
  TRY(check("repetition_penalty", parameters.repetition_penalty, ranges.least_repetition,
            ranges.repetition));
  TRY(check("presence_penalty", parameters.presence_penalty, -ranges.penalty, ranges.penalty));
  TRY(check("frequency_penalty", parameters.frequency_penalty, -ranges.penalty, ranges.penalty));
  for (const TokenBias& bias : parameters.logit_bias) {
    TRY(check("logit_bias of token " + std::to_string(bias.token_id), bias.bias, -ranges.bias,
              ranges.bias));
  }
  return OkStatus();
}

}  // namespace

Status Validate(const Parameters& parameters) {
  constexpr ErrorCode kCode = ErrorCode::kInvalidArgument;
  if (parameters.top_k < 0) {
    return Error(kCode,
                 "top_k is " + std::to_string(parameters.top_k) + ", but must be 0 (off) or more.");
  }
  if (parameters.logit_bias.size() > kMaxBiases) {
    return Error(kCode, "logit_bias has " + std::to_string(parameters.logit_bias.size()) +
                            " entries; the limit is " + std::to_string(kMaxBiases) + ".");
  }
  for (const TokenBias& bias : parameters.logit_bias) {
    if (bias.token_id >= 0) continue;
    return Error(kCode, "logit_bias names the token " + std::to_string(bias.token_id) +
                            ", but ids start at 0.");
  }
  return CheckRanges(kCode, parameters, {2, 0.1f, 10, 2, kMaxBias});
}

Status CheckComputable(const Parameters& parameters) {
  return CheckRanges(ErrorCode::kInvalidData, parameters, {1e6f, 1e-6f, 1e6f, 1e6f, 1e6f});
}

}  // namespace weft::sampling
