// What goes wrong in a run, and how it is healed at its end.
#include <algorithm>

#include "planner/planner.h"
#include "sim/swarm_run.h"
#include "swarm/incarnation.h"

namespace weft::sim {

void SwarmRun::ScheduleFault() {
  if (scenario_.faults_per_minute <= 0) return;
  const double us = 60e6 / scenario_.faults_per_minute * (0.2 + 1.6 * random_.Uniform());
  scheduler_.After(Microseconds(static_cast<int64_t>(us)), [this] {
    if (scheduler_.now() >= chaos_end_) return;
    Fault();
    ScheduleFault();
  });
}

void SwarmRun::Fault() {
  std::vector<WorkerId> open;
  for (const auto& [id, connection] : connections_)
    if (connection.open && !connection.broken) open.push_back(id);
  if (open.empty()) return;
  ++outcome_.faults;
  const WorkerId id = open[random_.Below(open.size())];
  Connection& connection = connections_.at(id);
  Device& device = *connection.device;
  switch (random_.Below(13)) {
    case 0:
      return Crash(id, true);  // the socket closes
    case 1:
      return Crash(id, false);  // a cable is pulled: nobody is told
    case 2:                     // hangs with its socket open
      Log("fault: freeze " + Name(id));
      connection.worker->Freeze();
      ++outcome_.losses;
      return;
    case 3: {  // a tab closes properly
      Log("fault: leave " + Name(id));
      connection.worker->Leave("closed");
      ++outcome_.losses;
      return;
    }
    case 4:
      return Slow(id);
    case 5:  // its computing hangs while its socket lives
      Log("fault: stall " + Name(id));
      connection.worker->Stall();
      ++outcome_.losses;
      return;
    case 6:
      return WantWhole(open);
    case 8:
    case 9:  // the line breaks and the device does not
      return Cut(id, random_.Below(2) == 0);
    case 10:
      return Pause(id);
    case 11:
      return SleepAll();
    case 7:  // dies at the worst moment
      Log("fault: will crash when prepared " + Name(id));
      device.prepare_crash = 0.7;
      return;
    default:
      return HaveBadMinute(id);
  }
}

void SwarmRun::Slow(WorkerId id) {
  Log("fault: slow " + Name(id));
  Device& device = *connections_.at(id).device;
  device.slowdown = 3 + 20 * random_.Uniform();
  scheduler_.After(Seconds(5 + static_cast<int64_t>(random_.Below(30))),
                   [&device] { device.slowdown = 1; });
}

void SwarmRun::WantWhole(const std::vector<WorkerId>& open) {
  const bool wanted = random_.Below(3) != 0;
  for (const WorkerId each : open) {
    Connection& tab = connections_.at(each);
    if (tab.device->engine != "webgpu") continue;
    Log("whole model " + std::string(wanted ? "wanted by " : "given back by ") + Name(each));
    ++outcome_.wishes;
    return tab.worker->AskWhole(wanted);
  }
}

void SwarmRun::Pause(WorkerId id) {
  Log("fault: pause " + Name(id));
  ++outcome_.losses;
  connections_.at(id).paused_until =
      scheduler_.now() + Milliseconds(200 + static_cast<int64_t>(random_.Below(8000)));
}

void SwarmRun::SleepAll() {
  const Duration time = Milliseconds(500 + static_cast<int64_t>(random_.Below(20'000)));
  Log("fault: everything sleeps for " + std::to_string(time.us / 1000) + " ms");
  scheduler_.Sleep(time);
}

void SwarmRun::HaveBadMinute(WorkerId id) {
  Log("fault: bad minute of " + Name(id));
  Device& device = *connections_.at(id).device;
  device.step_failure = 0.1 * random_.Uniform();
  device.corrupt_frame = 0.02 * random_.Uniform();
  device.illegal_message = 0.02 * random_.Uniform();
  device.prepare_failure = 0.3 * random_.Uniform();
  device.numbers_failure = random_.Below(4) == 0 ? 0.01 : 0;
  device.duplicate_message = random_.Below(2) == 0 ? 0.05 : 0;
  device.late_message = random_.Below(2) == 0 ? 0.05 : 0;
  scheduler_.After(Seconds(5 + static_cast<int64_t>(random_.Below(20))),
                   [this, &device] { Cure(device); });
}

void SwarmRun::Cure(Device& device) {
  device.step_failure = device.corrupt_frame = device.illegal_message = 0;
  device.prepare_failure = device.numbers_failure = device.prepare_crash = 0;
  device.duplicate_message = device.late_message = 0;
  device.slowdown = 1;
}

void SwarmRun::TellLost(WorkerId id, Duration latency) {
  scheduler_.After(latency, [this, id] {
    if (!Find(id)) return;
    connections_.erase(id);
    Feed(swarm::WorkerLost{id, "connection reset"});
  });
}

void SwarmRun::Crash(WorkerId id, bool told) {
  Log("fault: " + std::string(told ? "crash " : "drop ") + Name(id));
  ++outcome_.losses;
  Connection& connection = connections_.at(id);
  connection.broken = true;
  connection.worker->Freeze();
  Device& device = *connection.device;
  if (told) TellLost(id, device.latency);
  Reopen(device, Milliseconds(200 + static_cast<int64_t>(random_.Below(20'000))));
}

void SwarmRun::Cut(WorkerId id, bool told) {
  Log("fault: " + std::string(told ? "cut " : "silence ") + Name(id));
  ++outcome_.losses;
  Connection& connection = connections_.at(id);
  connection.broken = connection.survives = true;
  const auto before = std::make_shared<Connection>(connection);
  Device& device = *connection.device;
  scheduler_.After(told ? device.latency : Seconds(3),
                   [before] { before->worker->LoseConnection(); });
  if (told) TellLost(id, device.latency);
  ComeBack(before, Milliseconds(3200 + static_cast<int64_t>(random_.Below(20'000))));
}

void SwarmRun::ComeBack(const std::shared_ptr<Connection>& before, Duration delay) {
  scheduler_.After(delay, [this, before] {
    if (before->worker->can_connect_again())
      Open(*before->device, before->worker, before.get());
    else
      Open(*before->device);
  });
}

void SwarmRun::ScheduleRestart() {
  if (scenario_.restarts_per_minute <= 0) return;
  const double us = 60e6 / scenario_.restarts_per_minute * (0.2 + 1.6 * restart_random_.Uniform());
  scheduler_.After(Microseconds(static_cast<int64_t>(us)), [this] {
    if (scheduler_.now() >= chaos_end_) return;
    Restart();
    ScheduleRestart();
  });
}

void SwarmRun::Restart() {
  Log("fault: the server starts again");
  ++outcome_.restarts;
  if (!noted_.empty())
    scenario_.options.restored = restart_random_.Below(4) == 0 ? noted_.front() : noted_.back();
  scenario_.options.incarnation = DrawIncarnation();
  core_ = swarm::Core(scenario_.options);
  recomputes_.Restart();
  strangers_.clear();
  armed_.reset();
  sent_bytes_ = 0;
  for (auto& [id, connection] : std::exchange(connections_, {})) CutOff(connection);
  SubmitAgain();
}

// The server's clock is right, or was set back, or nobody knows the last number. Then it may be one
// that workers refuse.
uint64_t SwarmRun::DrawIncarnation() {
  constexpr int64_t kBeginMs = 1'795'574'400'000;
  int64_t unix_ms = kBeginMs + scheduler_.now().us / 1000;
  if (clock_random_.Below(2) == 0) unix_ms -= static_cast<int64_t>(clock_random_.Below(600'000));
  const bool is_known = scenario_.options.restored && clock_random_.Below(2) == 0;
  const uint64_t next = swarm::NextIncarnation(
      is_known ? scenario_.options.restored->incarnation : uint64_t{0}, unix_ms);
  if (next < scenario_.options.incarnation) ++outcome_.fallen_incarnations;
  return next;
}

void SwarmRun::CutOff(Connection& connection) {
  if (!connection.open) return connection.worker->Freeze();  // it comes back by itself
  if (connection.broken) return;
  connection.broken = connection.survives = true;
  const auto before = std::make_shared<Connection>(connection);
  scheduler_.After(before->device->latency, [before] { before->worker->LoseConnection(); });
  ComeBack(before, before->device->latency +
                       Milliseconds(100 + static_cast<int64_t>(restart_random_.Below(15'000))));
}

void SwarmRun::SubmitAgain() {
  size_t waiting = 0;
  for (auto& [request, tracked] : requests_) {
    if (tracked.ends > 0) continue;
    const bool goes_on = restart_random_.Below(2) == 0 && !tracked.request.want_logits &&
                         ++waiting <= scenario_.options.queue_limit;
    if (goes_on) {
      ++outcome_.continued;
      tracked.continued = true;
      swarm::Request again = tracked.request;
      again.answer_ids = tracked.tokens;
      if (tracked.trace) tracked.asked_for = tracked.trace->session;
      again.resume = tracked.trace;
      if (again.resume && scenario_.trusts_claims)
        again.resume = swarm::SessionTrace{tracked.asked_for, 0, UINT32_MAX / 2};
      Feed(swarm::RequestSubmitted{std::move(again)});
      continue;
    }
    scheduler_.After(Milliseconds(static_cast<int64_t>(restart_random_.Below(3000))),
                     [this, id = request, start = outcome_.restarts] { AskAgain(id, start); });
  }
}

void SwarmRun::AskAgain(RequestId id, uint64_t start) {
  const auto found = requests_.find(id);
  if (start != outcome_.restarts || found == requests_.end() || found->second.ends > 0) return;
  Tracked& tracked = found->second;
  tracked.tokens.clear();
  tracked.logit_rows = 0;
  if (!tracked.cancelled && restart_random_.Below(8) != 0)
    return Feed(swarm::RequestSubmitted{tracked.request});
  ++tracked.ends;
  --unfinished_;
}

void SwarmRun::Heal() {
  Log("the chaos is over");
  for (Device& device : scenario_.devices) Cure(device);
  if (random_.Below(2) == 0)
    AddFreshDevices();
  else
    WatchForDown();
}

void SwarmRun::WatchForDown() {
  scheduler_.After(Seconds(20), [this] {
    if (unfinished_ == 0) return;
    // A plan of hubs may be up and wait for experts for which those that are left have no room.
    const bool stands = core_.snapshot(scheduler_.now()).state != swarm::SwarmState::kUp ||
                        scenario_.options.plan_kind != swarm::PlanKind::kLayers;
    if (stands && !CouldServe())
      AddFreshDevices();
    else
      WatchForDown();
  });
}

bool SwarmRun::CouldServe() {
  if (scenario_.options.plan_kind != swarm::PlanKind::kLayers) return false;  // nobody can know
  std::vector<planner::WorkerMetrics> metrics;
  for (const auto& [id, connection] : connections_) {
    const Device& device = *connection.device;
    if (!connection.open || connection.broken) continue;
    if (device.weight_factor > device.claimed_weight_factor) continue;
    metrics.emplace_back().memory_bytes = device.memory_bytes;
    metrics.back().weight_factor = device.weight_factor;
  }
  return planner::FindPlan(costs_.layers(), metrics, {}).plan.has_value();
}

void SwarmRun::AddFreshDevices() {
  const uint64_t whole = costs_.MemoryBytes(1.0, {0, costs_.layer_count()});
  for (int i = 0; i < 2; ++i) {
    auto& fresh = spare_.emplace_back(std::make_unique<Device>());
    fresh->id = "fresh" + std::to_string(i);
    fresh->memory_bytes = whole * 3 / 2;
    fresh->link_bytes_per_us = 50;
    fresh->latency = Milliseconds(5);
    fresh->is_hub_and_holder = scenario_.options.plan_kind != swarm::PlanKind::kLayers;
    fresh->divides_products = fresh->is_hub_and_holder;
    fresh->disk = fresh->disk_hubs = swarm::LayerSet(model_.layer_count);
    Open(*fresh);
  }
}

}  // namespace weft::sim
