// Choosing the next token. The last stage changes the logits (penalties, biases) and gives the best
// few of them with the sum over all; ChooseCandidate takes a token from these, exactly the one that
// all logits would have given, or says that only the stage can tell: then the stage draws from all
// logits (kernels/draw.h) with the same number.
//
// A draw: the tokens stand in line by falling logit, equal logits by rising id, each as long as its
// probability exp(logit / temperature) / sum; the token at `uniform` of what is kept is the one.
// What is kept is settled in the order of Hugging Face's transformers: top_k, top_p of what is
// left, min_p. Randomness is counter-based (CounterDouble of base/random.h): the same (seed,
// position) draws the same number on every device, also when a step is replayed. Temperature 0 is
// greedy and draws nothing.
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
  int32_t top_k = 0;             // 0: all tokens
  float top_p = 1;               // keep the smallest set with this mass
  float min_p = 0;               // drop tokens below min_p times the best one's probability
  float repetition_penalty = 1;  // > 0; divides positive, multiplies negative logits of seen tokens
  float presence_penalty = 0;    // -2..2, subtracted once from tokens seen
  float frequency_penalty = 0;   // -2..2, subtracted for each time a token was seen
  std::vector<LogitBias> logit_bias;
  std::optional<uint64_t> seed;  // absent: the host draws one for the request

  bool IsGreedy() const { return temperature == 0; }
  bool HasPenalties() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0;
  }
  // True when penalties or biases change logits, so that a plain argmax of the raw logits is not
  // enough.
  bool ChangesLogits() const { return HasPenalties() || !logit_bias.empty(); }
};

// The first field out of range, by name, with its value and what was expected.
Status ValidateSampling(const SamplingParams& params);

// The logits that tokens are chosen by, in the order of kernels/penalize.h: biases, then
// repetition, frequency and presence penalties for the tokens of `history` (prompt and answer so
// far). Tokens outside of `logits` are ignored.
void ChangeLogits(const SamplingParams& params, std::span<const int32_t> history,
                  std::span<float> logits);

struct SampleCandidate {
  int32_t token_id = 0;
  float logit = 0;  // after penalties and biases
};

// Index of the candidate that `uniform`, in [0, 1), draws; nothing where the draw falls beyond the
// candidates or they do not settle what top_k, top_p and min_p keep.
//
// REQUIRES: candidates non-empty, finite, the best of `vocabulary` tokens in order; `scaled_sum` =
// sum over the vocabulary of exp((logit - best) / temperature), which greedy does not read.
std::optional<size_t> ChooseCandidate(const SamplingParams& params,
                                      std::span<const SampleCandidate> candidates,
                                      double scaled_sum, uint32_t vocabulary, double uniform);

// The same choice where all logits (raw) are at hand.
int32_t SampleLogits(const SamplingParams& params, std::span<const int32_t> history,
                     std::span<const float> logits, double uniform);

}  // namespace weft
