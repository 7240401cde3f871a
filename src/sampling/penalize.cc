#include "sampling/penalize.h"

#include <map>

namespace weft::sampling {

std::vector<TokenCount> CountTokens(std::span<const int32_t> history) {
  std::map<int32_t, uint32_t> counts;
  for (const int32_t token_id : history) ++counts[token_id];
  std::vector<TokenCount> list;
  list.reserve(counts.size());
  for (const auto& [token_id, count] : counts) list.push_back({token_id, count});
  return list;
}

void Penalize(const Parameters& parameters, std::span<const TokenCount> counts,
              std::span<float> logits) {
  const auto known = [&](int32_t token_id) {
    return token_id >= 0 && static_cast<size_t>(token_id) < logits.size();
  };
  for (const auto& [token_id, bias] : parameters.logit_bias) {
    if (known(token_id)) logits[static_cast<size_t>(token_id)] += bias;
  }
  if (!parameters.HasPenalties()) return;
  for (const auto& [token_id, count] : counts) {
    if (count == 0 || !known(token_id)) continue;
    float& logit = logits[static_cast<size_t>(token_id)];
    // A positive score shrinks and a negative one grows, so that both become less likely.
    logit =
        logit > 0 ? logit / parameters.repetition_penalty : logit * parameters.repetition_penalty;
    logit -= parameters.frequency_penalty * static_cast<float>(count);
    logit -= parameters.presence_penalty;
  }
}

}  // namespace weft::sampling
