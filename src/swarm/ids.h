// The numbers by which the core names workers, requests, bindings, sessions and plans. Frames,
// messages and the journal carry their values.
#pragma once

#include "base/strong_id.h"

namespace weft::swarm {

using WorkerId = StrongId<struct WorkerTag, uint64_t>;    // one connection; never reused
using RequestId = StrongId<struct RequestTag, uint64_t>;  // given by the host; never reused
using BindingId = StrongId<struct BindingTag>;            // rising, never reused
using SessionId = StrongId<struct SessionTag>;            // rising, never reused

// The active plan, or one that serves beside it (plan/side_plans.h). Rising, never reused.
using PlanId = StrongId<struct PlanTag>;
inline constexpr PlanId kActivePlan{};

}  // namespace weft::swarm
