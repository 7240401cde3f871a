// What a worker answers where it cannot do what it was asked for.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "wire/control.pb.h"

namespace weft::worker {

// Of PrepareStage or HoldExperts with this number; 0: of something else.
wire::pb::WorkerMessage FailedMessage(uint32_t binding, const Error& error);
// In place of a result.
wire::pb::WorkerMessage StepFailedMessage(uint32_t sequence, uint32_t binding, uint32_t stage,
                                          const Error& error);

}  // namespace weft::worker
