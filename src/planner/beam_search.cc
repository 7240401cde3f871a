#include "planner/beam_search.h"

#include <algorithm>

#include "base/check.h"

namespace weft::planner {
namespace {

bool Uses(const std::array<uint64_t, kMaxBeamWorkers / 64>& used, int worker) {
  return (used[static_cast<size_t>(worker) / 64] >> (worker % 64)) & 1;
}

}  // namespace

BeamSearch::BeamSearch(const StageTable& table, const Reachability& reachability,
                       const PricePath& path, double bound, double init_floor,
                       const BeamLimits& limits)
    : table_(table),
      reachability_(reachability),
      path_(path),
      bound_(bound),
      init_floor_(init_floor),
      limits_(limits),
      twins_(EarlierTwins(table)),
      ways_(static_cast<size_t>(table.layer_count) + 1) {
  CHECK(table.worker_count <= kMaxBeamWorkers);
}

// Stages that may begin at `layer`, the least excess first.
std::vector<BeamSearch::Step> BeamSearch::StepsFrom(int layer) const {
  std::vector<Step> steps;
  const double slack = limit_ - bound_ - table_.alpha * init_floor_;
  for (int worker = 0; worker < table_.worker_count; ++worker) {
    for (int end = layer + 1; end <= reachability_.Furthest(worker, layer); ++end) {
      const double excess = path_.Excess({worker, layer, end});
      if (excess < slack) steps.push_back({excess, worker, end});
    }
  }
  std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) {
    if (a.excess != b.excess) return a.excess < b.excess;
    return a.worker != b.worker ? a.worker < b.worker : a.end < b.end;
  });
  return steps;
}

// Leaves the best ways of a layer, without those that another one beats with no worker more.
void BeamSearch::Thin(int layer) {
  std::vector<Way>& ways = ways_[static_cast<size_t>(layer)];
  std::stable_sort(ways.begin(), ways.end(),
                   [this](const Way& a, const Way& b) { return Total(a) < Total(b); });
  const auto beats = [](const Way& a, const Way& b) {
    if (a.sum > b.sum || a.init_max > b.init_max) return false;
    for (size_t k = 0; k < a.used.size(); ++k) {
      if (a.used[k] & ~b.used[k]) return false;
    }
    return true;
  };
  size_t kept = 0;
  for (size_t i = 0; i < ways.size(); ++i) {
    if (Total(ways[i]) >= limit_) break;
    if (kept == static_cast<size_t>(limits_.width)) {
      result_.complete = false;
      break;
    }
    const auto end = ways.begin() + static_cast<std::ptrdiff_t>(kept);
    const bool beaten =
        std::any_of(ways.begin(), end, [&](const Way& other) { return beats(other, ways[i]); });
    result_.work += static_cast<double>(kept) / 4;
    if (!beaten) ways[kept++] = ways[i];
  }
  ways.resize(kept);
}

void BeamSearch::Extend(int layer, int index, const std::vector<Step>& steps) {
  const size_t most = static_cast<size_t>(limits_.width) * 8;
  const Way from = ways_[static_cast<size_t>(layer)][static_cast<size_t>(index)];
  for (const Step& step : steps) {
    if (Total(from) + step.excess >= limit_) break;
    result_.work += 1;
    if (Uses(from.used, step.worker)) continue;
    const int twin = twins_[static_cast<size_t>(step.worker)];
    if (twin != kNoWorker && !Uses(from.used, twin)) continue;
    const size_t at = table_.At(step.worker, layer, step.end);
    Way way = from;
    way.sum += table_.sum[at];
    way.init_max = std::max(way.init_max, table_.init[at]);
    way.excess += step.excess;
    way.worker = step.worker;
    way.first = layer;
    way.before = index;
    way.used[static_cast<size_t>(step.worker) / 64] |= uint64_t{1} << (step.worker % 64);
    if (Total(way) >= limit_) continue;
    std::vector<Way>& to = ways_[static_cast<size_t>(step.end)];
    if (step.end == table_.layer_count) {
      const double total = way.sum + table_.alpha * way.init_max;
      if (total >= limit_) continue;
      limit_ = total;
      best_ = static_cast<int>(to.size());
    }
    to.push_back(way);
    if (step.end < table_.layer_count && to.size() > most) Thin(step.end);
  }
}

BeamResult BeamSearch::Run(double limit) {
  limit_ = limit;
  result_.complete = true;
  for (std::vector<Way>& ways : ways_) ways.clear();
  best_ = -1;
  ways_[0].push_back({});
  for (int layer = 0; layer < table_.layer_count; ++layer) {
    Thin(layer);
    const int count = static_cast<int>(ways_[static_cast<size_t>(layer)].size());
    if (count == 0) continue;
    if (result_.work > limits_.work) {
      result_.complete = false;
      break;
    }
    const std::vector<Step> steps = StepsFrom(layer);
    result_.work += static_cast<double>(table_.worker_count * (table_.layer_count - layer)) / 2;
    for (int index = 0; index < count; ++index) Extend(layer, index, steps);
  }
  if (best_ >= 0) result_.stages = Trace(best_);
  return result_;
}

std::vector<StageChoice> BeamSearch::Trace(int index) const {
  std::vector<StageChoice> stages;
  int end = table_.layer_count;
  while (end > 0) {
    const Way& way = ways_[static_cast<size_t>(end)][static_cast<size_t>(index)];
    stages.push_back({way.worker, way.first, end});
    end = way.first;
    index = way.before;
  }
  std::reverse(stages.begin(), stages.end());
  return stages;
}

}  // namespace weft::planner
