#include "dispatch/hub_stats.h"

#include <algorithm>

#include "wire/holder_stats.h"

namespace weft::dispatch {
namespace {

constexpr uint64_t HolderStats::*kCounts[] = {
    &HolderStats::calls,       &HolderStats::rows,           &HolderStats::hedges,
    &HolderStats::wins,        &HolderStats::losses,         &HolderStats::won_hedges,
    &HolderStats::lost_hedges, &HolderStats::timeouts,       &HolderStats::bad_answers,
    &HolderStats::sent_bytes,  &HolderStats::received_bytes, &HolderStats::computed_groups,
    &HolderStats::computed_us};

bool IsNothing(const HolderStats& stats) {
  return std::ranges::all_of(kCounts, [&stats](auto count) { return stats.*count == 0; });
}

uint32_t ToldUs(Duration duration) {
  return static_cast<uint32_t>(std::clamp<int64_t>(duration.us, 0, wire::kMostHolderUs));
}

void Fill(uint32_t peer, HolderStats stats, wire::pb::HolderStats::Holder& out) {
  for (const auto count : kCounts) stats.*count = std::min(stats.*count, wire::kMostHolderCount);
  out.set_peer(peer);
  out.set_calls(stats.calls);
  out.set_rows(stats.rows);
  out.set_hedges(stats.hedges);
  out.set_wins(stats.wins);
  out.set_losses(stats.losses);
  out.set_won_hedges(stats.won_hedges);
  out.set_lost_hedges(stats.lost_hedges);
  out.set_timeouts(stats.timeouts);
  out.set_refused(stats.bad_answers);
  out.set_sent_bytes(stats.sent_bytes);
  out.set_received_bytes(stats.received_bytes);
  out.set_computed_groups(stats.computed_groups);
  out.set_computed_us(stats.computed_us);
  out.set_p50_us(ToldUs(stats.p50));
  out.set_slowest_us(ToldUs(stats.slowest));
  out.set_queue_us(ToldUs(stats.queue));
}

}  // namespace

void HubStats::Collect(const Dispatcher& dispatcher) {
  if (interval_.us == 0) return;
  for (const uint32_t holder : dispatcher.HolderIds()) {
    const HolderStats now = *dispatcher.StatsOf(holder);
    HolderStats& seen = seen_[holder];
    HolderStats& untold = untold_[holder];
    for (const auto count : kCounts) untold.*count += now.*count - seen.*count;
    untold.p50 = now.p50;
    untold.slowest = now.slowest;
    untold.queue = now.queue;
    seen = now;
  }
}

void HubStats::DropWhoIsGone(const Dispatcher& dispatcher) {
  std::erase_if(seen_, [&](const auto& each) { return !dispatcher.StatsOf(each.first); });
}

void HubStats::NoteRoutes(uint16_t layer, std::span<const uint32_t> experts) {
  if (interval_.us == 0) return;
  std::vector<uint32_t>& times = routes_[layer];
  for (const uint32_t expert : experts) {
    if (expert >= times.size()) times.resize(expert + 1);
    ++times[expert];
  }
}

std::optional<wire::pb::HolderStats> HubStats::Take(Instant now, const Dispatcher& dispatcher) {
  if (interval_.us == 0 || (told_at_ && now - *told_at_ < interval_)) return std::nullopt;
  Collect(dispatcher);
  wire::pb::HolderStats message;
  for (const auto& [holder, stats] : std::exchange(untold_, {}))
    if (!IsNothing(stats)) Fill(holder, stats, *message.add_holders());
  for (const auto& [layer, times] : std::exchange(routes_, {})) {
    auto& out = *message.add_routes();
    out.set_layer(layer);
    out.mutable_times()->Assign(times.begin(), times.end());
  }
  if (message.holders_size() == 0 && message.routes_size() == 0) return std::nullopt;
  told_at_ = now;
  return message;
}

}  // namespace weft::dispatch
