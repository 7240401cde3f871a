// One token is drawn from a whole row of logits. The last stage answers so when the draw falls
// beyond its candidates (docs/protocol.md), and everything else is compared with it.
//
// The tokens stand in line by falling logit, equal logits by rising id, each as long as its
// probability exp(logit / temperature) / sum; the token at `uniform` of what is kept is the one.
// What is kept is settled in the order of Hugging Face's transformers: top_k, then top_p of what is
// left, then min_p. An example has temperature 1, top_p 0.8 and uniform 0.7 over probabilities 0.5,
// 0.3, 0.2. The first two are kept (0.5 < 0.8 <= 0.8), and 0.7 * 0.8 = 0.56 lies in the second.
//
// Randomness is counter-based (CounterDouble of base/random.h): the same (seed, position) draws the
// same number on every device, also when a step is replayed. Temperature 0 is greedy.
#pragma once

#include <cstdint>
#include <span>

#include "sampling/parameters.h"

namespace weft::sampling {

// `logits` [vocabulary], finite, not empty, after penalties and biases. `uniform` in [0, 1).
int32_t Draw(const Parameters& parameters, std::span<const float> logits, double uniform);

// The same for raw logits: counts `history`, penalises a copy and draws from it.
int32_t DrawAfterPenalties(const Parameters& parameters, std::span<const int32_t> history,
                           std::span<const float> logits, double uniform);

}  // namespace weft::sampling
