// Choosing the next token from the candidates that the last stage gives: the k best raw logits and
// the logsumexp of all. Randomness is counter-based (base/random.h): the same (seed, position)
// draws the same number on every device, also when a step is replayed. Temperature 0 is greedy and
// draws nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"

namespace weft {

struct LogitBias {
  int32_t token_id = 0;
  float bias = 0;
};

// Neutral values change nothing. Ranges are OpenAI's; ValidateSampling checks them.
struct SamplingParams {
  float temperature = 1;         // 0: greedy; at most 2
  int32_t top_k = 0;             // 0: all candidates
  float top_p = 1;               // keep the smallest set with this mass
  float min_p = 0;               // drop tokens below min_p times the best one's probability
  float repetition_penalty = 1;  // > 0; divides positive, multiplies negative logits of seen tokens
  float presence_penalty = 0;    // -2..2, subtracted once from tokens seen
  float frequency_penalty = 0;   // -2..2, subtracted for each time a token was seen
  std::vector<LogitBias> logit_bias;
  std::optional<uint64_t> seed;  // absent: the host draws one for the request

  bool IsGreedy() const { return temperature == 0; }
  // True when penalties or biases change logits, so that a plain argmax of the raw logits is not
  // enough.
  bool ChangesLogits() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0 ||
           !logit_bias.empty();
  }
};

// The first field out of range, by name, with its value and what was expected.
Status ValidateSampling(const SamplingParams& params);

struct SampleCandidate {
  int32_t token_id = 0;
  float logit = 0;  // raw
};

struct SampledToken {
  int32_t token_id = 0;
  float logprob = 0;     // of the raw distribution over the whole vocabulary
  bool in_tail = false;  // the draw fell beyond the candidates: ask the stage for more (token_id is
                         // then the best guess: a draw among the candidates alone)
};

// What is kept is settled in this order, as Hugging Face's transformers does: biases and penalties,
// temperature, top_k, top_p, min_p. The token is exactly the one that the full logits would have
// given, whichever number of candidates there is, or `in_tail` is set: where only bounds on the
// missing logits are known (penalties or a temperature other than 1 move them), a token is taken
// only if both bounds lead to it.
//
// REQUIRES: candidates non-empty, finite, by falling logit; `logsumexp` of all raw logits;
// `history` = prompt and generated ids so far (for penalties); `position` = index of the token
// being chosen; `vocabulary` = count of all logits, 0 when it is not known (then more draws fall
// into the tail).
SampledToken Sample(const SamplingParams& params, std::span<const SampleCandidate> candidates,
                    float logsumexp, std::span<const int32_t> history, uint64_t seed,
                    uint64_t position, uint32_t vocabulary = 0,
                    std::optional<float> scaled_logsumexp = std::nullopt);

}  // namespace weft
