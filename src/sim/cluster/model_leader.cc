#include "sim/cluster/model_leader.h"

#include <algorithm>

namespace weft::sim {
namespace {

constexpr int kMostSilentTicks = 6;     // 1.5 s
constexpr int kTicksBetweenWrites = 4;  // a placement a second

}  // namespace

// Rows that the worker holds beyond the placement are known to be right: it computed them for a
// leader whose incarnation was its highest.
void ModelLeader::OnWorker(LineId line, uint64_t held_rows) {
  position_ = std::max(position_, held_rows);
  workers_[line] = Worker{position_, 0};
  hooks_.send_init(line, {incarnation_, hooks_.successors(), position_});
  Count();
}

void ModelLeader::OnAnswer(LineId line, uint64_t position) {
  const auto found = workers_.find(line);
  if (found == workers_.end()) return;
  found->second.answered = position;
  found->second.silent_ticks = 0;
}

void ModelLeader::OnGone(LineId line) {
  if (workers_.erase(line) > 0) Count();
}

void ModelLeader::OnTick(bool is_late) {
  std::vector<LineId> lost;
  for (auto& [line, worker] : workers_) {
    worker.silent_ticks = is_late ? 0 : worker.silent_ticks + 1;
    if (worker.silent_ticks > kMostSilentTicks) lost.push_back(line);
  }
  for (const LineId line : lost) {
    OnGone(line);
    hooks_.close(line);
  }
  const bool all_answered = std::ranges::all_of(
      workers_, [this](const auto& entry) { return entry.second.answered >= position_; });
  if (!holds_ && all_answered && !workers_.empty()) ++position_;
  for (const auto& [line, worker] : workers_) hooks_.send_step(line, {incarnation_, position_});
  if (++ticks_ % kTicksBetweenWrites == 0) hooks_.write(incarnation_, position_);
}

std::vector<LineId> ModelLeader::lines() const {
  std::vector<LineId> lines;
  for (const auto& [line, worker] : workers_) lines.push_back(line);
  return lines;
}

}  // namespace weft::sim
