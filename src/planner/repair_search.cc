#include "planner/repair_search.h"

#include <algorithm>

#include "base/check.h"

namespace weft::planner {
namespace {

size_t Index(int i) {
  return static_cast<size_t>(i);
}

}  // namespace

RepairSearch::RepairSearch(const RepairTable& table)
    : table_(table), n_(table.layer_count()), m_(table.candidate_count()), sets_(size_t{1} << m_) {
  CHECK(m_ <= 16);
  ComputeBounds();
}

bool RepairSearch::IsDominated(const Label& label, const Label& by, bool with_exec) {
  return by.load_us <= label.load_us && by.replay_us <= label.replay_us &&
         (!with_exec || by.exec_us <= label.exec_us);
}

void RepairSearch::ComputeBounds() {
  for (auto* bound : {&load_before_, &replay_before_[0], &replay_before_[1], &exec_before_}) {
    bound->assign(Index(n_) + 1, kInfinity);
    bound->front() = 0;
  }
  for (int first = 0; first < n_; ++first) {
    for (int row = 0; row < m_; ++row) {
      for (int end = first + 1; end <= table_.reachability().Furthest(row, first); ++end) {
        const RepairStage& stage = table_.At(row, first, end);
        const auto lower = [](double& bound, double value) { bound = std::min(bound, value); };
        lower(load_before_[Index(end)], std::max(load_before_[Index(first)], stage.load_us));
        lower(exec_before_[Index(end)], exec_before_[Index(first)] + stage.exec_us);
        const double replayed = replay_before_[1][Index(first)] + stage.replay_us;
        lower(replay_before_[1][Index(end)], replayed);
        lower(replay_before_[0][Index(end)],
              stage.ready ? replay_before_[0][Index(first)] : replayed);
      }
    }
  }
}

void RepairSearch::Add(size_t state, int layer, bool needs_rows, const Label& label) {
  const double downtime_us = std::max(label.load_us, load_before_[Index(layer)]) + label.replay_us +
                             replay_before_[needs_rows ? 1 : 0][Index(layer)];
  const double exec_us = label.exec_us + exec_before_[Index(layer)];
  if (with_exec_ ? downtime_us > limit_us_ || exec_us >= exec_limit_us_
                 : downtime_us >= limit_us_) {
    return;
  }
  std::vector<Label>& labels = labels_[state];
  for (const Label& other : labels) {
    if (IsDominated(label, other, with_exec_)) return;
  }
  std::erase_if(labels, [&](const Label& other) { return IsDominated(other, label, with_exec_); });
  labels.push_back(label);
  if (layer > 0) return;
  if (with_exec_) {
    exec_limit_us_ = exec_us;
  } else {
    limit_us_ = downtime_us;
  }
}

// Every stage that may come before the labels of a state.
void RepairSearch::Extend(size_t set, int layer, bool needs_rows) {
  const size_t count = labels_[State(set, layer, needs_rows)].size();
  if (count == 0) return;
  for (int row = 0; row < m_; ++row) {
    const size_t bit = size_t{1} << row;
    if (set & bit) continue;
    for (int first = layer - 1; first >= table_.reachability().Lowest(row, layer); --first) {
      const RepairStage& stage = table_.At(row, first, layer);
      const bool replays = needs_rows || !stage.ready;
      for (size_t i = 0; i < count; ++i) {
        Label label = labels_[State(set, layer, needs_rows)][i];
        label.load_us = std::max(label.load_us, stage.load_us);
        if (replays) label.replay_us += stage.replay_us;
        label.exec_us += stage.exec_us;
        label.row = row;
        label.end = layer;
        label.rest_needs_rows = needs_rows;
        label.rest = i;
        ++labels_seen_;
        Add(State(set | bit, first, replays), first, replays, label);
      }
    }
  }
}

RepairChoice RepairSearch::Trace(size_t set, bool needs_rows, size_t index) const {
  const Label* label = &labels_[State(set, 0, needs_rows)][index];
  RepairChoice result{{}, label->load_us, label->replay_us, label->exec_us};
  for (int first = 0; first < n_;) {
    result.stages.push_back({label->row, first, label->end});
    first = label->end;
    set ^= size_t{1} << label->row;
    if (first < n_) label = &labels_[State(set, first, label->rest_needs_rows)][label->rest];
  }
  return result;
}

std::optional<RepairChoice> RepairSearch::Run(double limit_us, bool with_exec) {
  with_exec_ = with_exec;
  limit_us_ = limit_us;
  exec_limit_us_ = kInfinity;
  labels_seen_ = 0;
  labels_.assign(sets_ * (Index(n_) + 1) * 2, {});
  labels_[State(0, n_, false)].push_back({});
  // A set with one more candidate is a larger number: all labels of a set are there in its turn,
  // and none of those that are extended is dropped later.
  for (size_t set = 0; set < sets_ && labels_seen_ <= kMaxLabels; ++set) {
    for (int layer = n_; layer > 0; --layer) {
      Extend(set, layer, false);
      Extend(set, layer, true);
    }
  }
  std::optional<RepairChoice> best;
  const auto value = [&](const auto& of) {
    return with_exec ? of.exec_us : of.load_us + of.replay_us;
  };
  for (size_t set = 1; set < sets_; ++set) {
    for (const bool needs_rows : {false, true}) {
      const std::vector<Label>& labels = labels_[State(set, 0, needs_rows)];
      for (size_t i = 0; i < labels.size(); ++i) {
        if (!best || value(labels[i]) < value(*best)) best = Trace(set, needs_rows, i);
      }
    }
  }
  return best;
}

}  // namespace weft::planner
