#include "kernels/penalize.h"

namespace weft::kernels {

void PenalizeReference(const PenalizeArgs& args) {
  const auto known = [&](int32_t token_id) {
    return token_id >= 0 && static_cast<size_t>(token_id) < args.logits.size();
  };
  for (const auto& [token_id, bias] : args.biases) {
    if (known(token_id)) args.logits[static_cast<size_t>(token_id)] += bias;
  }
  for (const auto& [token_id, count] : args.counts) {
    if (count == 0 || !known(token_id)) continue;
    float& logit = args.logits[static_cast<size_t>(token_id)];
    logit = logit > 0 ? logit / args.repetition : logit * args.repetition;
    logit -= args.frequency * static_cast<float>(count);
    logit -= args.presence;
  }
}

}  // namespace weft::kernels
