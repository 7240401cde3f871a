#include "swarm/flow/asked_of_stage.h"

#include <algorithm>

#include "sampling/choose.h"

namespace weft::swarm {

bool MustDraw(const Request& request, const CoreOptions& options) {
  // To draw behind candidates the stage would have to go back by a row.
  if (options.model.is_recurrent() && !request.sampling.IsGreedy()) return true;
  return request.sampling.ChangesLogits() &&
         (request.sampling.IsGreedy() || request.want_logprobs || request.top_logprobs > 0);
}

bool MustSeeLogits(const Request& request, const CoreOptions& options) {
  return request.constraint != nullptr &&
         (options.model.is_recurrent() || MustDraw(request, options));
}

uint16_t CandidateCount(const Request& request, const CoreOptions& options) {
  const bool best_is_enough = request.sampling.IsGreedy() && !request.want_logprobs &&
                              request.top_logprobs == 0 && request.constraint == nullptr;
  if (MustDraw(request, options) || best_is_enough) return 0;
  const uint32_t wanted = std::max(options.candidate_count, request.top_logprobs);
  return static_cast<uint16_t>(
      std::min({std::max(wanted, 1u), sampling::kMaxCandidates, options.model.vocabulary}));
}

}  // namespace weft::swarm
