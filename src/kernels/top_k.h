// The k best tokens of a row of logits, and the logarithm of the sum of all exponentials. With it
// the caller knows how much probability lies in the unseen tail.
#pragma once

#include "kernels/view.h"
#include "sampling/token_logit.h"

namespace weft::kernels {

inline constexpr size_t kMaxTopK = sampling::kMaxCandidates;

using sampling::TokenLogit;

struct TopKArgs {
  std::span<const float> logits;  // [vocabulary], finite
  std::span<TokenLogit>
      best;  // 1..256 and at most the vocabulary; by falling logit, equal logits by rising id
};

// Returns logsumexp(logits).
float TopKReference(const TopKArgs& args);
float TopKSimd(const TopKArgs& args);

struct ScaledSumArgs {
  std::span<const float> logits;  // [vocabulary], finite
  float largest = 0;              // of `logits`
  float temperature = 1;          // > 0
};

// The sum of exp((logit - largest) / temperature): with it, whoever sees the best tokens only knows
// the probability of the others. largest / temperature + log(sum) is the scaled logits' logsumexp;
// the sum is given because it keeps more of its digits in f32.
double ScaledSumReference(const ScaledSumArgs& args);
double ScaledSumSimd(const ScaledSumArgs& args);

}  // namespace weft::kernels
