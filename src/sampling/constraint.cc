#include "sampling/constraint.h"

#include <algorithm>
#include <cmath>

#include "sampling/choose.h"
#include "sampling/draw.h"

namespace weft::sampling {

std::optional<size_t> ChooseAllowed(const Parameters& parameters,
                                    std::span<const TokenLogit> candidates, double scaled_sum,
                                    uint32_t vocabulary, AnswerState& answer, double uniform) {
  std::vector<TokenLogit> allowed;
  std::vector<size_t> places;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!answer.Allows(candidates[i].token_id)) continue;
    allowed.push_back(candidates[i]);
    places.push_back(i);
  }
  if (allowed.empty()) return std::nullopt;
  if (parameters.IsGreedy()) return places[0];
  // Weights in units of the best allowed one's.
  const auto weight = [&](const TokenLogit& candidate) {
    const double above = static_cast<double>(candidate.logit) - allowed[0].logit;
    return std::exp(above / parameters.temperature);
  };
  double listed = 0, listed_allowed = 0;
  for (const TokenLogit& candidate : candidates) listed += weight(candidate);
  for (const TokenLogit& candidate : allowed) listed_allowed += weight(candidate);
  const auto count = static_cast<uint32_t>(allowed.size());
  const auto with_none = ChooseCandidate(parameters, allowed, listed_allowed, count, uniform);
  if (!with_none) return std::nullopt;
  // All of `beyond` is allowed, or nothing: between these the place only rises.
  const auto is_settled = [&](double beyond) {
    return with_none ==
           ChooseCandidate(parameters, allowed, listed_allowed + beyond, count + 1, uniform);
  };
  if (candidates.size() >= vocabulary) return places[*with_none];
  const double beyond = std::max(0.0, scaled_sum * weight(candidates[0]) - listed);
  if (is_settled(beyond)) return places[*with_none];
  // Of those that are allowed most may be listed, and none of the others has more than the last.
  const size_t others = answer.Allowed().size() - allowed.size();
  const double most = static_cast<double>(others) * weight(candidates.back());
  if (others == 0 || is_settled(std::min(beyond, most))) return places[*with_none];
  return std::nullopt;
}

std::optional<int32_t> DrawAllowed(const Parameters& parameters, std::span<const float> logits,
                                   AnswerState& answer, double uniform) {
  std::vector<int32_t> ids = answer.Allowed();
  std::erase_if(ids, [&](int32_t id) { return static_cast<size_t>(id) >= logits.size(); });
  if (ids.empty()) return std::nullopt;
  std::vector<float> row;
  row.reserve(ids.size());
  for (const int32_t id : ids) row.push_back(logits[static_cast<size_t>(id)]);
  return ids[static_cast<size_t>(Draw(parameters, row, uniform))];
}

}  // namespace weft::sampling
