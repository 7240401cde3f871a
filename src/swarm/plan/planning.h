// When to look for a plan and what to do with what was found (dynamic-graph-partitioning 4.4.1).
// Where the active plan has a hole, who fills it soonest is asked first, and the best of all plans
// only where nobody can, or once answers flow again. One job at a time; an answer that counts on a
// worker that has gone is ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "swarm/experts/exchange_costs.h"
#include "swarm/workers/checks.h"
#include "swarm/workers/lifecycle.h"
#include "swarm/workers/lifetimes.h"
#include "swarm/workers/members.h"
#include "swarm/workers/probation.h"

namespace weft::swarm {

// The search for a plan that the swarm would start with these workers (Costs::Metrics or
// MetricsOf). Its number is left to the caller.
StartPlanning PlanningJob(const Costs& costs, std::vector<planner::WorkerMetrics> workers,
                          const planner::PlanContext& context, LayerForm form = LayerForm::kWhole);

class Planning {
 public:
  // Keeps references; all outlive it.
  Planning(const CoreOptions& options, const Costs& costs, Roster& roster, Lifecycle& lifecycle,
           const Probation& probation, const Checks& checks, Members& members, Changes& changes,
           Outbox& outbox);

  // Positions that a new plan would have to compute again, of sessions that somebody waits for.
  // Positions of the sessions that are answered now, and how many these are.
  void SetLive(uint64_t rows, uint32_t requests) {
    live_rows_ = rows;
    live_requests_ = requests;
  }
  // Of steps, as measured (MeanError).
  void SetRunningError(std::optional<double> error) { running_error_ = error; }
  // No plan is looked for before this, or StopWaiting: devices are about to come back with theirs.
  void WaitUntil(Instant at) { waits_until_ = at; }
  void StopWaiting() { waits_until_.reset(); }
  bool waits() const { return waits_until_.has_value(); }
  // The worker held layers before this core began, and has them still: it is no newcomer.
  void NoteBack(WorkerId worker) { back_.insert(worker); }
  void OnWorkerGone(WorkerId worker, Instant now);
  Lifetimes& lifetimes() { return lifetimes_; }
  const Lifetimes& lifetimes() const { return lifetimes_; }
  void OnFound(const PlanFound& found, Instant now);
  // Its user wants this worker to run the whole model, alone, or not any longer. Until that, or
  // until it cannot any more, no other plan is looked for. The latest wish counts.
  void RunWholeOn(Worker& worker, bool wanted, Instant now);
  // Whether the worker could run the whole model; where a plan serves, only one that is trusted or
  // has passed its check may take its place.
  bool FitsWhole(const Worker& worker, Instant now) const;
  bool MayTakeOver(const Worker& worker) const {
    return !lifecycle_.serves() || checks_.IsTrusted(worker);
  }
  // What is told of that, with a sentence.
  void TellWhole(Worker& worker, const std::string& message, Instant now);
  // Says to every worker that could generate whether it may run the whole model, when that changed.
  void TellWhole(Instant now);
  // The worker that was chosen so.
  std::optional<WorkerId> whole_on() const { return whole_on_; }
  // A request has taken as many devices down as it may, and is to be tried once more: as long as
  // that is wanted, plans are made of the devices that stay the longest, as few as hold the model.
  void SetSteady(bool wanted, Instant now);
  // Whether there are devices for such a plan, without this one.
  bool CanBeSteady(WorkerId without, Instant now) const;
  // Whether the plan is one of them: nobody else has a part in it. Null and holes are none.
  bool IsSteady(const SwarmPlan* plan) const;
  // Whether plans may serve beside the active one: not where a device's user wants it to run the
  // whole model for all, nor where a last try needs those who stay the longest.
  bool AllowsSidePlans() const;
  // Whether a worker that stands by may begin to serve so, and go on.
  bool MayServeBeside(const Worker& worker, Instant now) const;
  bool MayStayBeside(const Worker& worker, Instant now) const {
    return MayCompute(worker, LayerForm::kWhole, now);
  }
  // Starts a job if one is due. Called after every event.
  void Settle(Instant now);
  std::optional<Instant> next_timer() const;

  bool under_way() const { return job_.has_value() || changes_.plan_at().has_value(); }
  // Of the last search that found no plan: why, in a sentence for people, and what is missing.
  // Empty after success.
  const std::string& problem() const { return problem_; }
  uint64_t missing_memory_bytes() const { return missing_memory_bytes_; }
  // Layers of the last partial plan.
  uint32_t covered_end() const { return covered_end_; }

 private:
  struct Job {
    WorkId work = 0;
    std::optional<LayerSpan> hole;  // set: a repair
    bool doubtful = false;          // a search that counts with claims
    LayerForm form = LayerForm::kWhole;
    bool compares = false;          // the better of this one and of other_ is taken
    std::vector<WorkerId> workers;  // by the planner's index
    size_t left_out = 0;            // that stay less long than these
    // Of a repair: who fills the holes in front of this one. All are filled or none, so that who
    // fills one is not counted on for the next with memory that is taken.
    std::vector<PlanStage> filling;
  };

