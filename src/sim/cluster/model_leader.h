// A small model of a cell's leader. It sends every worker one step after another, keeps the
// position that all have computed, and gives up workers that do not answer.
#pragma once

#include <map>

#include "base/clock.h"
#include "sim/cluster/led_cell.h"

namespace weft::sim {

inline constexpr Duration kLeaderTick = Milliseconds(250);

class ModelLeader : public LedCell {
 public:
  // `position`: of the placement that the leader before it wrote.
  ModelLeader(cluster::Incarnation incarnation, uint64_t position, LeaderHooks hooks)
      : incarnation_(incarnation), position_(position), hooks_(std::move(hooks)) {}

  void Raise(cluster::Incarnation incarnation) override { incarnation_ = incarnation; }
  void OnWorker(LineId line, uint64_t held_rows) override;
  void OnAnswer(LineId line, uint64_t position) override;
  void OnGone(LineId line) override;
  void OnTick(bool is_late) override;
  void Hold() override { holds_ = true; }
  void Resume() override { holds_ = false; }
  uint64_t position() const override { return position_; }
  std::vector<LineId> lines() const override;

 private:
  struct Worker {
    uint64_t answered = 0;
    int silent_ticks = 0;
  };

  void Count() { hooks_.count(static_cast<uint32_t>(workers_.size()), !workers_.empty()); }

  cluster::Incarnation incarnation_;
  uint64_t position_;
  LeaderHooks hooks_;
  std::map<LineId, Worker> workers_;
  bool holds_ = false;
  int ticks_ = 0;
};

}  // namespace weft::sim
