#include "swarm/flow/tell_sampling.h"

#include <algorithm>

#include "wire/sampling_message.h"
#include "wire/version.h"

namespace weft::swarm {
namespace {

// Five bytes a token at most, beside the parameters and 1024 biases of ten.
constexpr uint32_t kTokensPerMessage = 8192;
static_assert(kTokensPerMessage * 5 + 1024 * 10 + 256 < wire::kMaxControlBytes);

}  // namespace

uint64_t SeedOf(const Request& request) {
  return request.sampling.seed.value_or(request.id.value());
}

void TellSampling(Session& session, const StageProgress& stage, Outbox& outbox) {
  const Request& request = session.active->request;
  const bool begins = !session.told || session.told->binding != stage.binding ||
                      session.told->generation != stage.generation;
  if (begins) session.told = {stage.binding, stage.generation, 0};
  const bool penalties = request.sampling.HasPenalties();
  const auto end = penalties ? static_cast<uint32_t>(session.tokens.size()) : 0;
  uint32_t& told = session.told->token_count;
  for (bool first = begins; first || told < end; first = false) {
    auto& message = *outbox.Control(stage.worker).mutable_sampling();
    message.set_session(session.id.value());
    message.set_generation(stage.generation);
    if (first) {
      wire::FillSamplingParams(request.sampling, SeedOf(request), *message.mutable_params());
    }
    for (const uint32_t stop = std::min(end, told + kTokensPerMessage); told < stop; ++told)
      message.add_tokens(static_cast<uint32_t>(session.tokens[told]));
  }
}

}  // namespace weft::swarm
