// What stands behind a lease on a simulated server: the cell's core while the server leads. A model
// of a leader does so today (model_leader.h); swarm::Core can stand here just as well.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cluster/ids.h"

namespace weft::sim {

// One connection of a worker with a server.
using LineId = uint64_t;

// What the server tells a worker when it becomes its leader.
struct InitMessage {
  cluster::Incarnation incarnation;
  std::vector<cluster::ServerId> successors;
  uint64_t position = 0;  // from which the leader goes on
};
// Work, and a sign of life.
struct StepMessage {
  cluster::Incarnation incarnation;
  uint64_t position = 0;
};

// What a leader may do to its server.
struct LeaderHooks {
  std::function<void(LineId, const InitMessage&)> send_init;
  std::function<void(LineId, const StepMessage&)> send_step;
  std::function<void(LineId)> close;
  std::function<void(uint32_t workers, bool up)> count;
  std::function<void(cluster::Incarnation, uint64_t position)> write;  // fenced
  std::function<std::vector<cluster::ServerId>()> successors;
};

class LedCell {
 public:
  virtual ~LedCell() = default;

  // The lease was taken again.
  virtual void Raise(cluster::Incarnation incarnation) = 0;
  virtual void OnWorker(LineId line, uint64_t held_rows) = 0;
  virtual void OnAnswer(LineId line, uint64_t position) = 0;
  virtual void OnGone(LineId line) = 0;
  // Time passes; called every kLeaderTick of the server's clock, late after a stop of its process.
  virtual void OnTick(bool is_late) = 0;
  // Begins no step until Resume.
  virtual void Hold() = 0;
  virtual void Resume() = 0;
  virtual uint64_t position() const = 0;
  virtual std::vector<LineId> lines() const = 0;
};

}  // namespace weft::sim
