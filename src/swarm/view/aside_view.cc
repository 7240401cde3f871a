// The sentence that says why a device gets no work, or less than it offers.
#include "swarm/view/swarm_view.h"
#include "swarm/workers/connect.h"

namespace weft::swarm {

AsideSnapshot SwarmView::AsideOf(const Worker& worker, WorkerState state, Instant now) const {
  const auto left_s = [now](Instant until) { return (until - now).seconds(); };
  if (!worker.eviction.empty()) return {"It is evicted: its layers move to other devices.", {}};
  if (worker.leaves_at) return {"It leaves: its layers move to other devices.", {}};
  if (!worker.ready) return {"It has not said yet what it offers.", {}};
  if (!CanCompute(worker.offer, parts_.options.model) &&
      !CanHoldExperts(worker.offer, parts_.options))
    return {"It cannot compute this model: its engine lacks something that the model needs.", {}};
  if (worker.check->state == CheckState::kFailed)
    return {"What it computed was not right. It gets nothing until it passes a check.", {}};
  if (const auto until = parts_.probation.AsideUntil(worker.probation_key, now))
    return {"It failed too often in a row. It gets nothing for a while, longer each time.",
            left_s(*until)};
  if (const auto until = worker.loading->paused_until)
    return {
        worker.loading->is_slow
            ? "It took too long to load what it was given. It is asked for no layers for a while."
            : "It could not load what it was given. It is asked for no layers for a while.",
        left_s(*until)};
  if (worker.held_back_at) return {"It waits: another device does not take what it sends.", {}};
  if (const auto until = worker.limit->until)
    return {"It ran out of memory. For a while it is asked for less than it offers.",
            left_s(*until)};
  if (state == WorkerState::kIdle && worker.holding->told.empty())
    return {"The plan does without it: with it answers would not be quicker.", {}};
  return {};
}

}  // namespace weft::swarm
