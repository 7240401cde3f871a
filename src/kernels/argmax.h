// The best token of a row of logits and its runner-up; their difference is the margin that says how
// sure a greedy step is.
#pragma once

#include "kernels/top_k.h"

namespace weft::kernels {

struct ArgmaxResult {
  TokenLogit best;
  TokenLogit second;  // equal to `best` when the vocabulary has one token
  float margin() const { return best.logit - second.logit; }
};

// `logits` [vocabulary], finite, not empty. Equal logits: the lower id comes first.
ArgmaxResult ArgmaxReference(std::span<const float> logits);
ArgmaxResult ArgmaxSimd(std::span<const float> logits);

}  // namespace weft::kernels
