// One token drawn from a whole row of logits, after penalties and biases: what the last stage
// answers when the draw falls beyond the candidates it gave (docs/protocol.md). The tokens stand in
// line by falling logit, equal logits by rising id, each as long as its probability; the token at
// `uniform` of what is kept is the one. So a choice among the best few, made elsewhere with the sum
// over all (text/sampler.h), and this one agree.
#pragma once

#include "kernels/view.h"

namespace weft::kernels {

// Kept in this order: top_k, then top_p of what is left, then min_p.
struct DrawArgs {
  std::span<const float> logits;  // [vocabulary], finite
  float temperature = 1;          // 0: the best token
  int32_t top_k = 0;              // 0: all
  float top_p = 1;                // the smallest set with this part of the mass, at least one token
  float min_p = 0;                // tokens of less than min_p times the best one's probability go
  double uniform = 0;             // [0, 1)
};

int32_t Draw(const DrawArgs& args);

}  // namespace weft::kernels
