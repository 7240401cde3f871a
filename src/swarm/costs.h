// From the model's numbers and a worker's measurements to what the planner reads, and the
// predictions that deadlines are made of. No state besides the options.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/problem.h"
#include "swarm/device.h"
#include "swarm/layer_set.h"
#include "swarm/options.h"
#include "swarm/worker.h"

namespace weft::swarm {

class Costs {
 public:
  explicit Costs(const CoreOptions& options);

  const std::vector<planner::LayerCost>& layers() const { return layers_; }
  uint32_t layer_count() const { return static_cast<uint32_t>(layers_.size()); }
  // Sum of C over [first, end).
  double Cost(uint32_t first, uint32_t end) const;
  // Bytes to download for the layers of [first, end) that are not in `cached`.
  uint64_t MissingBytes(const LayerSet& cached, uint32_t first, uint32_t end) const;

  // Memory that these layers need on a worker: for one range the planner's StageMemoryBytes, for
  // several the same formula over their union.
  uint64_t MemoryBytes(double weight_factor, const LayerSet& held) const;
  uint64_t MemoryBytes(double weight_factor, uint32_t first, uint32_t end) const;

  // As it is known now (device.h).
  planner::WorkerMetrics Metrics(const Worker& worker) const;
  double OverheadUs(const Worker& worker) const;
  double Speed(const Worker& worker) const;      // bytes per us
  double LatencyUs(const Worker& worker) const;  // round trip of a ping
  // What a small step's line takes beyond that, measured or assumed.
  double HandoverUs(const Worker& worker) const;
  LineRates Rates(const Worker& worker) const;
  // SO + C / CS of one row.
  double ComputeUs(const Worker& worker, uint32_t first, uint32_t end) const;
  // Of one row over [first, end), by the planner's formula: SO + C / CS + P + H + I / down + O / up
  // and the server's own work.
  double TokenUs(const Worker& worker, uint32_t first, uint32_t end) const;

  // What a step of `rows` rows over [first, end) is expected to take at most, from sending to the
  // answer: as measured (BatchTimes), until then computed row by row.
  double StepUs(const Worker& worker, uint32_t first, uint32_t end, uint32_t rows) const;
  // One sample of CS_w from a step of one row that took `compute_us`.
  double SpeedSample(const Worker& worker, uint32_t first, uint32_t end, double compute_us) const;

  uint64_t boundary_row_bytes() const { return boundary_row_bytes_; }

 private:
  DeviceNumbers NumbersOf(const Worker& worker) const;

  std::vector<planner::LayerCost> layers_;
  std::vector<double> cost_prefix_;
  std::vector<uint64_t> download_bytes_;
  uint64_t boundary_row_bytes_ = 0;
};

}  // namespace weft::swarm
