// SwarmView: the picture of the swarm for people and pages (GET /api/swarm), taken from the parts
// of the core. It reads them and changes nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "swarm/experts/experts.h"
#include "swarm/flow/pipelines.h"
#include "swarm/flow/requests.h"
#include "swarm/flow/session.h"
#include "swarm/options.h"
#include "swarm/plan/planning.h"
#include "swarm/plan/side_plans.h"
#include "swarm/plan/whole_wishes.h"
#include "swarm/plan_state.h"
#include "swarm/snapshot.h"
#include "swarm/workers/costs.h"
#include "swarm/workers/lifecycle.h"
#include "swarm/workers/probation.h"
#include "swarm/workers/worker.h"

namespace weft::swarm {

// What the picture is taken of. All outlive the view.
struct ViewedParts {
  const CoreOptions& options;
  const Costs& costs;
  const Roster& roster;
  const Probation& probation;
  const Lifecycle& lifecycle;
  const Planning& planning;
  const WholeWishes& wishes;
  const Experts& experts;
  const SessionTable& sessions;
  const Pipelines& pipelines;
  const SidePlans& side_plans;
  const Requests& requests;
};

// What the core knows beside its parts, and people should.
struct ViewedNotes {
  std::string package_problem;  // what is known to be damaged, in a sentence; empty: nothing
  size_t awaited_count = 0;     // devices of before a restart that held layers and are not back
};

class SwarmView {
 public:
  explicit SwarmView(const ViewedParts& parts) : parts_(parts) {}

  Snapshot Take(const ViewedNotes& notes, Instant now) const;

 private:
  WorkerSnapshot PictureOf(WorkerId id, const Worker& worker, Instant now) const;
  std::optional<HolderSnapshot> PictureOfHolder(const WorkerReports& holder) const;
  void AddForOwner(const Worker& worker, Instant now, WorkerSnapshot& out) const;
  // Why it gets no work, or less than it offers (aside_view.cc).
  AsideSnapshot AsideOf(const Worker& worker, WorkerState state, Instant now) const;
  StageSnapshot PictureOf(const PlanStage& stage) const;
  std::optional<double> LossUs(const PlanStage& stage) const;
  void AddPlan(Snapshot& picture) const;
  void AddSidePlans(Snapshot& picture) const;
  void AddStandbys(Snapshot& picture) const;
  void AddCounts(Snapshot& picture, Instant now) const;
  std::vector<LossSnapshot> PictureOfLosses() const;  // loss_view.cc

  // Sentences for people (sentences.cc).
  void Describe(const ViewedNotes& notes, Snapshot& picture) const;
  std::string DescribeUp() const;
  std::string DescribeHolders() const;
  void DescribeExperts(Snapshot& picture) const;
  const char* ExpertsInWords() const;
  std::optional<uint32_t> DownloadPercent() const;

  const ViewedParts parts_;
};

}  // namespace weft::swarm
