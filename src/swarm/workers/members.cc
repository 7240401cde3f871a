#include "swarm/workers/members.h"

#include <algorithm>
#include <utility>

namespace weft::swarm {
namespace {

// A worker that answered so many steps has made up for its failures.
constexpr uint32_t kRedeemingSteps = 16;
// One message that nobody asked it for may be a mistake; three are put down to the device.
constexpr uint32_t kMostWrong = 3;
// More than any worker has to say at once, beside one message for each layer: and then again. A hub
// that loses sums reports with every pong, up to ten times a second.
constexpr double kUnaskedAtOnce = 256, kUnaskedPerS = 64;

// `first`, and twice as long with every time before, up to `most`.
Duration Doubled(Duration first, uint32_t times, Duration most) {
  return std::min(most, first * (int64_t{1} << static_cast<int>(std::min(times, 20u))));
}

}  // namespace

Worker& Members::Add(const WorkerConnected& event, const std::string& network, Instant now) {
  Worker& worker = roster_.Add(event.worker);
  worker.id = event.worker;
  worker.address = event.address;
  worker.network = event.network;
  worker.stranger_network = network;
  worker.trusted = event.trusted;
  worker.connected_at = worker.last_heard = now;
  worker.told_incarnation = incarnation_.number();
  *outbox_.Control(event.worker).mutable_init() =
      MakeInit(options_, worker.told_incarnation, successors_.servers);
  changes_.Note({.view = true});
  return worker;
}

Error Members::NoRoom() const {
  return Error(ErrorCode::kUnavailable, "This swarm has " + std::to_string(roster_.ready_count()) +
                                            " workers already, its limit: try again later.");
}

void Members::NoteLeadership(const LeadershipChanged& event) {
  incarnation_.RaiseTo(event.incarnation);
  if (event.successors == successors_.servers) return;
  successors_ = {event.successors, successors_.version + 1};
}

void Members::Refuse(WorkerId id, const Error& why) {
  auto& refused = *outbox_.Control(id).mutable_refused();
  refused.set_code(std::string(ErrorCodeName(why.code())));
  refused.set_message(why.message());
  outbox_.Add(CloseWorker{id, why.message()});
}

Status Members::Admit(Worker& worker, const wire::pb::Connect& connect,
                      const std::function<bool(const std::string&)>& is_back, Instant now) {
  ASSIGN_OR_RETURN(Offer offer, CheckConnect(connect, options_));
  const std::string device =
      offer.device_id.empty() ? worker.address + "/" + offer.name : offer.device_id;
  ASSIGN_OR_RETURN(const OwnIncarnation::Heard heard,
                   incarnation_.Hear(connect.seen_incarnation()));
  const bool is_outdated = heard == OwnIncarnation::Heard::kIsOutdated;
  if (is_outdated && options_.tell_seen)
    options_.tell_seen(connect.seen_incarnation());
  else if (is_outdated)
    incarnation_.Raise(connect.seen_incarnation());
  // It hangs up because of what Init told it, whatever this server's number is by now.
  if (is_outdated || connect.seen_incarnation() > worker.told_incarnation)
    return Error(ErrorCode::kCancelled,
                 "It has seen a later start of this swarm's server; it may "
                 "come again to incarnation " +
                     std::to_string(incarnation_.number()) + ".");
  if (const auto evicted = options_.find_eviction ? options_.find_eviction(device) : std::nullopt)
    return Error(ErrorCode::kUnavailable, *evicted);
  if (IsFull()) return NoRoom();
  if (!is_back(offer.device_id) && !worker.network.empty() && !joins_.TryJoin(worker.network, now))
    return Error(ErrorCode::kUnavailable,
                 "More than " + std::to_string(options_.joins_at_once) +
                     " devices have joined from this address in a short time: try again in a few "
                     "seconds.");
  worker.ready = true;
  worker.offer = std::move(offer);
  worker.probation_key = device;
  worker.limit.edit().bytes = worker.offer.memory_bytes;
  return OkStatus();
}

void Members::NoteHeldBack(Worker& worker, bool held, Instant now) const {
  // What it has said meanwhile comes now.
  if (!held) worker.last_heard = now;
  worker.held_back_at = held ? std::optional(now) : std::nullopt;
}

void Members::NoteLeaving(Worker& worker, Instant latest) {
  worker.leaves_at = latest;
  changes_.Note({.view = true, .experts = true});
}

void Members::NoteProblem(Worker& worker, const std::string& problem) {
  worker.record.edit().problem = problem;
  changes_.Note({.view = true});
}

bool Members::NoteFailure(Worker& worker, const std::string& problem, Instant now) {
  NoteProblem(worker, problem);
  worker.record.edit().successes = 0;
  return probation_.NoteFailure(worker.probation_key, now);
}

void Members::PutAside(Worker& worker, const std::string& problem, Instant now) {
  NoteProblem(worker, problem);
  worker.record.edit().successes = 0;
  if (worker.ready) probation_.PutAside(worker.probation_key, now);
  changes_.Note({.experts = true});
}

void Members::NoteSuccess(Worker& worker) {
  if (++worker.record.edit().successes != kRedeemingSteps) return;
  worker.record.edit().problem.clear();
  probation_.NoteSuccess(worker.probation_key);
}

void Members::NoteSlow(Worker& worker, double stage_us, Instant now) {
  worker.record.edit().slow_reference_us = stage_us;
  changes_.Note({.plan_at = now});
}

bool Members::NoteWrongMessage(Worker& worker) {
  NoteProblem(worker, "It sent an expert message that nobody waits for.");
  if (++worker.record.edit().wrong_messages != kMostWrong) return false;
  worker.record.edit().wrong_messages = 0;
  return true;
}

Status Members::CountUnasked(Worker& worker, Instant now) const {
  std::optional<TokenBucket>& unasked = worker.record.edit().unasked;
  if (!unasked) unasked.emplace(kUnaskedAtOnce + 2 * costs_.layer_count(), kUnaskedPerS, now);
  if (unasked->Take(now)) return OkStatus();
  return Error(ErrorCode::kInvalidData,
               "It sent too many messages that nobody had asked it for: expected " +
                   std::to_string(static_cast<int>(kUnaskedPerS)) + " a second at most.");
}

void Members::LowerMemory(Worker& worker, uint64_t bytes, Instant now) const {
  WorkerLimit& limit = worker.limit.edit();
  limit.bytes = std::min(limit.bytes, bytes * 9 / 10);
  limit.until =
      now + Doubled(options_.timeouts.aside_first, limit.failures++, options_.timeouts.aside_max);
}

bool Members::RestoreMemory(Instant now) {
  bool restored = false;
  for (auto& [id, worker] : roster_) {
    if (!worker.limit->until || now < *worker.limit->until) continue;
    worker.limit.edit().bytes = worker.offer.memory_bytes;
    worker.limit.edit().until.reset();
    restored = true;
  }
  if (restored) changes_.Note({.experts = true, .plan_at = now});
  return restored;
}

void Members::PauseLoading(Worker& worker, const std::string& problem, bool is_slow, Instant now) {
  NoteProblem(worker, problem);
  WorkerLoading& loading = worker.loading.edit();
  loading.paused_until =
      now + Doubled(options_.timeouts.load_pause, loading.pauses++, options_.timeouts.aside_max);
  loading.is_slow = is_slow;
  changes_.Note({.standbys = true, .experts = true, .plan_at = now});
}

bool Members::ResumeLoading(Instant now) {
  bool resumed = false;
  for (auto& [id, worker] : roster_) {
    if (!worker.loading->paused_until || now < *worker.loading->paused_until) continue;
    worker.loading.edit().paused_until.reset();
    resumed = true;
  }
  if (resumed) changes_.Note({.experts = true, .plan_at = now});
  return resumed;
}

bool Members::ResumeSlow() {
  bool any = false;
  for (auto& [id, worker] : roster_)
    if (worker.loading->paused_until && worker.loading->is_slow) {
      worker.loading.edit().paused_until.reset();
      any = true;
    }
  return any;
}

}  // namespace weft::swarm
