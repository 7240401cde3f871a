// A token and its score: what kernels find, stages answer, the orchestrator chooses from.
#pragma once

#include <cstdint>

namespace weft::sampling {

struct TokenLogit {
  int32_t token_id = 0;
  float logit = 0;  // raw, or after penalties and biases, as whoever gives it says

  bool operator==(const TokenLogit&) const = default;
};

// Most candidates that a stage gives for one row.
inline constexpr uint32_t kMaxCandidates = 256;
// Most tokens that are reported beside the one chosen: OpenAI's limit of top_logprobs.
inline constexpr uint32_t kMaxTopLogprobs = 20;

}  // namespace weft::sampling
