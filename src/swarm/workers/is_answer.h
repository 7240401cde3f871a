// What workers say though nobody asked them for it. Some of it is in order: how far a download is,
// what a user wishes, an answer that crossed the message that made it needless. There is no need
// for much of it, and whoever sends more has his connection closed (Members::CountUnasked).
#pragma once

#include <cstdint>

#include "swarm/workers/worker.h"

namespace weft::swarm {

// Whether the message answers something that was asked of the worker and not answered yet. Messages
// that are illegal where they answer nothing close the connection by themselves.
bool IsAnswer(const Worker& worker, const wire::pb::WorkerMessage& message, uint32_t layer_count);

}  // namespace weft::swarm
