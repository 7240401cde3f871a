// Changes a row of logits before selection: biases on chosen tokens, penalties on tokens already
// seen. In this order:
//   bias        l + bias
//   repetition  l > 0 ? l / repetition : l * repetition (Keskar et al. 2019)
//   frequency   l - frequency * count
//   presence    l - presence
// the latter three for every token in `counts`. Tokens outside the vocabulary are ignored.
#pragma once

#include "kernels/view.h"

namespace weft::kernels {

struct TokenCount {
  int32_t token_id = 0;
  uint32_t count = 0;  // a count of 0 changes nothing
};

struct TokenBias {
  int32_t token_id = 0;
  float bias = 0;
};

struct PenalizeArgs {
  std::span<float> logits;  // [vocabulary], changed in place
  float repetition = 1;     // > 0
  float presence = 0;
  float frequency = 0;
  std::span<const TokenCount> counts;  // each token once
  std::span<const TokenBias> biases;
};

void PenalizeReference(const PenalizeArgs& args);

}  // namespace weft::kernels
