#include "swarm/tell_sampling.h"

#include <algorithm>

#include "wire/version.h"

namespace weft::swarm {
namespace {

// Five bytes a token at most, beside the parameters and 1024 biases of ten.
constexpr uint32_t kTokensPerMessage = 8192;
static_assert(kTokensPerMessage * 5 + 1024 * 10 + 256 < wire::kMaxControlBytes);

void SetParams(const Request& request, wire::pb::SamplingParams& out) {
  const SamplingParams& params = request.sampling;
  out.set_temperature(params.temperature);
  out.set_top_k(static_cast<uint32_t>(params.top_k));
  out.set_top_p(params.top_p);
  out.set_min_p(params.min_p);
  out.set_repetition_penalty(params.repetition_penalty);
  out.set_presence_penalty(params.presence_penalty);
  out.set_frequency_penalty(params.frequency_penalty);
  out.set_seed(SeedOf(request));
  for (const LogitBias& bias : params.logit_bias) {
    out.add_bias_tokens(static_cast<uint32_t>(bias.token_id));
    out.add_biases(bias.bias);
  }
}

}  // namespace

uint64_t SeedOf(const Request& request) {
  return request.sampling.seed.value_or(request.id);
}

void TellSampling(Session& session, WorkerId worker, Outbox& outbox) {
  const Request& request = session.active->request;
  const bool begins = !session.told || session.told->generation != session.generation;
  if (begins) session.told = {session.generation, 0};
  const bool penalties = request.sampling.HasPenalties();
  const auto end = penalties ? static_cast<uint32_t>(session.tokens.size()) : 0;
  uint32_t& told = session.told->token_count;
  for (bool first = begins; first || told < end; first = false) {
    auto& message = *outbox.Control(worker).mutable_sampling();
    message.set_session(session.id);
    message.set_generation(session.generation);
    if (first) SetParams(request, *message.mutable_params());
    for (const uint32_t stop = std::min(end, told + kTokensPerMessage); told < stop; ++told)
      message.add_tokens(static_cast<uint32_t>(session.tokens[told]));
  }
}

}  // namespace weft::swarm
