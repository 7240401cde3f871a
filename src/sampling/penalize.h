// Changes a row of logits before tokens are chosen: biases on chosen tokens, penalties on tokens
// already seen. In this order, which is Hugging Face's and OpenAI's together:
//   bias        l + bias
//   repetition  l > 0 ? l / repetition : l * repetition (Keskar et al. 2019)
//   frequency   l - frequency * count
//   presence    l - presence
// the latter three for every token in `counts`. Tokens outside the vocabulary are ignored. The
// WGSL twin is sample_change.wgsl; both are held to tests/conformance.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/parameters.h"

namespace weft::sampling {

// How often a token stands in a conversation so far.
struct TokenCount {
  int32_t token_id = 0;
  uint32_t count = 0;  // a count of 0 changes nothing

  bool operator==(const TokenCount&) const = default;
};

// Each token of `history` once, by rising id.
std::vector<TokenCount> CountTokens(std::span<const int32_t> history);

// Changes `logits` [vocabulary] in place. REQUIRES: each token in `counts` once.
void Penalize(const Parameters& parameters, std::span<const TokenCount> counts,
              std::span<float> logits);

}  // namespace weft::sampling
