#include "kernels/argmax.h"

namespace weft::kernels {

ArgmaxResult ArgmaxReference(std::span<const float> logits) {
  CHECK(!logits.empty());
  ArgmaxResult result;
  result.best = result.second = {0, logits[0]};
  for (size_t i = 1; i < logits.size(); ++i) {
    const TokenLogit token = {static_cast<int32_t>(i), logits[i]};
    if (token.logit > result.best.logit) {
      result.second = result.best;
      result.best = token;
    } else if (i == 1 || token.logit > result.second.logit) {
      result.second = token;
    }
  }
  return result;
}

}  // namespace weft::kernels
