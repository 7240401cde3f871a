// A constraint says what the tokens of an answer have to be together, such as the text of a
// grammar. Whoever chooses tokens asks it, and does not know what is behind it
// (api/token_grammar.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sampling/parameters.h"
#include "sampling/token_logit.h"

namespace weft::sampling {

// The place that one answer has reached. One thread at a time may use it.
class AnswerState {
 public:
  virtual ~AnswerState() = default;
  virtual bool Allows(int32_t token_id) const = 0;
  // Gives all tokens that are allowed, by rising id. This takes much longer than Allows.
  virtual std::vector<int32_t> Allowed() = 0;
  // Adds the token to the answer. False: it is not allowed, and nothing has changed.
  virtual bool Advance(int32_t token_id) = 0;
  // Tells that nothing may come any more but the end.
  virtual bool IsOver() const = 0;
  // Gives tokens that come next whatever would be drawn, because their text does. Nobody need draw
  // them, and they can be computed together. There are none where that is not certain.
  virtual std::vector<int32_t> Forced() const { return {}; }
};

// A constraint does not change: any number of threads may use it.
class Constraint {
 public:
  virtual ~Constraint() = default;
  // Gives the state of an answer without a token.
  virtual std::unique_ptr<AnswerState> Begin() const = 0;
  // Gives that of which another server of the same model makes the same constraint
  // (api/constraint_source.h). "": it has no such form.
  virtual std::string Source() const { return ""; }
};

// Gives the index of the candidate to choose where the token that was drawn first is not allowed.
// It is drawn once more, from those that are. Drawing first and masking only then is the same as
// masking at once, and mostly needs no mask. Gives nullopt where the candidates do not settle it,
// because tokens beyond them may be allowed. For example, the temperature is 1, and the weights are
// 1, 0.5 and 0.1, of which the first is refused, and 0.05 beyond. A `uniform` of 0.3 means the
// second, however much of the 0.05 counts: 0.3 * 0.6 and 0.3 * 0.65 are below 0.5. At 0.8 the third
// may be meant or not. Then all tokens that are allowed are looked up: if none is beyond, it is the
// second.
//
// REQUIRES: as ChooseCandidate.
std::optional<size_t> ChooseAllowed(const Parameters& parameters,
                                    std::span<const TokenLogit> candidates, double scaled_sum,
                                    uint32_t vocabulary, AnswerState& answer, double uniform);

// Gives the token at `uniform` of all that are allowed, or nullopt where none is. `logits` are as
// for Draw.
std::optional<int32_t> DrawAllowed(const Parameters& parameters, std::span<const float> logits,
                                   AnswerState& answer, double uniform);

}  // namespace weft::sampling
