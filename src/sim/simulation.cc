#include "sim/simulation.h"

#include <algorithm>
#include <functional>

#include "base/check.h"
#include "planner/planner.h"
#include "sim/connection.h"
#include "sim/recompute_watch.h"

namespace weft::sim {
namespace {

using swarm::RequestId;
using swarm::WorkerId;

constexpr size_t kLogLines = 400;
// After the chaos every request must end within this: the longest backoff of a device is part of
// it.
constexpr Duration kPatience = Seconds(3600);

class Simulation {
 public:
  Simulation(uint64_t seed, const Scenario& scenario)
      : scenario_(scenario),
        random_(seed * 0x9e3779b97f4a7c15ull + 1),
        restart_random_(seed ^ 0x7e57a7edull),
        costs_(scenario_.options),
        core_(scenario_.options) {
    model_ = HashModel::Of(scenario_.options.model);
    for (Device& device : scenario_.devices) device.disk = swarm::LayerSet(model_.layer_count);
  }

  Outcome Run() {
    chaos_end_ = scheduler_.now() + scenario_.chaos;
    for (Device& device : scenario_.devices)
      scheduler_.After(Milliseconds(static_cast<int64_t>(random_.Below(3000))),
                       [this, &device] { Open(device); });
    ScheduleFault();
    ScheduleRestart();
    ScheduleRequest();
    scheduler_.At(chaos_end_, [this] { Heal(); });
    while (outcome_.violations.empty() && scheduler_.Step(chaos_end_)) AfterStep();
    const Instant limit = chaos_end_ + kPatience;
    while (outcome_.violations.empty() && unfinished_ > 0 && scheduler_.Step(limit)) AfterStep();
    CheckEnd();
    outcome_.survivor_frames = recomputes_.survivor_frames();
    outcome_.virtual_time = scheduler_.now() - Instant{1'000'000};
    return std::move(outcome_);
  }

 private:
  // ---- the core and its actions ----

  void Feed(swarm::Event event) {
    ++outcome_.events;
    const auto actions = core_.Handle(event, scheduler_.now());
    if (const auto again = recomputes_.OnEvent(event, actions)) Violate(*again);
    for (const swarm::Action& action : actions)
      std::visit([this](const auto& each) { Carry(each); }, action);
    if (core_.placement_version() != noted_version_) {
      noted_version_ = core_.placement_version();
      noted_.push_back(core_.placement());
      if (noted_.size() > 2) noted_.pop_front();
    }
    ArmTimer();
  }

  void ArmTimer() {
    const auto timer = core_.next_timer();
    if (!timer || (armed_ && *armed_ <= *timer && *armed_ >= scheduler_.now())) return;
    armed_ = *timer;
    scheduler_.At(*timer, [this, at = *timer] {
      if (!armed_ || *armed_ != at) return;
      armed_.reset();
      Feed(swarm::TimerFired{});
      const auto next = core_.next_timer();
      if (next && *next <= scheduler_.now() && ++stuck_timers_ > 3)
        Violate("a timer fires without end");
      else if (!next || *next > scheduler_.now())
        stuck_timers_ = 0;
    });
  }

  void Carry(const swarm::SendControl& action) {
    Connection* connection = Find(action.worker);
    if (!connection) return Violate("a message for a worker that is closed");
    if (!action.message.has_ping())
      Log("-> " + Name(action.worker) + " " + action.message.ShortDebugString());
    CheckMemory(*connection, action.message);
    const Instant at =
        Arrival(*connection, action.message.ByteSizeLong() + 1, connection->last_down);
    scheduler_.At(at, [this, id = action.worker, message = action.message] {
      Connection* to = Any(id);
      if (to && !to->broken) to->worker->OnControl(message);
    });
  }

