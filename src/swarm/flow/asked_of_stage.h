// What a request needs of the last stage for its next token: the best token, candidates, a draw of
// the stage's own, or all logits.
#pragma once

#include <cstdint>

#include "swarm/events.h"
#include "swarm/options.h"

namespace weft::swarm {

// The last stage alone can tell: the raw probabilities beside those that penalties and biases leave
// (logprobs), or greedy after them, where the best token is all that is wanted.
bool MustDraw(const Request& request, const CoreOptions& options);

// All logits of each position are asked for: the stage must not draw what nobody has checked, nor
// go back by a row of a recurrent model.
bool MustSeeLogits(const Request& request, const CoreOptions& options);

// Candidates to ask of the last stage; 0: its best token is enough.
uint16_t CandidateCount(const Request& request, const CoreOptions& options);

}  // namespace weft::swarm
