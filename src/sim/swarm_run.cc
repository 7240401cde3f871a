// The loop of a run, what the core's actions do to the swarm, and what is checked as they come.
#include "sim/swarm_run.h"

#include <algorithm>

#include "wire/fork_frame.h"

namespace weft::sim {
namespace {

constexpr size_t kLogLines = 400;
// After the chaos every request must end within this: the longest backoff of a device is part of
// it.
constexpr Duration kPatience = Seconds(3600);
constexpr WorkerId kFirstStranger{uint64_t{1} << 40};

}  // namespace

SwarmRun::SwarmRun(uint64_t seed, const Scenario& scenario)
    : scenario_(scenario),
      random_(seed * 0x9e3779b97f4a7c15ull + 1),
      restart_random_(seed ^ 0x7e57a7edull),
      line_random_(seed ^ 0x11ae5ull),
      keep_random_(seed ^ 0x6ee9ull),
      hostile_random_(seed ^ 0x0b5712eull),
      row_random_(seed ^ 0x70a5ull),
      clock_random_(seed ^ 0xc10c4ull),
      costs_(scenario_.options),
      core_(scenario_.options) {
  model_ = HashModel::Of(scenario_.options.model);
  for (Device& device : scenario_.devices)
    device.disk = device.disk_hubs = swarm::LayerSet(model_.layer_count);
  next_stranger_ = kFirstStranger;
}

Outcome SwarmRun::Run() {
  chaos_end_ = scheduler_.now() + scenario_.chaos;
  for (Device& device : scenario_.devices)
    scheduler_.After(device.joins_after + Milliseconds(static_cast<int64_t>(random_.Below(3000))),
                     [this, &device] { Open(device); });
  for (Device& device : scenario_.devices) ScheduleFlood(device);
  ScheduleStrangers();
  ScheduleCrowd();
  ScheduleLeft();
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

// ---- the core and its actions ----

void SwarmRun::Feed(swarm::Event event) {
  ++outcome_.events;
  const auto actions = core_.Handle(event, scheduler_.now());
  if (const auto again = recomputes_.OnEvent(event, actions)) Violate(*again);
  recomputes_.NoteTrims(core_.sizes().history_trims);
  for (const swarm::Action& action : actions)
    std::visit([this](const auto& each) { Carry(each); }, action);
  if (core_.placement_version() != noted_version_) {
    noted_version_ = core_.placement_version();
    noted_.push_back(core_.placement());
    if (noted_.size() > 2) noted_.pop_front();
  }
  ArmTimer();
}

bool SwarmRun::IsStranger(WorkerId id) const {
  return id >= kFirstStranger;
}

void SwarmRun::ArmTimer() {
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

void SwarmRun::Carry(const swarm::SendControl& action) {
  if (IsStranger(action.worker)) return;
  Connection* connection = Find(action.worker);
  if (!connection) return Violate("a message for a worker that is closed");
  if (!action.message.has_ping())
    Log("-> " + Name(action.worker) + " " + action.message.ShortDebugString());
  if (action.message.has_init()) connection->incarnation = action.message.init().incarnation();
  CheckMemory(*connection, action.message);
  const Instant at = Arrival(*connection, action.message.ByteSizeLong() + 1, connection->last_down);
  scheduler_.At(at, [this, id = action.worker, message = action.message] {
    Connection* to = Any(id);
    if (to && !to->broken) to->worker->OnControl(message);
  });
}

void SwarmRun::CheckMemory(Connection& connection, const wire::pb::ServerMessage& message) {
  if (!connection.told.Note(message, model_, connection.reported_factor)) return;
  const Device& device = *connection.device;
  const double reported = connection.reported_factor;
  const double claimed = std::min(reported, device.claimed_weight_factor);
  const bool exceeds_report =
      connection.told.MemoryBytes(costs_, std::max(reported, connection.earlier_factor)) >
      device.memory_bytes;
  const bool serves = core_.snapshot(scheduler_.now()).state == swarm::SwarmState::kUp;
  // After it ran out of memory less is asked of it than it offers; how much is not known here.
  if (!serves && (exceeds_report || connection.ran_out)) connection.doubted = true;
  if (exceeds_report) ++outcome_.doubts;
  const uint64_t bytes =
      connection.told.MemoryBytes(costs_, connection.doubted ? claimed : reported);
  // The factor that a worker reports is itself a quotient of bytes.
  if (bytes > device.memory_bytes + 1)
    Violate(device.id + " is told to hold " + std::to_string(bytes) + " of " +
            std::to_string(device.memory_bytes) + " bytes");
}

void SwarmRun::Carry(const swarm::SendData& action) {
  Connection* connection = Find(action.worker);
  if (!connection) return Violate("a frame for a worker that is closed");
  std::vector<uint8_t> bytes;
  for (const Slice& piece : action.pieces)
    bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
  if (wire::IsShardMessage(bytes))
    ++outcome_.shard_messages;
  else if (!wire::IsWholeFrame(bytes))
    sent_bytes_ += bytes.size();
  if (wire::IsForkFrame(bytes)) ++outcome_.forks;
  const Instant at = Arrival(*connection, bytes.size(), connection->last_down);
  scheduler_.At(at, [this, id = action.worker, message = Slice(std::move(bytes))] {
    Connection* to = Any(id);
    if (to && !to->broken) to->worker->OnFrame(message);
  });
}

void SwarmRun::Carry(const swarm::CloseWorker& action) {
  if (strangers_.erase(action.worker) > 0) return;
  Connection* connection = Find(action.worker);
  if (!connection) return Violate("a worker is closed twice");
  Log("close " + Name(action.worker) + ": " + action.reason);
  ++outcome_.closed_by_core;
  connection->open = false;
  const bool refused = connection->worker->refused();
  Device& device = *connection->device;
  const bool means_ill = device.lies.from < Instant{INT64_MAX} || device.unasked_per_ms > 0;
  if (scenario_.is_hostile && !means_ill) Violate("an honest device was closed: " + action.reason);
  if (connection->survives) {
    connections_.erase(action.worker);
    return;
  }
  if (connection->worker->has_hung_up()) {
    ++outcome_.hung_up;
    ComeBack(std::make_shared<Connection>(*connection),
             device.latency + Milliseconds(static_cast<int64_t>(clock_random_.Below(1000))));
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

void SwarmRun::Carry(const swarm::EmitSession& action) {
  Tracked& tracked = requests_.at(action.request);
  tracked.trace = action.trace;
  if (std::exchange(tracked.asked_for, {}) == action.trace.session) ++outcome_.adopted;
}

void SwarmRun::Carry(const swarm::EmitToken& action) {
  Tracked& tracked = requests_.at(action.request);
  if (tracked.ends > 0) Violate("a token after the end of request " + ToString(action.request));
  const size_t at = tracked.tokens.size();
  tracked.tokens.push_back(action.token_id);
  ++outcome_.tokens;
  if (tracked.tokens.size() == 1) CheckWait(tracked);
  const bool differs =
      at >= tracked.expected.tokens.size() || tracked.expected.tokens[at] != action.token_id;
  // Where groups may be lost only the end of the request says whether it may differ.
  if (differs && !scenario_.options.loss_limit && !MayBeWrong(tracked))
    Violate("request " + ToString(action.request) + " got token " +
            std::to_string(action.token_id) + " at " + std::to_string(at) +
            ", without faults it would be " +
            (at < tracked.expected.tokens.size() ? std::to_string(tracked.expected.tokens[at])
                                                 : "over"));
}

void SwarmRun::Carry(const swarm::EmitLogits& action) {
  Tracked& tracked = requests_.at(action.request);
  const size_t row_bytes = model_.vocabulary * sizeof(float);
  // Of the last row alone nothing comes before it.
  const auto& prompt = tracked.request.prompt_ids;
  const size_t next = tracked.request.want_last_row ? prompt.size() - 1 : tracked.logit_rows;
  if (action.first_position != next || next + action.rows > prompt.size() ||
      action.logits.byte_count() != action.rows * row_bytes)
    return Violate("logits of request " + ToString(action.request) + " do not follow each other");
  ReferenceRows rows(model_);
  for (uint32_t position = 0; position < action.first_position + action.rows; ++position) {
    const int32_t best = model_.TokenOfRank(rows.Next(tracked.request.prompt_ids[position]), 0);
    if (position < action.first_position || scenario_.options.loss_limit || MayBeWrong(tracked))
      continue;
    const uint8_t* row =
        action.logits.bytes().data() + (position - action.first_position) * row_bytes;
    if (LoadLe<float>(row + static_cast<size_t>(best) * sizeof(float)) != HashModel::LogitOfRank(0))
      Violate("wrong logits for request " + ToString(action.request));
  }
  tracked.logit_rows += action.rows;
}

// Whether groups were lost of its rows, or, before it, of any conversation that it may go on from.
bool SwarmRun::IsLossy(const Tracked& tracked, const swarm::FinishRequest& action) {
  if (!scenario_.options.loss_limit) return false;
  lossy_ = lossy_ || action.lost_groups.value_or(0) > 0;
  const bool says_so = action.lost_groups.value_or(0) > 0 ||
                       (lossy_ && (action.cached_prompt_tokens > 0 || tracked.continued));
  return says_so;
}

void SwarmRun::Carry(const swarm::FinishRequest& action) {
  Tracked& tracked = requests_.at(action.request);
  Log("end of request " + ToString(action.request) + ", reason " +
      std::to_string(static_cast<int>(action.reason)) +
      (action.error ? ": " + action.error->message() : ""));
  if (++tracked.ends > 1) return Violate("request " + ToString(action.request) + " ended twice");
  --unfinished_;
  ++outcome_.finished;
  WatchLiars();
  const std::string name = "request " + ToString(action.request);
  if (action.reason == swarm::FinishReason::kCancelled) {
    ++outcome_.cancelled;
    if (!tracked.cancelled) Violate(name + " ended as cancelled, which nobody asked for");
  } else if (action.reason == swarm::FinishReason::kError) {
    const bool refused = action.error->code() == ErrorCode::kUnavailable &&
                         tracked.tokens.empty() &&
                         action.error->message().find("queue is full") != std::string::npos;
    const bool is_full = !tracked.request.keep.empty() &&
                         action.error->code() == ErrorCode::kOutOfMemory &&
                         action.error->message().find("--sessions") != std::string::npos;
    const bool is_given_up = IsGivenUp(action) || IsDenied(action);
    if (is_given_up) ++outcome_.given_up;
    if (!refused && !is_full && !tracked.may_fail && !is_given_up)
      Violate(name + " failed: " + action.error->message());
    if (tracked.may_fail) ++outcome_.failed_on_purpose;
  } else if (IsLossy(tracked, action)) {
    ++outcome_.lossy_ends;
    if (tracked.tokens.size() > tracked.request.max_tokens) Violate(name + " has too many tokens");
  } else if (!MayBeWrong(tracked)) {
    if (tracked.tokens != tracked.expected.tokens) Violate(name + " lacks tokens");
    if (action.reason != tracked.expected.reason) Violate(name + " ended for the wrong reason");
    if (!tracked.request.keep.empty()) ++outcome_.kept;
    const size_t wanted = tracked.request.want_last_row ? 1
                          : tracked.request.want_logits ? tracked.request.prompt_ids.size()
                                                        : 0;
    if (tracked.logit_rows != wanted) Violate(name + " lacks logits");
  }
  CheckCounts(tracked, action);
}

void SwarmRun::CheckCounts(const Tracked& tracked, const swarm::FinishRequest& action) {
  // The last known token is computed in any case: where an answer has begun it is not the prompt's.
  const uint32_t most_cached = action.prompt_tokens - (tracked.continued ? 0 : 1);
  if (action.generated_tokens != tracked.tokens.size() ||
      action.prompt_tokens != tracked.request.prompt_ids.size() ||
      action.cached_prompt_tokens > most_cached)
    Violate("request " + ToString(action.request) +
            " ended with wrong counts: " + std::to_string(action.generated_tokens) +
            " tokens behind " + std::to_string(action.prompt_tokens) + ", " +
            std::to_string(action.cached_prompt_tokens) + " of them kept");
}

void SwarmRun::Carry(const swarm::CheckLayers& layers) {
  scheduler_.After(Milliseconds(1), [this, layers, start = outcome_.restarts] {
    if (start == outcome_.restarts)
      Feed(swarm::LayersChecked{layers.first, layers.end, std::nullopt});
  });
}

void SwarmRun::Carry(const swarm::StartPlanning& action) {
  ++outcome_.plans;
  // A search while nothing serves may go back to claims; told of it they may be later.
  if (core_.snapshot(scheduler_.now()).state != swarm::SwarmState::kUp)
    for (auto& [id, connection] : connections_)
      if (std::max(connection.reported_factor, connection.earlier_factor) >
          connection.device->claimed_weight_factor)
        connection.doubted = true;
  const Duration delay = Microseconds(500 + static_cast<int64_t>(random_.Below(30'000)));
  scheduler_.After(delay, [this, action, start = outcome_.restarts] {
    if (start == outcome_.restarts) Feed(swarm::PlanFound{action.work, swarm::RunPlanning(action)});
  });
}

// Devices compute what they should, but for those that are named so.
void SwarmRun::Carry(const swarm::Warn& action) {
  // Of one that says what nobody asked for a "failed" may be the answer to a check.
  for (auto& [id, connection] : connections_)
    if (((connection.device->lies.finite && connection.device->lies.HaveBegun(scheduler_.now())) ||
         connection.device->unasked_per_ms > 0) &&
        action.sentence.starts_with("worker " + ToString(id) + " "))
      return Log(action.sentence);
  Violate(action.sentence);
}

void SwarmRun::Carry(const swarm::SetMessageLimit& action) {
  Connection* connection = Find(action.worker);
  if (!connection) return Violate("a message limit for a worker that is closed");
  connection->message_limit = action.bytes;
}

// ---- checks ----

void SwarmRun::AfterStep() {
  if (outcome_.events % 64 == 0) NoteSizes();
  // Ended requests are forgotten so that a run of days stays small.
  if (requests_.size() > 2000)
    std::erase_if(requests_, [](const auto& entry) { return entry.second.ends > 0; });
}

void SwarmRun::NoteSizes() {
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

void SwarmRun::CheckEnd() {
  for (const auto& [id, tracked] : requests_)
    if (tracked.ends == 0 && outcome_.violations.empty())
      Violate("request " + ToString(id) + " hangs with " + std::to_string(tracked.tokens.size()) +
              " tokens; the swarm says: " + core_.snapshot(scheduler_.now()).message);
  const swarm::Snapshot picture = core_.snapshot(scheduler_.now());
  outcome_.side_tokens = picture.side_tokens;  // since the last restart
  if (outcome_.violations.empty() && unfinished_ == 0) {
    if (picture.active_requests + picture.queued_requests != 0)
      Violate("requests are left in the core");
    if (picture.boundary_bytes_sent != sent_bytes_) Violate("bytes sent are miscounted");
  }
}

void SwarmRun::Violate(const std::string& text) {
  Log("VIOLATION: " + text);
  outcome_.violations.push_back(text);
}

void SwarmRun::Log(const std::string& text) {
  for (const char c : text)
    outcome_.digest = HashModel::Mix(outcome_.digest, static_cast<uint64_t>(c));
  outcome_.digest = HashModel::Mix(outcome_.digest, static_cast<uint64_t>(scheduler_.now().us));
  if (!scenario_.log) return;
  outcome_.log.push_back(std::to_string(scheduler_.now().us / 1000) + " ms  " + text);
  if (outcome_.log.size() > kLogLines) outcome_.log.pop_front();
}

Outcome Simulate(uint64_t seed, const Scenario& scenario) {
  return SwarmRun(seed, scenario).Run();
}

}  // namespace weft::sim