  // What the core tells a worker to hold must fit its offer by what the worker reported last. Only
  // where nothing serves may the core go back to what the worker claimed, and once it has, go on
  // so.
  void CheckMemory(Connection& connection, const wire::pb::ServerMessage& message) {
    if (!NoteTold(message, model_.layer_count, connection.told)) return;
    const Device& device = *connection.device;
    const double reported = connection.reported_factor;
    const double claimed = std::min(reported, device.claimed_weight_factor);
    const bool exceeds_report = costs_.MemoryBytes(std::max(reported, connection.earlier_factor),
                                                   connection.told) > device.memory_bytes;
    const bool serves = core_.snapshot(scheduler_.now()).state == swarm::SwarmState::kUp;
    // After it ran out of memory less is asked of it than it offers; how much is not known here.
    if (!serves && (exceeds_report || connection.ran_out)) connection.doubted = true;
    if (exceeds_report) ++outcome_.doubts;
    const uint64_t bytes =
        costs_.MemoryBytes(connection.doubted ? claimed : reported, connection.told);
    // The factor that a worker reports is itself a quotient of bytes.
    if (bytes > device.memory_bytes + 1)
      Violate(device.id + " is told to hold " + std::to_string(bytes) + " of " +
              std::to_string(device.memory_bytes) + " bytes");
  }

  void Carry(const swarm::SendData& action) {
    Connection* connection = Find(action.worker);
    if (!connection) return Violate("a frame for a worker that is closed");
    std::vector<uint8_t> bytes;
    for (const Slice& piece : action.pieces)
      bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
    if (!wire::IsGenerationFrame(bytes)) sent_bytes_ += bytes.size();
    const Instant at = Arrival(*connection, bytes.size(), connection->last_down);
    scheduler_.At(at, [this, id = action.worker, message = Slice(std::move(bytes))] {
      Connection* to = Any(id);
      if (to && !to->broken) to->worker->OnFrame(message);
    });
  }

  void Carry(const swarm::CloseWorker& action) {
    Connection* connection = Find(action.worker);
    if (!connection) return Violate("a worker is closed twice");
    Log("close " + Name(action.worker) + ": " + action.reason);
    ++outcome_.closed_by_core;
    connection->open = false;
    const bool refused = connection->worker->refused();
    Device& device = *connection->device;
    if (connection->survives) {
      connections_.erase(action.worker);
      return;
    }
    // The device notices and, after a while, comes back.
    scheduler_.After(device.latency, [this, id = action.worker] {
      if (Connection* gone = Any(id)) gone->worker->Freeze();
      connections_.erase(id);
    });
    if (!refused) Reopen(device, Milliseconds(500 + static_cast<int64_t>(random_.Below(3000))));
  }

  void Carry(const swarm::EmitToken& action) {
    Tracked& tracked = requests_.at(action.request);
    if (tracked.ends > 0)
      Violate("a token after the end of request " + std::to_string(action.request));
    const size_t at = tracked.tokens.size();
    tracked.tokens.push_back(action.token_id);
    ++outcome_.tokens;
    if (at >= tracked.expected.tokens.size() || tracked.expected.tokens[at] != action.token_id)
      Violate("request " + std::to_string(action.request) + " got token " +
              std::to_string(action.token_id) + " at " + std::to_string(at) +
              ", without faults it would be " +
              (at < tracked.expected.tokens.size() ? std::to_string(tracked.expected.tokens[at])
                                                   : "over"));
  }

  void Carry(const swarm::EmitLogits& action) {
    Tracked& tracked = requests_.at(action.request);
    const size_t row_bytes = model_.vocabulary * sizeof(float);
    if (action.first_position != tracked.logit_rows ||
        action.logits.byte_count() != action.rows * row_bytes)
      return Violate("logits of request " + std::to_string(action.request) +
                     " do not follow each other");
    const auto rows = ReferenceRows(model_, tracked.request.prompt_ids);
    for (uint32_t i = 0; i < action.rows; ++i) {
      const int32_t best = model_.TokenOfRank(rows[action.first_position + i], 0);
      const uint8_t* row = action.logits.bytes().data() + i * row_bytes;
      if (LoadLe<float>(row + static_cast<size_t>(best) * sizeof(float)) !=
          HashModel::LogitOfRank(0))
        Violate("wrong logits for request " + std::to_string(action.request));
    }
    tracked.logit_rows += action.rows;
  }

