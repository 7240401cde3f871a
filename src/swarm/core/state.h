// State: the parts of the core and how events pass between them. Each part is described in
// its own header.
#pragma once

#include <string>

#include "swarm/changes.h"
#include "swarm/core/placement_book.h"
#include "swarm/events.h"
#include "swarm/experts/experts.h"
#include "swarm/experts/hub_reports.h"
#include "swarm/experts/popularity.h"
#include "swarm/flow/pipelines.h"
#include "swarm/flow/requests.h"
#include "swarm/flow/session.h"
#include "swarm/outbox.h"
#include "swarm/plan/planning.h"
#include "swarm/plan/side_plans.h"
#include "swarm/plan/whole_wishes.h"
#include "swarm/snapshot.h"
#include "swarm/view/swarm_view.h"
#include "swarm/workers/checks.h"
#include "swarm/workers/costs.h"
#include "swarm/workers/health.h"
#include "swarm/workers/lifecycle.h"
#include "swarm/workers/measuring.h"
#include "swarm/workers/members.h"
#include "swarm/workers/package_doubts.h"
#include "swarm/workers/probation.h"
#include "swarm/workers/worker.h"

namespace weft::swarm {

// What a worker hears that says something else before Connect.
inline constexpr const char* kConnectFirst = "The first message was not Connect.";

struct State {
  explicit State(CoreOptions core_options);

  // One event each.
  void On(const WorkerConnected& event);
  void On(const WorkerControl& event);
  void On(const WorkerData& event);
  void On(const WorkerLost& event);
  void On(const WorkerHeldBack& event);
  void On(const RequestSubmitted& event);
  void On(const RequestCancelled& event);
  void On(const PrefixForgotten& event);
  void On(const PlanFound& event);
  void On(const ConsentGiven& event);
  void On(const WorkerEvicted& event);
  void On(const LeadershipChanged& event);
  void On(const LayersChecked& event);
  void On(const TimerFired& event);

  // Shard messages come many times for each layer of each token: what hubs and holders say to each
  // other is passed on and has no consequences. False: there is more to it.
  bool PassOn(const Event& event);

  // Steps that failed, and who is to blame (state_failures.cc).
  Status OnStepFailed(Worker& worker, const wire::pb::StepFailed& failed);
  void OnFailedRuns(Worker& worker, const Pipeline::FailedRuns& live, const std::string& problem,
                    bool numbers_failed);
  bool AskAnother(const Worker& worker, Session& session, const LayerSpan& layers,
                  const std::string& problem);
  void FailDenied(Session& session, const std::string& problem);
  void EndDenied();
  void PutAside(Worker& worker, const std::string& problem);

  // What checks came to (state_checks.cc).
  void OnVerdicts();

  // After every event: brings what follows from the new state under way. Frames come many times for
  // each token, so that what follows from them alone never walks over all workers.
  void Settle(bool after_frame);
  // What is to be done because of the event; SwarmChanged comes last, once.
  std::vector<Action> TakeActions();
  void LetLeaversGo();
  void SettlePlans();
  void DropStagedWithoutRoom();
  // Whether the request waits for the devices that hold its session to serve (state_settle.cc).
  bool WaitsForSession(const ActiveRequest& active);
  Instant WaitsUntil(const ActiveRequest& active) const;
  void SettleTouched();
  void UpdatePipelines();
  // When TimerFired is wanted: as looked for after the last event that was no frame, or earlier
  // because of workers that were sent something since. It may come too early, never too late.
  std::optional<Instant> next_timer() const { return timer; }
  std::optional<Instant> FindTimer() const;
  Snapshot MakeSnapshot(Instant at) const {
    return view.Take({doubts.problem(), placements.awaited_count()}, at);
  }

  // Messages of a worker that has connected properly; an error closes the connection.
  Status OnControl(Worker& worker, const wire::pb::WorkerMessage& message);
  void OnConnect(Worker& worker, const wire::pb::Connect& connect);
  void EndOldLine(const Worker& worker, const wire::pb::Connect& connect);
  void OnLeaving(Worker& worker, const wire::pb::Leaving& leaving);
  // Its layers move to others while it goes on, where `drains` and there are any.
  void LetGo(Worker& worker, bool drains);
  void SayGoodbye(const Worker& worker);
  Status OnFailed(Worker& worker, const wire::pb::Failed& failed);
  Status OnGroupsLost(Worker& worker, const wire::pb::GroupsLost& lost);
  Status OnResult(Worker& worker, const Slice& frame);
  Status OnWholeFrame(Worker& worker, const Slice& message);
  void OnWrongShards(Worker& worker);

  // Layers that did not get onto a device (state_loading.cc).
  void OnLoadFault(Worker& worker, const std::string& code, const std::string& problem,
                   LayerSpan layers);
  void EndSlowRepair();
  LayerSpan LayersOf(const Worker& worker, BindingId id) const;

  // Closes its connection and goes on without it. `blamed`: it did wrong or refused what it was
  // asked for, which counts against the device; going away, however suddenly, does not.
  void Drop(WorkerId id, const std::string& reason, bool blamed);
  // It is no longer connected; `returns`: it may come back with what it holds.
  void Forget(WorkerId id, bool returns = false);
  // Requests whose steps it was computing when it went.
  void BlameRequests(const Worker& worker);
  void BlameRequests(const Worker& worker, const SentFrame& computing);
  void NoteFailure(Worker& worker, const std::string& problem);
  // No plan counts on it any more, nor on what it holds.
  void TakeOut(WorkerId id);
  void CheckSlowdown(Worker& worker);

  const CoreOptions options;
  const Costs costs;
  Changes changes;
  Outbox outbox;
  Roster roster;
  Probation probation;
  Members members;
  PackageDoubts doubts;
  Checks checks;
  SessionTable sessions;
  Lifecycle lifecycle;
  Popularity popularity;
  HubReports hub_reports;
  ServedHubs served_hubs;
  Experts experts;
  Planning planning;
  WholeWishes wishes;
  Measuring measuring;
  SidePlans side_plans;
  Pipelines pipelines;
  Health health;
  Requests requests;
  SwarmView view;
  PlacementBook placements;
  std::optional<Instant> timer;
  std::optional<Instant> session_wait_ends;  // the first of those of WaitsForSession
  // Of the lifecycle and of the side plans, when the pipelines were told of them last.
  uint64_t pipelines_version = 0, side_version = 0;
  uint64_t settled_requests = 0;  // that had ended when everything was looked at last
  Instant now;
  Instant last_change;  // when SwarmChanged was last caused by mere progress
  Instant last_busy;    // when a request was last active
};

}  // namespace weft::swarm
