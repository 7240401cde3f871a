// What the tokens of an answer have to be together, such as the text of a grammar. Who chooses
// tokens asks it; what is behind it (api/token_grammar.h) it does not know.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sampling/parameters.h"
#include "sampling/token_logit.h"

namespace weft::sampling {

// How far one answer is. One thread at a time.
class AnswerState {
 public:
  virtual ~AnswerState() = default;
  virtual bool Allows(int32_t token_id) const = 0;
  // All tokens that are allowed, by rising id. Takes much longer than Allows.
  virtual std::vector<int32_t> Allowed() = 0;
  // The token is part of the answer. False: it is not allowed, and nothing has changed.
  virtual bool Advance(int32_t token_id) = 0;
  // Nothing may come any more but the end.
  virtual bool IsOver() const = 0;
  // Tokens that come next whatever would be drawn, because their text does: nobody need draw them,
  // and they can be computed together. Empty where that is not certain.
  virtual std::vector<int32_t> Forced() const { return {}; }
};

// Immutable.
class Constraint {
 public:
  virtual ~Constraint() = default;
  // Of an answer without a token.
  virtual std::unique_ptr<AnswerState> Begin() const = 0;
};

// Index of the candidate to choose where the token that was drawn first is not allowed: drawn once
// more, from those that are. Drawing first and masking only then is the same as masking at once,
// and mostly needs no mask. nullopt: the candidates do not settle it, because tokens beyond them
// may be allowed. An example with temperature 1 and weights 1, 0.5 and 0.1, of which the first is
// refused, and 0.05 beyond: at `uniform` 0.3 it is the second, however much of the 0.05 counts
// (0.3 * 0.6 and 0.3 * 0.65 are below 0.5); at 0.8 the third may be meant or not. There all tokens
// that are allowed are looked up: if none is beyond, it is the second.
//
// REQUIRES: as ChooseCandidate.
std::optional<size_t> ChooseAllowed(const Parameters& parameters,
                                    std::span<const TokenLogit> candidates, double scaled_sum,
                                    uint32_t vocabulary, AnswerState& answer, double uniform);

// The token at `uniform` of all that are allowed; nullopt where none is. `logits` as Draw.
std::optional<int32_t> DrawAllowed(const Parameters& parameters, std::span<const float> logits,
                                   AnswerState& answer, double uniform);

}  // namespace weft::sampling
