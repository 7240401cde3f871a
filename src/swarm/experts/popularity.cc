#include "swarm/experts/popularity.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace weft::swarm {

Popularity::Popularity(const ModelInfo& model, const std::vector<PlacedPopularity>& known)
    : model_(model) {
  for (const ModelLayer& layer : model.layers)
    counts_.emplace_back(layer.is_shared() || layer.experts_per_token == 0 ? 0
                                                                           : layer.expert_count);
  for (const std::vector<double>& counts : counts_) {
    shares_.emplace_back(counts.size(), 1);
    hot_.emplace_back(counts.size(), false);
  }
  const auto is_count = [](float count) { return std::isfinite(count) && count >= 0; };
  for (const PlacedPopularity& each : known)
    if (Has(each.layer) && each.counts.size() == counts_[each.layer].size() &&
        std::ranges::all_of(each.counts, is_count))
      counts_[each.layer].assign(each.counts.begin(), each.counts.end());
  Take(HotNow());  // nobody is placed yet
}

double Popularity::SumOf(uint32_t layer) const {
  return std::accumulate(counts_[layer].begin(), counts_[layer].end(), 0.0);
}

double Popularity::ShareNow(uint32_t layer, uint32_t expert) const {
  const double sum = SumOf(layer);
  const std::vector<double>& counts = counts_[layer];
  return sum > 0 ? counts[expert] * static_cast<double>(counts.size()) / sum : 1;
}

void Popularity::Note(uint32_t layer, std::span<const uint32_t> times) {
  std::vector<double>& counts = counts_.at(layer);
  CHECK(Has(layer) && times.size() <= counts.size());
  const double rows =
      std::accumulate(times.begin(), times.end(), 0.0) / model_.layers[layer].experts_per_token;
  const double kept = std::exp2(-rows / kHalfLifeRows);
  for (double& count : counts) count *= kept;
  for (size_t expert = 0; expert < times.size(); ++expert) counts[expert] += times[expert];
}

Popularity::Flags Popularity::HotNow() const {
  Flags hot = hot_;
  for (uint32_t layer = 0; layer < counts_.size(); ++layer) {
    if (!Has(layer) || SumOf(layer) < kLeastRows * model_.layers[layer].experts_per_token) continue;
    for (uint32_t expert = 0; expert < hot[layer].size(); ++expert)
      hot[layer][expert] = ShareNow(layer, expert) > (hot_[layer][expert] ? kHotUntil : kHotFrom);
  }
  return hot;
}

void Popularity::Take(Flags hot) {
  hot_ = std::move(hot);
  for (uint32_t layer = 0; layer < counts_.size(); ++layer)
    for (uint32_t expert = 0; expert < counts_[layer].size(); ++expert)
      shares_[layer][expert] = ShareNow(layer, expert);
}

bool Popularity::Review(Instant now) {
  if (!reviewed_at_) reviewed_at_ = now;
  if (now - *reviewed_at_ < kInterval) return false;
  reviewed_at_ = now;
  Flags hot = HotNow();
  double changed = 0, all = 0;
  for (uint32_t layer = 0; layer < counts_.size(); ++layer)
    for (size_t expert = 0; expert < counts_[layer].size(); ++expert) {
      all += counts_[layer][expert];
      if (hot[layer][expert] != hot_[layer][expert]) changed += counts_[layer][expert];
    }
  if (changed == 0 || changed < kWorthShare * all) return false;
  Take(std::move(hot));
  return true;
}

std::vector<PlacedPopularity> Popularity::Placed() const {
  std::vector<PlacedPopularity> placed;
  for (uint32_t layer = 0; layer < counts_.size(); ++layer)
    if (Has(layer) && SumOf(layer) > 0)
      placed.push_back({layer, {counts_[layer].begin(), counts_[layer].end()}});
  return placed;
}

}  // namespace weft::swarm
