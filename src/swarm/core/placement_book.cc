#include "swarm/core/placement_book.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "swarm/incarnation.h"

namespace weft::swarm {
namespace {

// Numbers of sessions are told as spent in blocks, so that a new one is no change of placement.
constexpr uint32_t kSessionBlock = 1024;
// The last placements may not have come to where they are kept, for minutes where that was away. So
// many numbers of bindings and of sessions are left out.
constexpr uint32_t kUnknownNumbers = 65'536;

PlacedDevice DeviceOf(const std::string& id, const std::vector<Binding>& bindings,
                      const WorkerMemory& memory, const WorkerTimes& times) {
  PlacedDevice device;
  device.device = id;
  std::copy_if(bindings.begin(), bindings.end(), std::back_inserter(device.bindings),
               [](const Binding& binding) { return binding.loaded; });
  device.weight_factor = memory.weight_factor;
  device.used_bytes = memory.reported_bytes;
  const auto rate = [](std::optional<double> median) {
    return median && std::isfinite(*median) && *median > 0 ? median : std::nullopt;
  };
  if (times.measured) device.times.overhead_us = times.overhead_us.Median();
  device.times.handover_us = times.handover_us.Median();
  device.times.bytes_per_us = rate(times.speed.Median());
  device.times.batch_gain = rate(times.batch_gain.Median());
  device.times.down_rate = rate(times.down_rate.Median());
  device.times.up_rate = rate(times.up_rate.Median());
  device.times.load_rate = rate(times.load_rate.Median());
  return device;
}

WorkerTimes TimesOf(const PlacedTimes& placed) {
  WorkerTimes times;
  const auto add = [](auto& ring, std::optional<double> median) {
    if (median) ring.Add(*median);
  };
  add(times.overhead_us, placed.overhead_us);
  if (placed.overhead_us && placed.bytes_per_us)
    times.measured = {*placed.overhead_us, *placed.bytes_per_us};
  add(times.handover_us, placed.handover_us);
  add(times.speed, placed.bytes_per_us);
  add(times.batch_gain, placed.batch_gain);
  add(times.down_rate, placed.down_rate);
  add(times.up_rate, placed.up_rate);
  add(times.load_rate, placed.load_rate);
  return times;
}

}  // namespace

uint64_t PlacementBook::version(Instant now) const {
  constexpr Duration kMeasuredInterval = Seconds(60);
  return parts_.lifecycle.version() + parts_.members.incarnation().version() +
         parts_.sessions.last_id().value() / kSessionBlock + parts_.measuring.measured_count() +
         static_cast<uint64_t>(now.us / kMeasuredInterval.us);
}

Placement PlacementBook::Take(Instant now) const {
  Placement placement;
  placement.swarm_id = parts_.options.swarm_id;
  placement.incarnation = parts_.members.incarnation().number();
  placement.last_binding = parts_.lifecycle.last_binding();
  placement.last_session =
      SessionId((parts_.sessions.last_id().value() / kSessionBlock + 2) * kSessionBlock);
  const auto add = [&](PlacedDevice device) {
    const bool known =
        std::any_of(placement.devices.begin(), placement.devices.end(),
                    [&](const PlacedDevice& each) { return each.device == device.device; });
    if (!device.device.empty() && !known) placement.devices.push_back(std::move(device));
  };
  // Of two connections of one device the one that serves counts.
  for (const bool used : {true, false})
    for (const auto& [id, worker] : parts_.roster)
      if (worker.ready && parts_.lifecycle.IsUsed(id) == used)
        add(DeviceOf(worker.offer.device_id, *worker.bindings, *worker.memory, worker.times));
  for (const Absence& absence : absences_.all())
    add(DeviceOf(absence.device, absence.bindings, absence.memory, absence.times));
  placement.lifetimes = parts_.planning.lifetimes().Placed(now);
  placement.popularity = parts_.popularity.Placed();
  const SwarmPlan* active = parts_.lifecycle.active();
  if (active == nullptr) return placement;
  for (const PlanStage& stage : active->stages) {
    const bool is_placed = std::any_of(
        placement.devices.begin(), placement.devices.end(), [&](const PlacedDevice& device) {
          return std::any_of(device.bindings.begin(), device.bindings.end(),
                             [&](const Binding& each) { return each.id == stage.binding; });
        });
    placement.stages.push_back(
        {is_placed ? stage.binding : BindingId(), stage.layers(), stage.predicted_us});
  }
  return placement;
}

void PlacementBook::Restore(Instant now) {
  is_restored_ = true;
  parts_.sessions.CountGenerationsFrom(GenerationsAbove(parts_.options.incarnation));
  if (!parts_.options.restored) return;
  const Placement& placement = *parts_.options.restored;
  const Status status = CheckPlacement(placement, parts_.costs.layer_count());
  CHECK(status.ok(), status.ok() ? "" : status.error().message());
  CHECK(placement.swarm_id == parts_.options.swarm_id);
  awaits_until_ = now + parts_.options.timeouts.restart_limit;
  for (const PlacedDevice& device : placement.devices) {
    Absence absence;
    absence.device = device.device;
    absence.bindings = device.bindings;
    for (Binding& binding : absence.bindings) binding.loaded = true;
    absence.memory.weight_factor = device.weight_factor;
    absence.memory.reported_bytes = device.used_bytes;
    absence.times = TimesOf(device.times);
    absence.measured = device.times.overhead_us.has_value();
    absence.until = now + parts_.options.timeouts.resume_limit;
    absences_.Add(std::move(absence));
    if (!device.bindings.empty()) awaited_.insert(device.device);
  }
  SwarmPlan plan;
  for (const PlacedStage& stage : placement.stages) {
    plan.stages.push_back({WorkerId(), stage.layers.first, stage.layers.end, stage.predicted_us,
                           stage.binding, 0, stage.layers.form});
    plan.predicted_us += stage.predicted_us;
  }
  parts_.lifecycle.Restore(std::move(plan),
                           BindingId(placement.last_binding.value() + kUnknownNumbers));
  parts_.sessions.ContinueAfter(SessionId(placement.last_session.value() + kUnknownNumbers));
  if (!awaited_.empty()) parts_.planning.WaitUntil(now + parts_.options.timeouts.restart_limit);
}

void PlacementBook::NoteGone(const Worker& worker, Instant now) {
  absences_.Note(worker, now + parts_.options.timeouts.resume_limit);
}

void PlacementBook::OnConnect(Worker& worker, const wire::pb::Connect& connect, Instant now) {
  Resume(worker, connect, now);
  NoteReturn(worker.offer.device_id);
}

void PlacementBook::Resume(Worker& worker, const wire::pb::Connect& connect, Instant now) {
  const auto absence = absences_.Take(worker.offer.device_id);
  if (!absence) {
    if (connect.held_size() > 0) parts_.outbox.Control(worker.id).mutable_release();
    return;
  }
  parts_.measuring.Resume(worker, absence->times, absence->measured);
  parts_.checks.Resume(worker, absence->check);
  const std::vector<Binding> held = MatchHeld(worker, *absence, connect);
  if (!held.empty()) parts_.lifecycle.Resume(worker, held, absence->memory, now);
  if (!held.empty() && awaited_.contains(worker.offer.device_id))
    parts_.planning.NoteBack(worker.id);
  NoteClaims(worker, connect, held, now);
  EndSessions(worker, connect, held);
  if (held.size() < static_cast<size_t>(connect.held_size())) DropAllBut(worker, held);
}

// Of the bindings that it claims to hold, those that it held when it went.
std::vector<Binding> PlacementBook::MatchHeld(const Worker& worker, const Absence& absence,
                                              const wire::pb::Connect& connect) {
  std::vector<Binding> held;
  for (const wire::pb::HeldBinding& claim : connect.held()) {
    const auto known =
        std::find_if(absence.bindings.begin(), absence.bindings.end(), [&](const Binding& binding) {
          return binding.id.value() == claim.id() && binding.stage == claim.stage() &&
                 binding.layers ==
                     LayerSpan{claim.layers().first(), claim.layers().end(), binding.layers.form};
        });
    if (known == absence.bindings.end() || claim.sessions_size() != claim.positions_size())
      continue;
    held.push_back(*known);
    // Of what it says that it holds, only what it has answered is known to be of these tokens: a
    // frame that went back and was lost with the line has left older ones behind it.
    for (const auto& session : parts_.sessions.sessions()) {
      StageProgress* progress = session->Find(known->id);
      if (progress == nullptr) continue;
      uint32_t positions = 0;
      for (int i = 0; i < claim.sessions_size(); ++i)
        if (claim.sessions(i) == session->id.value()) positions = claim.positions(i);
      // Another leader may have begun with the numbers of this one while it was deposed.
      for (const wire::pb::HeldSession& held_session : claim.claims())
        if (held_session.session() == session->id.value() && held_session.generation() > 0 &&
            !session->Knows(held_session.generation()))
          progress->held = 0;
      progress->worker = worker.id;
      progress->held = std::min(positions, progress->held);
      progress->sent = positions;  // it may have gone beyond what it has answered
      session->RewindStage(*progress, progress->held);
    }
  }
  return held;
}

// A device of before a restart holds sessions of the earlier core, which somebody may want.
void PlacementBook::NoteClaims(const Worker& worker, const wire::pb::Connect& connect,
                               const std::vector<Binding>& held, Instant now) {
  const bool is_of_before = awaited_.contains(worker.offer.device_id);
  for (const wire::pb::HeldBinding& binding : connect.held()) {
    const auto known = std::ranges::find(held, BindingId(binding.id()), &Binding::id);
    if (known == held.end()) continue;
    for (const wire::pb::HeldSession& claim : binding.claims()) {
      const SessionId id(claim.session());
      Session* session = parts_.sessions.Find(id);
      if (!is_of_before && session == nullptr && !parts_.sessions.claims().Has(id)) continue;
      const Claim held_by_it{{known->id, worker.id, known->stage, known->layers},
                             claim.generation(),
                             claim.positions(),
                             {claim.marks().begin(), claim.marks().end()}};
      if (session != nullptr)
        session->AdoptLate(held_by_it);
      else
        parts_.sessions.NoteClaim(id, held_by_it, now + parts_.options.timeouts.resume_limit);
    }
  }
}

// Of what it has kept: sessions that ended while it was away, and those that another start of the
// server gave the same number, where the record of that start was lost. None of the bindings that
// are used again has rows of them.
void PlacementBook::EndSessions(const Worker& worker, const wire::pb::Connect& connect,
                                const std::vector<Binding>& held) {
  const auto is_ours = [&](uint32_t id) {
    Session* session = parts_.sessions.Find(SessionId(id));
    return session != nullptr && std::any_of(held.begin(), held.end(), [&](const Binding& binding) {
             return session->Find(binding.id) != nullptr;
           });
  };
  std::set<uint32_t> ended;
  for (const wire::pb::HeldBinding& claim : connect.held())
    for (const uint32_t session : claim.sessions())
      if (!is_ours(session) && !parts_.sessions.claims().Has(SessionId(session)))
        ended.insert(session);
  if (ended.empty()) return;
  auto& message = *parts_.outbox.Control(worker.id).mutable_invalidate_sessions();
  for (const uint32_t session : ended) message.add_sessions(session);
}

// The rest of what it holds means nothing any more.
void PlacementBook::DropAllBut(const Worker& worker, const std::vector<Binding>& held) {
  auto& message = parts_.outbox.Control(worker.id);
  if (held.empty()) {
    message.mutable_release();
    return;
  }
  for (const Binding& binding : held) {
    auto& range = *message.mutable_retire()->add_keep();
    range.set_first(binding.layers.first);
    range.set_end(binding.layers.end);
    message.mutable_retire()->add_bindings(binding.id.value());
  }
}

// A device of before is here, with or without what it held.
void PlacementBook::NoteReturn(const std::string& device) {
  if (awaited_.erase(device) == 0) return;
  if (awaited_.empty() || parts_.lifecycle.serves()) parts_.planning.StopWaiting();
}

}  // namespace weft::swarm
