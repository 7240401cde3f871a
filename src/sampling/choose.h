// A token is chosen from the last stage's best few and the sum over all. It is exactly the one that
// draw.h takes from all logits, or the answer says that only the stage can tell.
//
// An example: three candidates of weights 1, 0.5, 0.25 (the best one's is 1) and scaled_sum 2, so
// 0.25 of mass lies beyond them. uniform 0.6 points at 1.2: the second candidate, whatever the
// others are. uniform 0.95 points at 1.9, beyond the listed 1.75: nullopt. uniform 0.75 points at
// 1.5, the border between the second and the third: nullopt, too, for scaled_sum is rounded to f32.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "sampling/parameters.h"
#include "sampling/token_logit.h"

namespace weft::sampling {

// The index of the candidate that `uniform`, in [0, 1), draws. Nothing comes back where the draw
// falls beyond the candidates, or as near to a border as scaled_sum is rounded. The same holds
// where the candidates do not settle what top_k, top_p and min_p keep.
//
// REQUIRES: candidates non-empty, finite, after penalties and biases, the best of `vocabulary`
// tokens in order; `scaled_sum` = sum over the vocabulary of exp((logit - best) / temperature),
// which greedy does not read.
std::optional<size_t> ChooseCandidate(const Parameters& parameters,
                                      std::span<const TokenLogit> candidates, double scaled_sum,
                                      uint32_t vocabulary, double uniform);

}  // namespace weft::sampling