  void Carry(const swarm::FinishRequest& action) {
    Tracked& tracked = requests_.at(action.request);
    Log("end of request " + std::to_string(action.request) + ", reason " +
        std::to_string(static_cast<int>(action.reason)) +
        (action.error ? ": " + action.error->message() : ""));
    if (++tracked.ends > 1)
      return Violate("request " + std::to_string(action.request) + " ended twice");
    --unfinished_;
    ++outcome_.finished;
    const std::string name = "request " + std::to_string(action.request);
    if (action.reason == swarm::FinishReason::kCancelled) {
      ++outcome_.cancelled;
      if (!tracked.cancelled) Violate(name + " ended as cancelled, which nobody asked for");
    } else if (action.reason == swarm::FinishReason::kError) {
      const bool refused = action.error->code() == ErrorCode::kUnavailable &&
                           tracked.tokens.empty() &&
                           action.error->message().find("queue is full") != std::string::npos;
      if (!refused && !tracked.may_fail) Violate(name + " failed: " + action.error->message());
      if (tracked.may_fail) ++outcome_.failed_on_purpose;
    } else {
      if (tracked.tokens != tracked.expected.tokens) Violate(name + " lacks tokens");
      if (action.reason != tracked.expected.reason) Violate(name + " ended for the wrong reason");
      if (tracked.request.want_logits && tracked.logit_rows != tracked.request.prompt_ids.size())
        Violate(name + " lacks logits");
    }
    if (action.generated_tokens != tracked.tokens.size() ||
        action.prompt_tokens != tracked.request.prompt_ids.size() ||
        action.cached_prompt_tokens >= std::max(action.prompt_tokens, 1u))
      Violate(name + " ended with wrong counts");
  }

