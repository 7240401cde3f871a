// HubReports: what hubs tell of those who hold experts for them, and of neuron groups that did not
// come in time. Kept for people (the view), and for the choice of experts that are wanted more than
// once (popularity.h). What a worker says of others is checked for what it could possibly be.
#pragma once

#include "base/result.h"
#include "swarm/changes.h"
#include "swarm/experts/popularity.h"
#include "swarm/options.h"
#include "swarm/workers/costs.h"
#include "swarm/workers/worker.h"

namespace weft::swarm {

class HubReports {
 public:
  // Keeps references; all outlive it.
  HubReports(const CoreOptions& options, const Costs& costs, Roster& roster, Popularity& popularity,
             Changes& changes)
      : options_(options),
        costs_(costs),
        roster_(roster),
        popularity_(popularity),
        changes_(changes) {}

  // Errors: the message says what cannot be, and closes the connection.
  Status OnHolderStats(const Worker& hub, const wire::pb::HolderStats& stats, Instant now);
  Status OnLossReport(Worker& hub, const wire::pb::LossReport& report);
  // Who asks nobody any more has no times.
  void ForgetTimesOf(WorkerId hub);

 private:
  Status CheckRoutes(const wire::pb::HolderStats& stats) const;
  // Of a holder of neuron groups, from how long it computed how many.
  void NoteSpeed(const wire::pb::HolderStats::Holder& told, WorkerTimes& times) const;

  const CoreOptions& options_;
  const Costs& costs_;
  Roster& roster_;
  Popularity& popularity_;
  Changes& changes_;
};

}  // namespace weft::swarm
