#include "engine/select.h"

#include <algorithm>
#include <array>

#include "sampling/draw.h"
#include "sampling/penalize.h"

namespace weft::engine {
namespace {

// The `count` best of the row, at least one, and logsumexp of the row.
struct Best {
  std::array<sampling::TokenLogit, kernels::kMaxTopK> tokens;
  float logsumexp = 0;
};
Best FindBest(const kernels::KernelSet& kernels, std::span<const float> logits, size_t count) {
  Best best;
  const size_t wanted = std::clamp<size_t>(count, 1, logits.size());
  best.logsumexp = kernels.top_k({logits, std::span(best.tokens).first(wanted)});
  return best;
}

void TakeFirst(const Best& best, size_t count, Selection& selection) {
  for (size_t i = 0; i < count; ++i) {
    selection.candidates.push_back({best.tokens[i].token_id, best.tokens[i].logit});
  }
}

Selection DrawRow(const kernels::KernelSet& kernels, const Output& wanted,
                  std::span<float> logits) {
  const Sampling& how = *wanted.sampling;
  Selection selection;
  const Best raw = FindBest(kernels, logits, wanted.candidate_count);
  selection.logsumexp = raw.logsumexp;
  TakeFirst(raw, wanted.candidate_count, selection);
  // The chosen token's raw logit is wanted, too: a row that changes is kept as it was.
  const bool changes = how.parameters.ChangesLogits();
  const std::vector<float> before(logits.begin(), changes ? logits.end() : logits.begin());
  if (changes) sampling::Penalize(how.parameters, how.counts, logits);
  const int32_t token_id = sampling::Draw(how.parameters, logits, wanted.uniform);
  const auto at = static_cast<size_t>(token_id);
  selection.drawn = {token_id, changes ? before[at] : logits[at]};
  return selection;
}

// Without a sum over the vocabulary: a greedy token needs none, and its exponentials would cost
// more than finding it.
Selection ArgmaxRow(const kernels::KernelSet& kernels, std::span<const float> logits) {
  const kernels::ArgmaxResult two = kernels.argmax(logits);
  Selection selection;
  selection.candidates.push_back({two.best.token_id, two.best.logit});
  if (logits.size() > 1) selection.candidates.push_back({two.second.token_id, two.second.logit});
  return selection;
}

Selection CandidatesRow(const kernels::KernelSet& kernels, const Output& wanted,
                        std::span<float> logits) {
  const size_t count = wanted.candidate_count;
  Selection selection;
  if (wanted.sampling && wanted.sampling->parameters.ChangesLogits()) {
    selection.logsumexp = FindBest(kernels, logits, 1).logsumexp;
    sampling::Penalize(wanted.sampling->parameters, wanted.sampling->counts, logits);
    TakeFirst(FindBest(kernels, logits, count), count, selection);
  } else {
    const Best best = FindBest(kernels, logits, count);
    TakeFirst(best, count, selection);
    selection.logsumexp = best.logsumexp;
  }
  const float temperature = wanted.sampling ? wanted.sampling->parameters.temperature : 1;
  // Towards temperature 0 every term but the best token's vanishes, and greedy requests want the
  // order alone.
  selection.scaled_sum = temperature > 0
                             ? static_cast<float>(kernels.scaled_sum(
                                   {logits, selection.candidates[0].logit, temperature}))
                             : 1;
  return selection;
}

}  // namespace

Selection SelectRow(const kernels::KernelSet& kernels, const Output& wanted,
                    std::span<float> logits) {
  switch (wanted.kind) {
    case OutputKind::kArgmax:
      return ArgmaxRow(kernels, logits);
    case OutputKind::kCandidates:
      return CandidatesRow(kernels, wanted, logits);
    case OutputKind::kDraw:
      return DrawRow(kernels, wanted, logits);
    default:
      CHECK(false, "only outputs that choose tokens select from a row");
  }
}

}  // namespace weft::engine
