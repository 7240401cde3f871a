#include "planner/expert_ring.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "base/check.h"

namespace weft::planner {
namespace {

constexpr double kFill = 0.9;            // of all memory, for replicas beyond the first
constexpr uint64_t kMostPoints = 16384;  // of one holder

// The last steps of splitmix64: every bit of the result depends on every bit of the input.
uint64_t Mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15ull;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

uint64_t PointOf(uint32_t holder, uint64_t index) {
  return Mixed(Mixed(uint64_t{holder} << 32 | index) ^ 0x706f696e74ull);
}

uint64_t KeyOf(const PlacedExpert& e) {
  return Mixed(Mixed(uint64_t{e.layer} << 32 | e.expert) + e.replica);
}

class Ring {
 public:
  explicit Ring(const ExpertProblem& problem) : problem_(problem) {
    for (const ExpertLayer& layer : problem.layers) {
      CHECK(layer.bytes_per_expert > 0);
      bytes_ += layer.experts * layer.bytes_per_expert;
      largest_ = std::max(largest_, layer.bytes_per_expert);
    }
    uint64_t most = 0;
    for (const ExpertHolder& holder : problem.holders) {
      memory_ += holder.memory_bytes;
      most = std::max(most, largest_ == 0 ? 0 : holder.memory_bytes / largest_);
    }
    // A power of two, so that it stays the same for most changes of the largest offer.
    uint64_t experts_per_point = 1;
    while (most / experts_per_point > kMostPoints) experts_per_point *= 2;
    for (size_t h = 0; h < problem.holders.size(); ++h) {
      const ExpertHolder& holder = problem.holders[h];
      placement_.holders.push_back({holder.id, 0, {}});
      if (largest_ == 0) continue;
      const uint64_t count = holder.memory_bytes / largest_ / experts_per_point;
      for (uint64_t i = 0; i < count; ++i) points_.emplace_back(PointOf(holder.id, i), h);
    }
    std::sort(points_.begin(), points_.end());
    held_.resize(problem.holders.size());
  }

  ExpertPlacement Place() {
    placement_.replicas = Replicas();
    hot_ = HotExperts();
    PlaceAtHubs();
    for (uint32_t replica = 0; replica < placement_.replicas; ++replica) PlaceAll(replica);
    PlaceHot();
    return std::move(placement_);
  }

 private:
  uint32_t Replicas() const {
    if (problem_.replicas != 0) return problem_.replicas;
    if (bytes_ == 0) return 1;
    const auto fitting =
        static_cast<uint64_t>(kFill * static_cast<double>(memory_) / static_cast<double>(bytes_));
    const uint64_t most = std::min<uint64_t>(problem_.max_replicas, problem_.holders.size());
    return static_cast<uint32_t>(std::max<uint64_t>(1, std::min(fitting, most)));
  }

  struct Hot {
    double share = 0;  // times the layer's mean
    size_t layer = 0;  // its place in the problem
    uint32_t expert = 0;
  };
  // The most popular first.
  std::vector<Hot> HotExperts() const {
    std::vector<Hot> hot;
    for (size_t l = 0; l < problem_.popularity.size(); ++l) {
      const std::vector<double>& counts = problem_.popularity[l];
      CHECK(counts.size() == problem_.layers[l].experts);
      CHECK(problem_.hot[l].size() == counts.size());
      double sum = 0;
      for (const double count : counts) sum += count;
      for (uint32_t expert = 0; expert < counts.size(); ++expert)
        if (problem_.hot[l][expert])
          hot.push_back(
              {sum > 0 ? counts[expert] * static_cast<double>(counts.size()) / sum : 0, l, expert});
    }
    std::ranges::stable_sort(hot, std::greater(), &Hot::share);
    return hot;
  }

  void PlaceAtHubs() {
    for (size_t h = 0; h < problem_.holders.size(); ++h) {
      const std::vector<LayerRange>& own = problem_.holders[h].hub_layers;
      if (own.empty()) continue;
      for (const Hot& hot : hot_) {
        const uint32_t layer = problem_.layers[hot.layer].layer;
        const auto covers = [layer](LayerRange range) { return range.Covers(layer); };
        if (std::ranges::none_of(own, covers) || at_hubs_.contains({hot.layer, hot.expert}))
          continue;
        if (PutAt(h, hot.layer, {layer, hot.expert, 0})) at_hubs_.insert({hot.layer, hot.expert});
      }
    }
  }

  // In the order of the keys: where holders are full, who comes first depends on nothing but them.
  void PlaceAll(uint32_t replica) {
    std::vector<std::pair<uint64_t, std::pair<size_t, uint32_t>>> keys;
    for (size_t l = 0; l < problem_.layers.size(); ++l) {
      for (uint32_t expert = 0; expert < problem_.layers[l].experts; ++expert)
        keys.push_back({KeyOf({problem_.layers[l].layer, expert, replica}), {l, expert}});
    }
    std::sort(keys.begin(), keys.end());
    for (const auto& [key, at] : keys) {
      if (replica == 0 && at_hubs_.contains(at)) continue;
      if (!Put(at.first, at.second, replica) && replica == 0)
        placement_.unplaced.push_back({problem_.layers[at.first].layer, at.second, 0});
    }
  }

  void PlaceHot() {
    if (placement_.replicas >= problem_.max_replicas) return;
    for (const Hot& hot : hot_) {
      if (static_cast<double>(used_) > kFill * static_cast<double>(memory_)) return;
      (void)Put(hot.layer, hot.expert, placement_.replicas);
    }
  }

  bool Put(size_t l, uint32_t expert, uint32_t replica) {
    if (points_.empty()) return false;
    const ExpertLayer& layer = problem_.layers[l];
    const PlacedExpert placed{layer.layer, expert, replica};
    const auto first =
        std::lower_bound(points_.begin(), points_.end(), std::pair(KeyOf(placed), size_t{0}));
    const auto from = static_cast<size_t>(first - points_.begin());
    for (size_t i = 0; i < points_.size(); ++i) {
      const size_t h = points_[(from + i) % points_.size()].second;
      if (PutAt(h, l, placed)) return true;
    }
    return false;
  }

  bool PutAt(size_t h, size_t l, const PlacedExpert& placed) {
    const uint64_t bytes = problem_.layers[l].bytes_per_expert;
    HolderExperts& holder = placement_.holders[h];
    if (holder.used_bytes + bytes > problem_.holders[h].memory_bytes) return false;
    if (!held_[h].insert({placed.layer, placed.expert}).second) return false;
    holder.used_bytes += bytes;
    used_ += bytes;
    holder.experts.push_back(placed);
    return true;
  }

  const ExpertProblem& problem_;
  uint64_t bytes_ = 0, largest_ = 0, memory_ = 0, used_ = 0;
  std::vector<Hot> hot_;                                       // the most popular first
  std::vector<std::pair<uint64_t, size_t>> points_;            // place on the ring, holder
  std::vector<std::set<std::pair<uint32_t, uint32_t>>> held_;  // of each holder: layer, expert
  std::set<std::pair<size_t, uint32_t>> at_hubs_;              // place of the layer, expert
  ExpertPlacement placement_;
};

}  // namespace

ExpertPlacement PlaceExperts(const ExpertProblem& problem) {
  return Ring(problem).Place();
}

}  // namespace weft::planner
