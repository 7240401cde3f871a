// The pipelines of all plans that serve: one of the active plan, and one of each plan beside it
// (plan/side_plans.h). Every session belongs to one of them. Take a swarm of three devices, each of
// which holds the whole model:
//
//   plan 0 (active)   A   sessions 1, 4
//   plan 1            B   sessions 2, 5
//   plan 2            C   session 3
//
// A request is given to the plan that is expected to answer it soonest. Its conversation stays
// there until its next turn, unless the plan goes: then it goes on at another one, which computes
// what it lacks of it, as whoever takes over a stage does. An answer that an earlier core began
// goes on at the plan whose devices hold it.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "swarm/flow/pipeline.h"

namespace weft::swarm {

class Pipelines {
 public:
  // Keeps references; all outlive it.
  Pipelines(const CoreOptions& options, const Costs& costs, Roster& roster, SessionTable& sessions,
            Outbox& outbox);

  // From now on frames go along the stages of these plans; `active` may be null. Followers are of
  // the active plan (Pipeline::SetPlan). Call PlaceLeft before anything is sent.
  void SetPlans(const SwarmPlan* active, std::vector<BoundStage> followers,
                const std::vector<SidePlan>& beside);
  // Sessions of plans that are gone go on at another one, made of the same devices if there is one.
  void PlaceLeft();
  // Chooses the plan of a session that has just been given a request.
  void Place(Session& session);
  // Sends what may be sent.
  void Pump(Instant now);

  // Pipeline's, of whichever sent the frame.
  Result<Pipeline::StepResult> OnResult(Worker& worker, Slice message, Instant now);
  Result<Pipeline::FailedRuns> OnStepFailed(Worker& worker, const wire::pb::StepFailed& failed,
                                            Instant now);
  Result<GeneratedTokens> OnTokens(Worker& worker, const wire::Tokens& tokens, Instant now);
  Result<std::vector<LostGroups>> OnGroupsLost(Worker& worker, const wire::pb::GroupsLost& lost);

  void NoteLate(Worker& worker) const { active_.NoteLate(worker); }
  // Whether some plan counts on the binding.
  bool Uses(BindingId binding) const;
  // Whether some plan that serves has all of its stages among these.
  bool Serve(std::span<const BindingId> bindings) const { return FindServing(bindings) != nullptr; }
  // What the quickest plan that serves needs to compute so many rows of a prompt; 0: none serves.
  Duration ReadingTime(uint32_t rows) const;
  // Tells the host how long a message of a worker may be now (SetMessageLimit), where that changed.
  void LimitMessages(Worker& worker) const;
  // Workers that were sent something since the last call, or answered; some perhaps twice.
  std::vector<WorkerId> TakeTouched() { return std::exchange(totals_.touched, {}); }

  const TrafficCounts& traffic() const { return totals_.traffic; }
  const PredictionErrors& errors() const { return totals_.errors; }
  // Rows that stages behind the first have not been sent, of all sessions.
  uint64_t waiting_rows() const;
  bool HasCaughtUp(const SwarmPlan& plan) const { return active_.HasCaughtUp(plan); }
  uint64_t Lag(const BoundStage& stage) const { return active_.Lag(stage); }

 private:
  const Pipeline* Find(PlanId plan) const;
  Pipeline& ThatSent(const std::deque<SentFrame>& frames, uint32_t sequence);
  const Pipeline* FindServing(std::span<const BindingId> bindings) const;
  void PlaceAmong(Session& session, const std::vector<const Pipeline*>& plans);
  static void MoveTo(Session& session, const Pipeline& next);
  std::vector<const Pipeline*> Serving() const;

  const CoreOptions& options_;
  const Costs& costs_;
  Roster& roster_;
  SessionTable& sessions_;
  Outbox& outbox_;
  PipelineTotals totals_;
  Pipeline active_;
  std::vector<std::unique_ptr<Pipeline>> beside_;
};

}  // namespace weft::swarm
