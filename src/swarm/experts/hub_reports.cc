#include "swarm/experts/hub_reports.h"

#include <algorithm>
#include <cmath>

#include "swarm/experts/exchange_costs.h"
#include "wire/datagram.h"
#include "wire/group_sums.h"
#include "wire/holder_stats.h"

namespace weft::swarm {
namespace {

using Told = wire::pb::HolderStats::Holder;

// Of numbers that hold for whatever a dispatcher counts, the first that does not; nullptr: all do.
const char* WrongIn(const Told& told) {
  for (const uint64_t count :
       {told.calls(), told.rows(), told.wins(), told.losses(), told.timeouts(), told.refused(),
        told.sent_bytes(), told.received_bytes(), told.computed_groups(), told.computed_us()})
    if (count > wire::kMostHolderCount) return "a count beyond 2^40";
  if (told.hedges() > told.calls()) return "more hedges than calls";
  if (told.won_hedges() > told.wins()) return "more hedges won than calls";
  if (told.lost_hedges() > told.losses()) return "more hedges lost than calls";
  if (std::max({told.p50_us(), told.slowest_us(), told.queue_us()}) > wire::kMostHolderUs)
    return "a time beyond a minute";
  if (told.p50_us() > told.slowest_us()) return "a median beyond the slowest";
  return nullptr;
}

void Add(const Told& told, HolderCounts& counts) {
  counts.calls += told.calls();
  counts.rows += told.rows();
  counts.hedges += told.hedges();
  counts.wins += told.wins();
  counts.losses += told.losses();
  counts.won_hedges += told.won_hedges();
  counts.lost_hedges += told.lost_hedges();
  counts.timeouts += told.timeouts();
  counts.refused += told.refused();
  counts.sent_bytes += told.sent_bytes();
  counts.received_bytes += told.received_bytes();
}

bool IsShare(double share) {
  return share >= 0 && share <= 1;  // not where it is no number
}

}  // namespace

void HubReports::NoteSpeed(const Told& told, WorkerTimes& times) const {
  const auto groups = static_cast<double>(told.computed_groups());
  const double bytes = groups * static_cast<double>(GroupBytes(options_.model));
  if (bytes > 0 && told.computed_us() > 0)
    times.group_speed.Add(bytes / static_cast<double>(told.computed_us()));
}

// Layers by rising number, experts that they have.
Status HubReports::CheckRoutes(const wire::pb::HolderStats& stats) const {
  std::optional<uint32_t> last;
  for (const auto& routes : stats.routes()) {
    if (last && routes.layer() <= *last)
      return Error(ErrorCode::kInvalidData,
                   "HolderStats do not name layers of routes by rising number.");
    last = routes.layer();
    if (routes.layer() >= costs_.layer_count() ||
        routes.times_size() > static_cast<int>(options_.model.layers[routes.layer()].expert_count))
      return Error(ErrorCode::kInvalidData,
                   "HolderStats tell of routes to " + std::to_string(routes.times_size()) +
                       " experts of layer " + std::to_string(routes.layer()) +
                       ", expected no more than it has.");
  }
  return OkStatus();
}

// A message may be under way when a holder goes, or when the hub becomes none: of those it is
// passed over.
Status HubReports::OnHolderStats(const Worker& hub, const wire::pb::HolderStats& stats,
                                 Instant now) {
  const auto wrong = [](const std::string& what) {
    return Error(ErrorCode::kInvalidData, "HolderStats " + what + ".");
  };
  if (!hub.experts->was_hub) return wrong("came from a worker that never was a hub");
  if (stats.holders_size() > static_cast<int>(options_.worker_limit))
    return wrong("names " + std::to_string(stats.holders_size()) + " holders, expected at most " +
                 std::to_string(options_.worker_limit));
  uint32_t last = 0;
  for (const Told& told : stats.holders()) {
    if (told.peer() <= last) return wrong("does not name holders by rising number");
    last = told.peer();
    if (const char* what = WrongIn(told))
      return wrong("gives " + std::string(what) + " of holder " + std::to_string(told.peer()));
  }
  TRY(CheckRoutes(stats));
  for (const auto& routes : stats.routes())
    if (popularity_.Has(routes.layer()))
      popularity_.Note(routes.layer(),
                       {routes.times().data(), static_cast<size_t>(routes.times_size())});
  if (popularity_.Review(now)) changes_.Note({.experts = true});
  for (const Told& told : stats.holders()) {
    Worker* holder = roster_.Find(WorkerId(told.peer()));
    if (holder == nullptr || !holder->holding->was_holder) continue;
    Add(told, holder->reports.edit().counts);
    NoteSpeed(told, holder->times);
    holder->reports.edit().times[hub.id] = {told.p50_us() * 1e-3, told.slowest_us() * 1e-3,
                                            told.queue_us() * 1e-3};
  }
  changes_.Note({.view = true});
  return OkStatus();
}

Status HubReports::OnLossReport(Worker& hub, const wire::pb::LossReport& report) {
  const bool shares = std::all_of(report.lines().begin(), report.lines().end(),
                                  [](const auto& line) { return IsShare(line.loss()); });
  if (!options_.loss_limit || !hub.experts->was_hub || !shares || !IsShare(report.share()) ||
      !IsShare(report.fell_at()) || report.lines_size() > static_cast<int>(options_.worker_limit) ||
      !std::isfinite(report.drift()) || report.drift() < 0 ||
      report.dropped_size() != static_cast<int>(wire::kDatagramFaults) ||
      report.fragments_size() != static_cast<int>(wire::kSumsOutcomes))
    return Error(ErrorCode::kInvalidData, "A LossReport came that is none.");
  hub.reports.edit().losses = report;
  changes_.Note({.view = true});
  return OkStatus();
}

void HubReports::ForgetTimesOf(WorkerId hub) {
  for (auto& [id, worker] : roster_) worker.reports.edit().times.erase(hub);
}

}  // namespace weft::swarm