  // A plan is wanted at `at` or before.
  void Want(Instant at);
  bool MayCompute(const Worker& worker, LayerForm form, Instant now) const;
  bool IsEligible(const Worker& worker, LayerForm form, Instant now) const;
  // Of the workers that are eligible: without hubs that the server serves, but one.
  std::vector<WorkerId> Eligible(LayerForm form, Instant now) const;
  std::optional<WorkerId> ServedHub(Instant now) const;
  bool IsNewcomer(const Worker& worker, Instant now) const;
  void LookAgainAt(Instant at) {
    newcomers_at_ = newcomers_at_ ? std::min(*newcomers_at_, at) : at;
  }
  bool MayStandBy(const Worker& worker, LayerForm form, Instant now) const;
  // Whether the plan that is wanted is one of hubs. A device whose user wants it to run the whole
  // model does so.
  LayerForm FormToSearch() const {
    return LayerFormOf(
        (options_.plan_kind == PlanKind::kExperts || options_.plan_kind == PlanKind::kTensor) &&
        !whole_on_);
  }
  // Of these, those that stay the longest and have room for the model, and `steady_more_` others.
  std::vector<WorkerId> Steadiest(std::vector<WorkerId> workers, Instant now) const;
  planner::PlanContext Context(Instant now) const;
  // What a repair is to fill: layers of the active plan that nobody runs, or somebody who leaves.
  std::optional<LayerSpan> HoleToFill() const;
  void StartSearch(Instant now, bool doubtful = false) {
    other_.reset();
    StartSearch(now, doubtful, FormToSearch());
  }
  void StartSearch(Instant now, bool doubtful, LayerForm form);
  // With two kinds of plans to choose from: the other one is looked for before anything is
  // decided.
  bool WantsOtherKind(const Job& job) const;
  void Decide(planner::PlanOutcome outcome, Job job, Instant now);
  // Without a plan, those that loaded layers before may have reported too much (WorkerMemory):
  // whether a search that counts with their claims would be another one.
  bool MayDoubt(const Worker& worker) const;
  bool WantsDoubtfulSearch(const Job& job) const;
  // Of the workers that hold more in the plan than they could by what they reported.
  void NoteDoubt(const planner::Plan& plan, const Job& job);
  void StartRepair(LayerSpan hole, std::vector<PlanStage> filling, Instant now);
  PlanStage StageOf(const planner::StageAssignment& part, const Job& job) const;
  std::optional<SwarmPlan> Filled(const std::vector<PlanStage>& filling) const;
  void OnRepairFound(const planner::PlanOutcome& outcome, Job job, Instant now);
  void Start(Job job, StartPlanning start);
  void ChooseStandbys(Instant now);
  void StandByWithPart(Worker& worker, const std::vector<size_t>& stages,
                       std::vector<uint32_t>& layer_copies, Instant now);
  bool TakesLastHolders(const SwarmPlan& next) const;
  planner::MovePrice PriceOf(const planner::Plan& plan, const SwarmPlan& next) const;
  void Consider(const planner::Plan& plan, const Job& job, Instant now);
  static std::vector<planner::StageAssignment> AssignmentsOf(const SwarmPlan& plan);
  // The plan's costs as they are now; nullopt when it is no longer possible.
  std::optional<planner::Plan> Evaluate(const SwarmPlan& plan, Instant now) const;
  // The active plan's devices with other boundaries, where what several conversations take says
  // that these are worth it; nullopt: nothing does.
  std::optional<SwarmPlan> MoreEven(Instant now) const;
  bool HasOthers(const SwarmPlan& plan) const;
  void OnNothingFound(const planner::PlanOutcome& outcome, const Job& job, Instant now);
  bool AskTheSlow(Instant now);
  void TellWhoCannotLoad();
  bool IsBlocked() const;
  planner::WorkerMetrics MetricsOf(const Worker& worker, LayerForm form, Instant now) const;
  // Who lends memory to experts beside these stages, and how much.
  std::vector<ExpertLender> Lenders(const std::vector<PlanStage>& stages, Instant now,
                                    std::vector<WorkerId>& ids) const;
  double ExchangeUs(const Worker& hub, Instant now) const;
  double WaitShare() const;
  // What the hubs of the plan are expected to wait, from now on.
  void NoteWaits(const SwarmPlan& plan, Instant now);
  wire::WholeModel::State WholeState(const Worker& worker, Instant now) const;
  double ServedShare() const;
  double RepairRate() const;
  // Whether this is the plan that the user of a device has chosen.
  bool IsChosen(const SwarmPlan* plan) const;

  const CoreOptions& options_;
  const Costs& costs_;
  Roster& roster_;
  Lifecycle& lifecycle_;
  const Probation& probation_;
  const Checks& checks_;
  Members& members_;
  Changes& changes_;
  Outbox& outbox_;
  std::optional<Job> job_;
  // What was found of whole layers, while hubs are looked for.
  struct Found {
    planner::PlanOutcome outcome;
    Job job;
  };
  std::optional<Found> other_;
  WorkId next_work_ = 1;
  std::optional<Instant> waits_until_;
  Instant last_search_, waits_noted_;
  std::set<WorkerId> back_;              // NoteBack
  std::optional<Instant> newcomers_at_;  // when the next of them may be planned with
  uint64_t live_rows_ = 0;
  uint32_t live_requests_ = 0;
  bool is_evened_ = false;  // the active plan, for more than one conversation (MoreEven)
  std::optional<double> running_error_;
  Lifetimes lifetimes_;
  std::optional<Instant> hole_since_;
  Ring<7> repair_us_;    // how long holes lasted
  uint64_t losses_ = 0;  // of workers that had a part in the active plan
  Instant first_seen_;   // since when they are counted
  std::string problem_;
  uint64_t missing_memory_bytes_ = 0;
  uint32_t covered_end_ = 0;
  std::optional<WorkerId> whole_on_;
  bool wants_steady_ = false;
  size_t steady_more_ = 0;        // devices beyond those whose memory should do
  std::vector<WorkerId> steady_;  // that the last search was about
};

}  // namespace weft::swarm
