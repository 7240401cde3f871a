// How a request's tokens are chosen: the parameters, in OpenAI's and Hugging Face's words, and what
// they may be. The same object goes from the API through the core and over the wire to the stage.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"

namespace weft::sampling {

struct TokenBias {
  int32_t token_id = 0;
  float bias = 0;

  bool operator==(const TokenBias&) const = default;
};

// Neutral values change nothing. Ranges are OpenAI's; Validate checks them.
struct Parameters {
  float temperature = 1;         // 0: greedy
  int32_t top_k = 0;             // 0: all tokens
  float top_p = 1;               // keep the smallest set with this mass
  float min_p = 0;               // drop tokens below min_p times the best one's probability
  float repetition_penalty = 1;  // > 0; divides positive, multiplies negative logits of seen tokens
  float presence_penalty = 0;    // subtracted once from tokens seen
  float frequency_penalty = 0;   // subtracted for each time a token was seen
  std::vector<TokenBias> logit_bias;
  std::optional<uint64_t> seed;  // absent: the host draws one for the request

  bool IsGreedy() const { return temperature == 0; }
  bool HasPenalties() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0;
  }
  // True when penalties or biases change logits, so that a plain argmax of the raw logits is not
  // enough.
  bool ChangesLogits() const { return HasPenalties() || !logit_bias.empty(); }

  bool operator==(const Parameters&) const = default;
};

struct Range {
  double lowest = 0, highest = 0;
};

// What the fields may be, in a request and as a model's recommendation.
inline constexpr Range kTemperatureRange{0, 2};
inline constexpr Range kTopPRange{0, 1};
inline constexpr Range kMinPRange{0, 1};
inline constexpr Range kRepetitionPenaltyRange{0.1, 10};
inline constexpr Range kPenaltyRange{-2, 2};  // of presence and frequency
inline constexpr Range kBiasRange{-100, 100};
inline constexpr int32_t kMaxTopK = 1 << 20;
inline constexpr size_t kMaxBiases = 1024;

// What a request may ask. kInvalidArgument: the first field out of range, by name, with its value
// and what was expected.
Status Validate(const Parameters& parameters);

// A stage takes this from an orchestrator. It is far wider than Validate, since it guards the
// arithmetic (no value that is not finite, no division by 0) and not the taste. The error is
// kInvalidData.
Status CheckComputable(const Parameters& parameters);

}  // namespace weft::sampling
