// What becomes of the work under way when it has ended: each part is told what was its.
#pragma once

#include "worker/expert_work.h"
#include "worker/joining.h"
#include "worker/loads.h"
#include "worker/outbox.h"
#include "worker/step_queue.h"

namespace weft::worker {

class Outcomes {
 public:
  Outcomes(Outbox& out, ExpertWork& experts, StepQueue& queue, Loads& loads, Joining& joining)
      : out_(out), experts_(experts), queue_(queue), loads_(loads), joining_(joining) {}

  void On(WorkDone event);

 private:
  void OnTimings(const Result<Outcome>& outcome);

  Outbox& out_;
  ExpertWork& experts_;
  StepQueue& queue_;
  Loads& loads_;
  Joining& joining_;
};

}  // namespace weft::worker
