// Sampling messages: how a session samples, told to the last stage's worker once for each
// generation, and where penalties want it with every token that has come since (docs/protocol.md).
#pragma once

#include "swarm/flow/session.h"
#include "swarm/outbox.h"

namespace weft::swarm {

// The seed of a request without one is its number.
uint64_t SeedOf(const Request& request);

// What the last stage does not know yet of how the token behind the session's tokens is to be
// chosen. To be called before the step that asks for it is sent. REQUIRES: a request is active.
void TellSampling(Session& session, const StageProgress& stage, Outbox& outbox);

}  // namespace weft::swarm
