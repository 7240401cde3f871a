#include "swarm/workers/lifetimes.h"

#include <algorithm>

#include "swarm/workers/device.h"

namespace weft::swarm {
Duration Lifetimes::Stayed(const Record& record, Instant now) {
  return record.connections > 0 ? record.stayed + (now - record.since) : record.stayed;
}

void Lifetimes::NoteJoined(const std::string& device, Instant now) {
  Record& record = records_[device];
  if (record.connections++ == 0) record.since = now;
  if (records_.size() <= kMost) return;
  const auto shorter = [](const auto& one, const auto& other) {
    const bool is_away = one.second.connections == 0;
    if (is_away != (other.second.connections == 0)) return is_away;
    return one.second.stayed < other.second.stayed;
  };
  const auto least = std::min_element(records_.begin(), records_.end(), shorter);
  if (least->second.connections == 0) records_.erase(least);
}

void Lifetimes::NoteGone(Record& record, Instant now) {
  if (record.connections == 0) return;
  if (--record.connections == 0) record.stayed = record.stayed + (now - record.since);
}

void Lifetimes::NoteLost(const std::string& device, Instant now) {
  const auto found = records_.find(device);
  if (found == records_.end()) return;
  found->second.losses += 1;
  NoteGone(found->second, now);
}

void Lifetimes::NoteLeft(const std::string& device, Instant now) {
  const auto found = records_.find(device);
  if (found != records_.end()) NoteGone(found->second, now);
}

std::vector<PlacedLifetime> Lifetimes::Placed(Instant now) const {
  std::vector<PlacedLifetime> placed;
  for (const auto& [device, record] : records_)
    placed.push_back({device, record.losses, Stayed(record, now).seconds()});
  std::stable_sort(placed.begin(), placed.end(), [](const auto& one, const auto& other) {
    return one.stayed_s > other.stayed_s;
  });
  if (placed.size() > kPlaced) placed.resize(kPlaced);
  return placed;
}

void Lifetimes::Restore(const std::vector<PlacedLifetime>& placed) {
  constexpr double kCenturyS = 3.2e9;
  for (const PlacedLifetime& each : placed) {
    if (each.device.empty() || !(each.stayed_s >= 0 && each.stayed_s < kCenturyS)) continue;
    Record& record = records_[each.device];
    record.losses += each.losses;
    record.stayed = record.stayed + Microseconds(static_cast<int64_t>(each.stayed_s * 1e6));
  }
}

double Lifetimes::MeanStayS(const std::string& device, Instant now) const {
  const auto found = records_.find(device);
  if (found == records_.end()) return 0;
  return Stayed(found->second, now).seconds() / (static_cast<double>(found->second.losses) + 1);
}

double Lifetimes::LossesPerS(const std::string& device, Instant now) const {
  const auto found = records_.find(device);
  if (found == records_.end()) return kAssumedLossesPerS;
  return (static_cast<double>(found->second.losses) + 1) /
         (Stayed(found->second, now).seconds() + kAssumedStayS);
}

}  // namespace weft::swarm
