// Devices that lie, connections that say something else than Connect first, and floods: what they
// do in a run, and whether the core is done with them soon enough.
#include <algorithm>

#include "sim/swarm_run.h"
#include "wire/whole_frame.h"

namespace weft::sim {
namespace {

// Requests that may end while a device that has lied is in the plan, beside those that run.
constexpr uint32_t kMostRequests = 3;
// Requests that two devices may deny together in a run.
constexpr uint32_t kMostDenied = 1;
// Messages that nobody asked for: as many at once, beside two for each layer, and each second
// (docs/protocol.md), and some for what is under way.
constexpr double kUnaskedAtOnce = 256, kUnaskedPerS = 64, kUnaskedOnTheWay = 32;
// Single rows that a device has computed before what it claims of itself counts no more.
constexpr uint64_t kServedRows = 24;
// How much less than it took a step may be taken for, beside the line and what handing over may
// take.
constexpr double kHandoverUs = 10'000, kClaimedShare = 0.8;
// Twice as long as plans are left alone.
constexpr Duration kKnownLong = Seconds(30);

}  // namespace

// ---- strangers ----

void SwarmRun::ScheduleStrangers() {
  if (scenario_.silent_strangers > 0)
    scheduler_.After(Milliseconds(static_cast<int64_t>(hostile_random_.Below(9000))),
                     [this] { SilentStrangersCome(); });
  if (scenario_.strangers_per_minute <= 0) return;
  const double us = 60e6 / scenario_.strangers_per_minute * 2 * hostile_random_.Uniform();
  scheduler_.After(Microseconds(static_cast<int64_t>(us)), [this] {
    if (scheduler_.now() >= chaos_end_) return;
    OneStrangerComes();
    ScheduleStrangers();
  });
}

void SwarmRun::OneStrangerComes() {
  const WorkerId id = next_stranger_++;
  strangers_.insert(id);
  ++outcome_.strangers;
  Feed(swarm::WorkerConnected{id, "10.9.0.1", "", hostile_random_.Below(2) == 0});
  const swarm::Event first = FirstMessage(id);
  if (!strangers_.contains(id)) return;  // there was no room
  Feed(first);
  if (strangers_.contains(id))
    Violate("a connection whose first message was no Connect (" +
            (std::holds_alternative<swarm::WorkerData>(first)
                 ? std::string("data")
                 : std::get<swarm::WorkerControl>(first).message.ShortDebugString()) +
            ") was not closed");
}

// They take no more room than strangers may, however many they are.
void SwarmRun::SilentStrangersCome() {
  for (uint32_t i = 0; i < scenario_.silent_strangers; ++i) {
    const WorkerId id = next_stranger_++;
    strangers_.insert(id);
    const std::string address = "10.9.1." + std::to_string(hostile_random_.Below(8));
    Feed(swarm::WorkerConnected{id, address});
    if (strangers_.size() > scenario_.options.stranger_limit)
      return Violate(std::to_string(strangers_.size()) + " strangers are connected");
  }
  scenario_.silent_strangers = 0;
}

swarm::Event SwarmRun::FirstMessage(WorkerId id) {
  wire::pb::WorkerMessage message;
  const uint64_t kind = hostile_random_.Below(16);
  switch (kind) {
    case 0:
      break;  // no kind at all
    case 1:
      message.mutable_download_progress();
      break;
    case 2:
      message.mutable_layer_downloaded();
      break;
    case 3:
      message.mutable_measured();
      break;
    case 4:
      message.mutable_prepared();
      break;
    case 5:
      message.mutable_experts_held();
      break;
    case 6:
      message.mutable_groups_lost();
      break;
    case 7:
      message.mutable_loss_report();
      break;
    case 8:
      message.mutable_holder_stats();
      break;
    case 9:
      message.mutable_failed();
      break;
    case 10:
      message.mutable_step_failed();
      break;
    case 11:
      message.mutable_pong();
      break;
    case 12:
      message.mutable_leaving()->set_draining(hostile_random_.Below(2) == 0);
      break;
    case 13:
      return swarm::WorkerData{id, Slice(wire::EncodeWholeFrame(wire::Tokens{1, 1, true, 1, {1}}))};
    default: {
      std::vector<uint8_t> bytes(hostile_random_.Below(200));
      for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(hostile_random_.Next());
      if (kind == 14 && bytes.size() >= 4) StoreLe<uint32_t>(bytes.data(), wire::kFrameMagic);
      return swarm::WorkerData{id, Slice(std::move(bytes))};
    }
  }
  return swarm::WorkerControl{id, std::move(message)};
}

// ---- floods ----

void SwarmRun::ScheduleFlood(Device& device) {
  if (device.unasked_per_ms == 0) return;
  const Instant next = std::max(device.unasked_from, scheduler_.now() + Milliseconds(1));
  scheduler_.At(next, [this, &device] {
    if (scheduler_.now() >= chaos_end_) return;
    for (auto& [id, connection] : connections_)
      if (connection.device == &device && connection.open && !connection.broken &&
          connection.message_limit != wire::kMaxControlBytes)  // it has been let in
        for (uint32_t i = 0; i < device.unasked_per_ms; ++i) connection.worker->SayUnasked();
    ScheduleFlood(device);
  });
}

void SwarmRun::CountUnasked(Connection& connection, const wire::pb::WorkerMessage& message) {
  const Device& device = *connection.device;
  const bool may_be_unasked = message.has_download_progress() || message.has_failed();
  if (device.unasked_per_ms == 0 || !may_be_unasked) return;
  ++outcome_.unasked;
  ++connection.unasked;
  const double seconds = (scheduler_.now() - device.unasked_from).seconds();
  const double most =
      kUnaskedAtOnce + 2.0 * model_.layer_count + kUnaskedPerS * seconds + kUnaskedOnTheWay;
  if (static_cast<double>(connection.unasked) > most)
    Violate(device.id + " was let say " + std::to_string(connection.unasked) +
            " things that nobody had asked for");
}

// ---- devices that lie ----

void SwarmRun::NoteLie(Device& device) {
  ++outcome_.lies;
  lying_.try_emplace(&device, 0);
  if (!device.lies.finite) return;
  // Where nothing serves whoever comes is used until its check has ended.
  if (device.lies.from == Instant{})
    for (const swarm::WorkerSnapshot& worker : core_.snapshot(scheduler_.now()).workers)
      if (const Connection* connection = Any(worker.id);
          connection != nullptr && connection->device == &device && worker.check == "passed")
        Violate(device.id + " has passed its check and never computed anything right");
  for (auto& [request, tracked] : requests_)
    if (tracked.ends == 0) tracked.may_be_wrong = true;
}

// Its rows were seen to be wrong, or it has no part in answers any more: rows that are no numbers
// spoil none.
bool SwarmRun::IsFound(const Device& device, const swarm::Snapshot& picture) {
  for (const swarm::WorkerSnapshot& worker : picture.workers) {
    const Connection* connection = Any(worker.id);
    if (connection == nullptr || connection->device != &device) continue;
    if (worker.check == "failed") return true;
    if (device.lies.finite) return false;
    return std::none_of(picture.stages.begin(), picture.stages.end(),
                        [&](const auto& stage) { return stage.worker == worker.id; });
  }
  return true;  // it was closed
}

// It runs nothing but the embedding or the head, whose rows nobody compares.
bool SwarmRun::CannotBeChecked(const Device& device, const swarm::Snapshot& picture) {
  if (!device.lies.finite) return false;
  return std::none_of(
      picture.stages.begin(), picture.stages.end(), [&](const swarm::StageSnapshot& stage) {
        const Connection* connection = Any(stage.worker);
        return connection != nullptr && connection->device == &device &&
               std::max(stage.first_layer, 1u) < std::min(stage.end_layer, model_.layer_count - 1);
      });
}

void SwarmRun::WatchLiars() {
  if (!scenario_.is_hostile) return;
  const swarm::Snapshot picture = core_.snapshot(scheduler_.now());
  CheckClaims(picture);
  for (auto at = lying_.begin(); at != lying_.end();) {
    auto& [device, ended] = *at;
    if (IsFound(*device, picture)) {
      ++outcome_.liars_out;
      at = lying_.erase(at);
      continue;
    }
    if (CannotBeChecked(*device, picture)) ended = 0;
    if (++ended > kMostRequests + scenario_.options.session_count)
      Violate(std::to_string(ended) + " requests have ended since " + device->id +
              " began to lie, and it is not out");
    ++at;
  }
}

// What counts of a step of one row is no less than what the line and the handing over leave of it.
void SwarmRun::CheckClaims(const swarm::Snapshot& picture) {
  for (const swarm::WorkerSnapshot& worker : picture.workers) {
    Connection* connection = Any(worker.id);
    if (connection == nullptr || !connection->device->lies.claimed_us) continue;
    const Device& device = *connection->device;
    if (worker.first_layer < 0) continue;
    ++outcome_.claims;
    // What it has computed may be of an earlier stage, and nothing measured since.
    if (worker.tokens_computed < kServedRows || worker.us_per_token == 0) continue;
    const double true_us =
        device.overhead_us + costs_.Cost({static_cast<uint32_t>(worker.first_layer),
                                          static_cast<uint32_t>(worker.end_layer)}) /
                                 device.bytes_per_us;
    const double line_us = 2 * static_cast<double>(device.latency.us) + 1000;
    const double least = kClaimedShare * true_us - line_us - std::max(kHandoverUs, 2 * line_us);
    if (worker.us_per_token < least) connection->known_slow_at = Instant{INT64_MAX};
    connection->known_slow_at = std::min(connection->known_slow_at, scheduler_.now());
    if (worker.us_per_token >= least && scheduler_.now() > connection->known_slow_at + kKnownLong)
      Violate(device.id + " is known to be slow, and runs layers that others could");
    // The first step of a binding may take longer for other reasons: its median counts.
    connection->unbounded_ends = worker.us_per_token < least ? connection->unbounded_ends + 1 : 0;
    if (connection->unbounded_ends > kMostRequests)
      Violate(device.id + " is believed " + std::to_string(worker.us_per_token) +
              " us a token, expected at least " + std::to_string(least));
  }
}

bool SwarmRun::MayBeWrong(const Tracked& tracked) const {
  return tracked.may_be_wrong && std::any_of(lying_.begin(), lying_.end(), [](const auto& each) {
           return each.first->lies.finite;
         });
}

// Two devices whose rows are no numbers can say so of the same request, until they are known.
bool SwarmRun::IsDenied(const swarm::FinishRequest& action) {
  const auto liars = std::count_if(scenario_.devices.begin(), scenario_.devices.end(),
                                   [](const Device& device) { return device.lies.not_finite; });
  return liars > 1 && action.error->message().find("not finite") != std::string::npos &&
         ++denied_ <= kMostDenied;
}

// Also where it had not lied in answers yet when it was found: since its last check it may have.
bool SwarmRun::IsGivenUp(const swarm::FinishRequest& action) const {
  return std::any_of(scenario_.devices.begin(), scenario_.devices.end(),
                     [this](const Device& device) {
                       return device.lies.finite && device.lies.HaveBegun(scheduler_.now());
                     }) &&
         action.error->message().find("computed a part of this answer") != std::string::npos;
}

}  // namespace weft::sim