  void Carry(const swarm::StartPlanning& action) {
    ++outcome_.plans;
    // A search while nothing serves may go back to claims; told of it they may be later.
    if (core_.snapshot(scheduler_.now()).state != swarm::SwarmState::kUp)
      for (auto& [id, connection] : connections_)
        if (std::max(connection.reported_factor, connection.earlier_factor) >
            connection.device->claimed_weight_factor)
          connection.doubted = true;
    const Duration delay = Microseconds(500 + static_cast<int64_t>(random_.Below(30'000)));
    scheduler_.After(delay, [this, action, start = outcome_.restarts] {
      if (start == outcome_.restarts)
        Feed(swarm::PlanFound{action.work, swarm::RunPlanning(action)});
    });
  }

  void Carry(const swarm::SwarmChanged&) {}
  void Carry(const swarm::SetMessageLimit& action) {
    Connection* connection = Find(action.worker);
    if (!connection) return Violate("a message limit for a worker that is closed");
    connection->message_limit = action.bytes;
  }

  // ---- the network ----

  Connection* Any(WorkerId id) {
    const auto found = connections_.find(id);
    return found == connections_.end() ? nullptr : &found->second;
  }
  Connection* Find(WorkerId id) {
    Connection* connection = Any(id);
    return connection && connection->open ? connection : nullptr;
  }
  std::string Name(WorkerId id) {
    Connection* connection = Any(id);
    return (connection ? connection->device->id : "?") + "#" + std::to_string(id);
  }

  // When a message of so many bytes is there. `last`: the delivery before it in this direction.
  Instant Arrival(Connection& connection, size_t byte_count, Instant& last) {
    const Device& device = *connection.device;
    const double us = static_cast<double>(byte_count + 20) / device.link_bytes_per_us;
    const Instant begin =
        std::max({scheduler_.now() + device.latency, last, connection.paused_until});
    last =
        begin + Microseconds(static_cast<int64_t>(us) + static_cast<int64_t>(random_.Below(200)));
    return last;
  }

  void Open(Device& device) { Open(device, nullptr, nullptr); }

  // A new connection: of a worker that has just started, or of one that held on, which knows what
  // it was told over the connection `before`.
  void Open(Device& device, std::shared_ptr<ModelWorker> worker, const Connection* before) {
    for (const auto& [id, connection] : connections_)
      if (connection.device == &device && connection.open && !connection.broken) return;
    const WorkerId id = next_worker_++;
    if (scenario_.new_names && !worker) device.id = "stranger" + std::to_string(id);
    Connection& connection = connections_[id];
    connection.device = &device;
    connection.last_down = connection.last_up = scheduler_.now();
    connection.told = before ? before->told : swarm::LayerSet(model_.layer_count);
    if (worker) {
      connection.reported_factor = before->reported_factor;
      connection.earlier_factor = std::max(before->reported_factor, before->earlier_factor);
      connection.doubted = before->doubted;
      connection.ran_out = before->ran_out;
      connection.worker = std::move(worker);
      connection.line = before->line;
      *connection.line = id;
      ++outcome_.resumed;
      Log("back " + Name(id));
      connection.worker->ConnectAgain();
      return Feed(swarm::WorkerConnected{id, "10.0.0.1"});
    }
    connection.line = std::make_shared<WorkerId>(id);
    ModelWorker::Hooks hooks;
    hooks.send = [this, to = connection.line](FromWorker it) { SendUp(*to, std::move(it)); };
    hooks.violation = [this](const std::string& text) { Violate(text); };
    hooks.numbers_failed = [this](uint32_t) {
      // Which request it was only the core knows: any that runs may be the one.
      for (auto& [request, tracked] : requests_)
        if (tracked.ends == 0) tracked.may_fail = true;
    };
    hooks.interrupted = [this] { ++outcome_.interrupted; };
    hooks.generated = [this](size_t count, size_t sessions) {
      (sessions > 1 ? outcome_.generated_together : outcome_.generated_alone) += count;
    };
    hooks.crash = [this, line = connection.line] {
      if (Find(*line)) Crash(*line, true);
    };
    connection.worker = std::make_shared<ModelWorker>(scenario_.options, costs_, model_, device,
                                                      scheduler_, random_.Next(), std::move(hooks));
    Log("join " + Name(id) + " with " + std::to_string(device.memory_bytes) + " bytes");
    Feed(swarm::WorkerConnected{id, "10.0.0.1"});
  }

  void Reopen(Device& device, Duration delay) {
    scheduler_.After(delay, [this, &device] { Open(device); });
  }

  void SendUp(WorkerId id, FromWorker message) {
    Connection* connection = Any(id);
    if (!connection || connection->broken) return;
    const auto* control = std::get_if<wire::pb::WorkerMessage>(&message);
    const size_t bytes =
        control ? control->ByteSizeLong() + 1 : std::get<Slice>(message).byte_count();
    const Instant at = Arrival(*connection, bytes, connection->last_up);
    const Device& device = *connection->device;
    // Tokens are believed whoever has the whole model, so a device that mixes them up cannot be
    // told from one that makes up others.
    if (!control && wire::IsGenerationFrame(std::get<Slice>(message).bytes()))
      return Deliver(id, std::move(message), bytes, at, true);
    if (random_.Uniform() < device.late_message) {  // those after it are there before
      ++outcome_.overtaken;
      const Duration late = Milliseconds(1 + static_cast<int64_t>(random_.Below(500)));
      return Deliver(id, std::move(message), bytes, at + late, false);
    }
    if (random_.Uniform() < device.duplicate_message) {
      ++outcome_.repeated;
      Deliver(id, message, bytes, at, false);
    }
    Deliver(id, std::move(message), bytes, at, true);
  }

  void Deliver(WorkerId id, FromWorker message, size_t bytes, Instant at, bool in_order) {
    scheduler_.At(at, [this, id, bytes, in_order, message = std::move(message)] {
      Connection* from = Find(id);
      if (!from || from->broken) return;
      if (in_order && bytes > from->message_limit)
        Violate("a message of " + std::to_string(bytes) + " bytes of " + Name(id) +
                " would have been cut off at " + std::to_string(from->message_limit));
      if (const auto* text = std::get_if<wire::pb::WorkerMessage>(&message)) {
        if (text->has_connect()) {
          from->reported_factor = text->connect().weight_factor();
          // What it does not name has gone with the connection before.
          from->told = swarm::LayerSet(model_.layer_count);
          for (const auto& held : text->connect().held())
            from->told.AddRange(held.layers().first(), held.layers().end());
        }
        if (text->has_prepared()) {
          from->reported_factor = text->prepared().weight_factor();
          from->earlier_factor = 0;
        }
        if (text->failed().code() == ErrorCodeName(ErrorCode::kOutOfMemory)) from->ran_out = true;
        if (!text->has_pong()) Log("<- " + Name(id) + " " + text->ShortDebugString());
        Feed(swarm::WorkerControl{id, *text});
      } else {
        Feed(swarm::WorkerData{id, std::get<Slice>(message)});
      }
    });
  }

  // ---- what goes wrong ----

  void ScheduleFault() {
    if (scenario_.faults_per_minute <= 0) return;
    const double us = 60e6 / scenario_.faults_per_minute * (0.2 + 1.6 * random_.Uniform());
    scheduler_.After(Microseconds(static_cast<int64_t>(us)), [this] {
      if (scheduler_.now() >= chaos_end_) return;
      Fault();
      ScheduleFault();
    });
  }

  void Fault() {
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

  // Busy with something else for a while.
  void Slow(WorkerId id) {
    Log("fault: slow " + Name(id));
    Device& device = *connections_.at(id).device;
    device.slowdown = 3 + 20 * random_.Uniform();
    scheduler_.After(Seconds(5 + static_cast<int64_t>(random_.Below(30))),
                     [&device] { device.slowdown = 1; });
  }

  // Somebody wants the whole model in a tab, or not any longer.
  void WantWhole(const std::vector<WorkerId>& open) {
    const bool wanted = random_.Below(3) != 0;
    for (const WorkerId each : open) {
      Connection& tab = connections_.at(each);
      if (tab.device->engine != "webgpu") continue;
      Log("whole model " + std::string(wanted ? "wanted by " : "given back by ") + Name(each));
      ++outcome_.wishes;
      return tab.worker->AskWhole(wanted);
    }
  }

  // Its machine stands still, and goes on as if nothing had been.
  void Pause(WorkerId id) {
    Log("fault: pause " + Name(id));
    ++outcome_.losses;
    connections_.at(id).paused_until =
        scheduler_.now() + Milliseconds(200 + static_cast<int64_t>(random_.Below(8000)));
  }

  // All machines sleep, and their clocks jump.
  void SleepAll() {
    const Duration time = Milliseconds(500 + static_cast<int64_t>(random_.Below(20'000)));
    Log("fault: everything sleeps for " + std::to_string(time.us / 1000) + " ms");
    scheduler_.Sleep(time);
  }

  void HaveBadMinute(WorkerId id) {
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

  void Cure(Device& device) {
    device.step_failure = device.corrupt_frame = device.illegal_message = 0;
    device.prepare_failure = device.numbers_failure = device.prepare_crash = 0;
    device.duplicate_message = device.late_message = 0;
    device.slowdown = 1;
  }

  void TellLost(WorkerId id, Duration latency) {
    scheduler_.After(latency, [this, id] {
      if (!Find(id)) return;
      connections_.erase(id);
      Feed(swarm::WorkerLost{id, "connection reset"});
    });
  }

  void Crash(WorkerId id, bool told) {
    Log("fault: " + std::string(told ? "crash " : "drop ") + Name(id));
    ++outcome_.losses;
    Connection& connection = connections_.at(id);
    connection.broken = true;
    connection.worker->Freeze();
    Device& device = *connection.device;
    if (told) TellLost(id, device.latency);
    Reopen(device, Milliseconds(200 + static_cast<int64_t>(random_.Below(20'000))));
  }

  void Cut(WorkerId id, bool told) {
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

  // The worker of the connection `before`, or another one on its device.
  void ComeBack(const std::shared_ptr<Connection>& before, Duration delay) {
    scheduler_.After(delay, [this, before] {
      if (before->worker->can_connect_again())
        Open(*before->device, before->worker, before.get());
      else
        Open(*before->device);
    });
  }

  void ScheduleRestart() {
    if (scenario_.restarts_per_minute <= 0) return;
    const double us =
        60e6 / scenario_.restarts_per_minute * (0.2 + 1.6 * restart_random_.Uniform());
    scheduler_.After(Microseconds(static_cast<int64_t>(us)), [this] {
      if (scheduler_.now() >= chaos_end_) return;
      Restart();
      ScheduleRestart();
    });
  }

  // Another core begins with what the one before has noted last, or before that.
  void Restart() {
    Log("fault: the server starts again");
    ++outcome_.restarts;
    if (!noted_.empty())
      scenario_.options.restored = restart_random_.Below(4) == 0 ? noted_.front() : noted_.back();
    core_ = swarm::Core(scenario_.options);
    recomputes_.Restart();
    armed_.reset();
    sent_bytes_ = 0;
    for (auto& [id, connection] : std::exchange(connections_, {})) CutOff(connection);
    SubmitAgain();
  }

  void CutOff(Connection& connection) {
    if (!connection.open) return connection.worker->Freeze();  // it comes back by itself
    if (connection.broken) return;
    connection.broken = connection.survives = true;
    const auto before = std::make_shared<Connection>(connection);
    scheduler_.After(before->device->latency, [before] { before->worker->LoseConnection(); });
    ComeBack(before, before->device->latency +
                         Milliseconds(100 + static_cast<int64_t>(restart_random_.Below(15'000))));
  }

  // Requests of before go on behind their tokens, or are asked for again, or by nobody.
  void SubmitAgain() {
    size_t waiting = 0;
    for (auto& [request, tracked] : requests_) {
      if (tracked.ends > 0) continue;
      const bool goes_on = restart_random_.Below(2) == 0 && !tracked.request.want_logits &&
                           ++waiting <= scenario_.options.queue_limit;
      if (goes_on) {
        ++outcome_.continued;
        swarm::Request again = tracked.request;
        again.answer_ids = tracked.tokens;
        Feed(swarm::RequestSubmitted{std::move(again)});
        continue;
      }
      scheduler_.After(Milliseconds(static_cast<int64_t>(restart_random_.Below(3000))),
                       [this, id = request, start = outcome_.restarts] { AskAgain(id, start); });
    }
  }

  void AskAgain(RequestId id, uint64_t start) {
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

  // The chaos is over and everything is cured. Fresh devices join at once in half of the runs; in
  // the others only when the old ones cannot serve, so that nothing is repaired by a new plan that
  // should have repaired itself.
  void Heal() {
    Log("the chaos is over");
    for (Device& device : scenario_.devices) Cure(device);
    if (random_.Below(2) == 0)
      AddFreshDevices();
    else
      WatchForDown();
  }

  void WatchForDown() {
    scheduler_.After(Seconds(20), [this] {
      if (unfinished_ == 0) return;
      if (core_.snapshot(scheduler_.now()).state != swarm::SwarmState::kUp && !CouldServe())
        AddFreshDevices();
      else
        WatchForDown();
    });
  }

  // Whether the devices that are connected can in truth hold the model, those left out that take
  // more than they claim: what they could hold nobody can know.
  bool CouldServe() {
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

  void AddFreshDevices() {
    const uint64_t whole = costs_.MemoryBytes(1.0, {0, costs_.layer_count()});
    for (int i = 0; i < 2; ++i) {
      auto& fresh = spare_.emplace_back(std::make_unique<Device>());
      fresh->id = "fresh" + std::to_string(i);
      fresh->memory_bytes = whole * 3 / 2;
      fresh->link_bytes_per_us = 50;
      fresh->latency = Milliseconds(5);
      fresh->disk = swarm::LayerSet(model_.layer_count);
      Open(*fresh);
    }
  }

  // ---- requests ----

  void ScheduleRequest() {
    if (scenario_.requests_per_minute <= 0) return;
    const double us = 60e6 / scenario_.requests_per_minute * (0.1 + 1.8 * random_.Uniform());
    scheduler_.After(Microseconds(static_cast<int64_t>(us)), [this] {
      if (scheduler_.now() >= chaos_end_) return;
      Submit();
      ScheduleRequest();
    });
  }

  swarm::Request MakeRequest() {
    swarm::Request request;
    request.id = next_request_++;
    const uint32_t length = 1 + static_cast<uint32_t>(random_.Below(scenario_.longest_prompt));
    // Often the next turn of an earlier conversation, or one that begins like it.
    if (!finished_prefixes_.empty() && random_.Uniform() < 0.6) {
      request.prompt_ids = finished_prefixes_[random_.Below(finished_prefixes_.size())];
      if (random_.Uniform() < 0.4)
        request.prompt_ids.resize(1 + random_.Below(request.prompt_ids.size()));
    }
    while (request.prompt_ids.size() < length)
      request.prompt_ids.push_back(static_cast<int32_t>(random_.Below(model_.vocabulary)));
    if (request.prompt_ids.size() > scenario_.options.context_length)
      request.prompt_ids.resize(scenario_.options.context_length);
    for (uint64_t i = scenario_.options.model.is_recurrent() ? random_.Below(4) : 0; i > 0; --i)
      request.marks.push_back(static_cast<uint32_t>(random_.Below(request.prompt_ids.size() + 3)));
    request.max_tokens = 1 + static_cast<uint32_t>(random_.Below(scenario_.longest_answer));
    request.sampling.temperature = 0;
    if (random_.Uniform() < scenario_.sampled_probability)
      SetSampling(random_, model_.vocabulary, request.sampling);
    for (int i = 0; i < 8; ++i)
      request.stop_ids.push_back(static_cast<int32_t>(random_.Below(model_.vocabulary)));
    request.want_logits = random_.Uniform() < 0.05;
    if (request.want_logits) request.sampling = {.temperature = 0};
    return request;
  }

  void Submit() {
    swarm::Request request = MakeRequest();
    const RequestId id = request.id;
    Tracked& tracked = requests_[id];
    tracked.expected = Reference(model_, request, scenario_.options.context_length);
    tracked.request = request;
    ++unfinished_;
    ++outcome_.requests;
    std::vector<int32_t> whole = request.prompt_ids;
    whole.insert(whole.end(), tracked.expected.tokens.begin(), tracked.expected.tokens.end());
    if (whole.size() + 1 < scenario_.options.context_length)
      finished_prefixes_.push_back(std::move(whole));
    if (finished_prefixes_.size() > 8) finished_prefixes_.erase(finished_prefixes_.begin());
    Log("request " + std::to_string(id) + ": " + std::to_string(request.prompt_ids.size()) + " + " +
        std::to_string(request.max_tokens));
    Feed(swarm::RequestSubmitted{std::move(request)});
    if (random_.Uniform() < scenario_.cancel_probability)
      scheduler_.After(Milliseconds(static_cast<int64_t>(random_.Below(5000))), [this, id] {
        const auto found = requests_.find(id);
        if (found == requests_.end() || found->second.ends > 0) return;
        found->second.cancelled = true;
        Feed(swarm::RequestCancelled{id});
      });
  }

  // ---- checks ----

  void AfterStep() {
    if (outcome_.events % 64 == 0) NoteSizes();
    // Ended requests are forgotten so that a run of days stays small.
    if (requests_.size() > 2000)
      std::erase_if(requests_, [](const auto& entry) { return entry.second.ends > 0; });
  }

  void NoteSizes() {
    const swarm::CoreSizes sizes = core_.sizes();
    swarm::CoreSizes& most = outcome_.most;
    const auto raise = [](auto& to, auto value) { to = std::max(to, value); };
    raise(most.workers, sizes.workers);
    raise(most.sessions, sizes.sessions);
    raise(most.waiting_requests, sizes.waiting_requests);
    raise(most.probation_records, sizes.probation_records);
    raise(most.frames_in_flight, sizes.frames_in_flight);
    raise(most.open_pings, sizes.open_pings);
    raise(most.session_tokens, sizes.session_tokens);
    raise(most.waiting_rows, sizes.waiting_rows);
  }

  void CheckEnd() {
    for (const auto& [id, tracked] : requests_)
      if (tracked.ends == 0 && outcome_.violations.empty())
        Violate("request " + std::to_string(id) + " hangs with " +
                std::to_string(tracked.tokens.size()) +
                " tokens; the swarm says: " + core_.snapshot(scheduler_.now()).message);
    const swarm::Snapshot picture = core_.snapshot(scheduler_.now());
    if (outcome_.violations.empty() && unfinished_ == 0) {
      if (picture.active_requests + picture.queued_requests != 0)
        Violate("requests are left in the core");
      if (picture.boundary_bytes_sent != sent_bytes_) Violate("bytes sent are miscounted");
    }
  }

  void Violate(const std::string& text) {
    Log("VIOLATION: " + text);
    outcome_.violations.push_back(text);
  }

  void Log(const std::string& text) {
    for (const char c : text)
      outcome_.digest = HashModel::Mix(outcome_.digest, static_cast<uint64_t>(c));
    outcome_.digest = HashModel::Mix(outcome_.digest, static_cast<uint64_t>(scheduler_.now().us));
    if (!scenario_.log) return;
    outcome_.log.push_back(std::to_string(scheduler_.now().us / 1000) + " ms  " + text);
    if (outcome_.log.size() > kLogLines) outcome_.log.pop_front();
  }

  Scenario scenario_;
  SeededRandom random_, restart_random_;
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
  WorkerId next_worker_ = 1;
  RequestId next_request_ = 1;
  std::deque<swarm::Placement> noted_;  // the last two
  uint64_t noted_version_ = 0;
  std::optional<Instant> armed_;
  int stuck_timers_ = 0;
};

}  // namespace

Outcome Simulate(uint64_t seed, const Scenario& scenario) {
  return Simulation(seed, scenario).Run();
}

}  // namespace weft::sim
