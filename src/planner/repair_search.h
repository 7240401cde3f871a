// The exact search for whoever fills a hole soonest.
//
// A choice of stages stands still for
//
//   max of load_us + sum of replay_us over the stages up to the last one that lacks rows
//
// since stages load at once, and rows pass them one after the other: a stage that lacks keys and
// values needs the outputs of every stage before it. Stages behind the last such stage replay
// nothing. So a choice is built from its end. A label (load, replay, exec) for layers [i, n) held
// by a set of candidates becomes one for [x, n) by a stage [x, i) of another candidate. That stage
// replays if it lacks rows or some stage behind it does. Of two labels for the same layers, set and
// need of rows, one that is no better in any number can be dropped. The rest is exact.
//
// The first pass finds the least downtime, the second the least time per token within its limit.
#pragma once

#include <optional>
#include <vector>

#include "planner/repair_table.h"

namespace weft::planner {

struct RepairStageChoice {
  int row, first, end;
};

struct RepairChoice {
  std::vector<RepairStageChoice> stages;
  double load_us = 0, replay_us = 0, exec_us = 0;
  double downtime_us() const { return load_us + replay_us; }
};

// Over all candidates of the table, by sets of them: O(2^m m n^2) labels times those that are kept
// of a state. REQUIRES: at most 16 candidates.
class RepairSearch {
 public:
  explicit RepairSearch(const RepairTable& table);

  std::optional<RepairChoice> LeastDowntime() { return Run(kInfinity, false); }
  // Least exec within `limit_us` of downtime.
  std::optional<RepairChoice> LeastExec(double limit_us) { return Run(limit_us, true); }
  // The last pass was not cut short.
  bool complete() const { return labels_seen_ <= kMaxLabels; }

 private:
  static constexpr uint64_t kMaxLabels = 5'000'000;
  struct Label {
    double load_us = 0, replay_us = 0, exec_us = 0;
    int row = kNoWorker, end = 0;  // the first stage of its choice
    bool rest_needs_rows = false;  // the state behind that stage...
    size_t rest = 0;               // ...and the label in it
  };
  size_t State(size_t set, int layer, bool needs_rows) const {
    return (set * (static_cast<size_t>(n_) + 1) + static_cast<size_t>(layer)) * 2 +
           (needs_rows ? 1 : 0);
  }
  static bool IsDominated(const Label& label, const Label& by, bool with_exec);
  void ComputeBounds();
  std::optional<RepairChoice> Run(double limit_us, bool with_exec);
  void Extend(size_t set, int layer, bool needs_rows);
  void Add(size_t state, int layer, bool needs_rows, const Label& label);
  RepairChoice Trace(size_t set, bool needs_rows, size_t index) const;

  const RepairTable& table_;
  const int n_, m_;
  const size_t sets_;
  // Of holding [0, i), if every candidate could be used again: never more than what it takes.
  std::vector<double> load_before_, replay_before_[2], exec_before_;
  std::vector<std::vector<Label>> labels_;  // [set][layer][needs_rows]
  bool with_exec_ = false;
  double limit_us_ = kInfinity;  // of downtime; without exec that of the best complete choice
  double exec_limit_us_ = kInfinity;
  uint64_t labels_seen_ = 0;
};

}  // namespace weft::planner
