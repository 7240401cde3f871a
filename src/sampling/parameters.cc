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

Status CheckRange(ErrorCode code, std::string_view name, float value, Range range) {
  const auto lowest = static_cast<float>(range.lowest);
  const auto highest = static_cast<float>(range.highest);
  if (value >= lowest && value <= highest) return OkStatus();  // false for NaN
  return Error(code, std::string(name) + " is " + Number(value) + ", but must be from " +
                         Number(lowest) + " to " + Number(highest) + ".");
}

struct Ranges {
  Range temperature, top_p, min_p, repetition, penalty, bias;
};

Status CheckRanges(ErrorCode code, const Parameters& parameters, const Ranges& ranges) {
  const auto check = [code](std::string_view name, float value, Range range) {
    return CheckRange(code, name, value, range);
  };
  TRY(check("temperature", parameters.temperature, ranges.temperature));
  TRY(check("top_p", parameters.top_p, ranges.top_p));
  TRY(check("min_p", parameters.min_p, ranges.min_p));
  TRY(check("repetition_penalty", parameters.repetition_penalty, ranges.repetition));
  TRY(check("presence_penalty", parameters.presence_penalty, ranges.penalty));
  TRY(check("frequency_penalty", parameters.frequency_penalty, ranges.penalty));
  for (const TokenBias& bias : parameters.logit_bias) {
    TRY(check("logit_bias of token " + std::to_string(bias.token_id), bias.bias, ranges.bias));
  }
  return OkStatus();
}

}  // namespace

Status Validate(const Parameters& parameters) {
  constexpr ErrorCode kCode = ErrorCode::kInvalidArgument;
  if (parameters.top_k < 0 || parameters.top_k > kMaxTopK) {
    return Error(kCode, "top_k is " + std::to_string(parameters.top_k) +
                            ", but must be from 0 (off) to " + std::to_string(kMaxTopK) + ".");
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
  return CheckRanges(kCode, parameters,
                     {kTemperatureRange, kTopPRange, kMinPRange, kRepetitionPenaltyRange,
                      kPenaltyRange, kBiasRange});
}

Status CheckComputable(const Parameters& parameters) {
  constexpr Range kEither{-1e6, 1e6};
  return CheckRanges(ErrorCode::kInvalidData, parameters,
                     {{0, 1e6}, kTopPRange, kMinPRange, {1e-6, 1e6}, kEither, kEither});
}

}  // namespace weft::sampling
