// This is one run of a simulated swarm: what Simulate (simulation.h) does, as an object. The core's
// actions and the checks, the network, the faults and the clients are a file each.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/connection.h"
#include "sim/recompute_watch.h"
#include "sim/simulation.h"

namespace weft::sim {

using swarm::RequestId;
using swarm::WorkerId;

class SwarmRun {
 public:
  SwarmRun(uint64_t seed, const Scenario& scenario);
  Outcome Run();

 private:
  // ---- the core and its actions (swarm_run.cc) ----
  void Feed(swarm::Event event);
  void ArmTimer();
  void Carry(const swarm::SendControl& action);
  // What the core tells a worker to hold must fit its offer by what the worker reported last. Only
  // where nothing serves may the core go back to what the worker claimed, and once it has, go on
  // so.
  void CheckMemory(Connection& connection, const wire::pb::ServerMessage& message);
  void Carry(const swarm::SendData& action);
  void Carry(const swarm::CloseWorker& action);
  void Carry(const swarm::EmitSession& action);
  void Carry(const swarm::EmitToken& action);
  void Carry(const swarm::EmitLogits& action);
  bool IsLossy(const Tracked& tracked, const swarm::FinishRequest& action);
  void Carry(const swarm::FinishRequest& action);
  void CheckCounts(const Tracked& tracked, const swarm::FinishRequest& action);
  void Carry(const swarm::StartPlanning& action);
  void Carry(const swarm::SwarmChanged&) {}
  void Carry(const swarm::Warn& action);
  // The simulated package is in order.
  void Carry(const swarm::CheckLayers& layers);
  void Carry(const swarm::SetMessageLimit& action);

  // ---- the network (swarm_network.cc) ----
  Connection* Any(WorkerId id);
  Connection* Find(WorkerId id);
  std::string Name(WorkerId id);
  // Gives the time when a message of so many bytes is there. `last` is the delivery before it in
  // this direction.
  Instant Arrival(Connection& connection, size_t byte_count, Instant& last);
  void Open(Device& device) { Open(device, nullptr, nullptr); }
  // Opens a new connection of a worker that has just started, or of one that held on. That one
  // knows what it was told over the connection `before`.
  void Open(Device& device, std::shared_ptr<ModelWorker> worker, const Connection* before);
  void Reopen(Device& device, Duration delay);
  void SendUp(WorkerId id, FromWorker message);
  void SendDatagram(const Device& from, OutgoingDatagram datagram);
  void Deliver(WorkerId id, FromWorker message, size_t bytes, Instant at, bool in_order);

  // ---- what goes wrong (swarm_faults.cc) ----
  void ScheduleFault();
  void Fault();
  // Keeps the worker busy with something else for a while.
  void Slow(WorkerId id);
  // Lets somebody want the whole model in a tab, or not any longer.
  void WantWhole(const std::vector<WorkerId>& open);
  // Lets its machine stand still, and go on as if nothing had been.
  void Pause(WorkerId id);
  // Lets all machines sleep, and their clocks jump.
  void SleepAll();
  void HaveBadMinute(WorkerId id);
  void Cure(Device& device);
  void TellLost(WorkerId id, Duration latency);
  void Crash(WorkerId id, bool told);
  void Cut(WorkerId id, bool told);
  // Connects the worker of the connection `before`, or another one on its device.
  void ComeBack(const std::shared_ptr<Connection>& before, Duration delay);
  void ScheduleRestart();
  // Begins another core with what the one before has noted last, or before that.
  void Restart();
  uint64_t DrawIncarnation();
  void CutOff(Connection& connection);
  // Lets requests of before go on behind their tokens, or asks for them again, or nobody does.
  void SubmitAgain();
  void AskAgain(RequestId id, uint64_t start);
  // Ends the chaos, and cures everything. Fresh devices join at once in half of the runs. In the
  // others they join only when the old ones cannot serve. So no new plan repairs what should have
  // repaired itself.
  void Heal();
  void WatchForDown();
  // Tells whether the connected devices can in truth hold the model. Devices that take more than
  // they claim are left out: nobody can know what they could hold.
  bool CouldServe();
  void AddFreshDevices();

  // ---- devices and connections that mean ill (swarm_hostile.cc) ----
  bool IsStranger(WorkerId id) const;
  void ScheduleStrangers();
  void OneStrangerComes();
  void SilentStrangersCome();
  swarm::Event FirstMessage(WorkerId id);
  void ScheduleFlood(Device& device);
  void CountUnasked(Connection& connection, const wire::pb::WorkerMessage& message);
  void NoteLie(Device& device);
  // Looks, at the end of a request, whether devices that lie are still there.
  void WatchLiars();
  bool IsFound(const Device& device, const swarm::Snapshot& picture);
  bool CannotBeChecked(const Device& device, const swarm::Snapshot& picture);
  void CheckClaims(const swarm::Snapshot& picture);
  // Tells whether somebody may be told what is not so, or that it was not.
  bool MayBeWrong(const Tracked& tracked) const;
  bool IsDenied(const swarm::FinishRequest& action);
  bool IsGivenUp(const swarm::FinishRequest& action) const;

  // ---- requests (swarm_clients.cc) ----
  void ScheduleRequest();
  swarm::Request MakeRequest();
  void MakeKept(swarm::Request& request);
  void MakeOfLastRow(swarm::Request& request);
  void Submit();
  Tracked& Submit(swarm::Request request);
  // Lets a crowd come, and somebody who asks for little.
  void ScheduleCrowd();
  void CheckWait(const Tracked& tracked);
  // Lets conversations begin, end and be left, loses a stage, and lets somebody ask.
  void ScheduleLeft();
  void AskBesideLeft();

  // ---- checks (swarm_run.cc) ----
  void AfterStep();
  void NoteSizes();
  void CheckEnd();
  void Violate(const std::string& text);
  void Log(const std::string& text);

  Scenario scenario_;
  SeededRandom random_, restart_random_, line_random_, keep_random_, hostile_random_, row_random_,
      clock_random_;
  Scheduler scheduler_;
  HashModel model_;
  swarm::Costs costs_;
  swarm::Core core_;
  RecomputeWatch recomputes_{scenario_.options.model.is_recurrent()};
  Outcome outcome_;
  Instant chaos_end_;
  std::map<WorkerId, Connection> connections_;
  std::vector<std::unique_ptr<Device>> spare_;
  std::map<RequestId, Tracked> requests_;
  std::vector<std::vector<int32_t>> finished_prefixes_;
  uint64_t unfinished_ = 0;
  uint64_t sent_bytes_ = 0;
  bool lossy_ = false;  // rows of some request had to do without neuron groups
  WorkerId next_worker_ = 1;
  RequestId next_request_ = 1;
  std::deque<swarm::Placement> noted_;  // the last two
  uint64_t noted_version_ = 0;
  std::set<WorkerId> strangers_;  // that are connected
  WorkerId next_stranger_;
  // Devices that have lied as a part of the plan and are not known for it yet: how many requests
  // have ended since then.
  std::map<Device*, uint32_t> lying_;
  uint32_t denied_ = 0;  // requests that failed since two devices said so
  std::optional<Instant> armed_;
  int stuck_timers_ = 0;
};

}  // namespace weft::sim
