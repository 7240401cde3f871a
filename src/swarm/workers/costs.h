// From the model's numbers and a worker's measurements to what the planner reads, and the
// predictions that deadlines are made of. No state besides the options.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "planner/problem.h"
#include "swarm/options.h"
#include "swarm/workers/device.h"
#include "swarm/workers/layer_set.h"
#include "swarm/workers/measurement.h"
#include "swarm/workers/worker.h"

namespace weft::swarm {

class Costs {
 public:
  explicit Costs(const CoreOptions& options);

  // Of whole layers, or of their hub form.
  const std::vector<planner::LayerCost>& layers(LayerForm form = LayerForm::kWhole) const {
    return FormOf(form).layers;
  }
  uint32_t layer_count() const { return static_cast<uint32_t>(layers().size()); }
  // Whether one worker may end, and another begin, in front of this layer.
  bool MayCut(uint32_t layer) const {
    return layer == layer_count() || !layers()[layer].with_previous;
  }
  // Sum of C.
  double Cost(LayerSpan layers) const;
  // Sum of W.
  double WeightBytes(LayerSpan layers) const;
  // Bytes to download for the layers that are not cached in their form.
  uint64_t MissingBytes(const WorkerLayers& cached, LayerSpan layers) const;

  // Memory that these layers need on a worker: for one range the planner's StageMemoryBytes, for
  // several the same formula over their union. Those of `hubs` are held in hub form.
  uint64_t MemoryBytes(double weight_factor, const LayerSet& held, const LayerSet& hubs = {}) const;
  uint64_t MemoryBytes(double weight_factor, LayerSpan layers) const;

  // As it is known now (device.h). `form`: of the plan's layers.
  planner::WorkerMetrics Metrics(const Worker& worker, LayerForm form = LayerForm::kWhole) const;
  DeviceNumbers NumbersOf(const Worker& worker) const;
  double OverheadUs(const Worker& worker) const;
  double Speed(const Worker& worker) const;      // bytes per us
  double LatencyUs(const Worker& worker) const;  // round trip of a ping
  // What a small step's line takes beyond that, measured or assumed.
  double HandoverUs(const Worker& worker) const;
  // From disk into memory, on top of the download; measured or assumed.
  double LoadBytesPerUs(const Worker& worker) const;
  // SO + C / CS of one row.
  double ComputeUs(const Worker& worker, LayerSpan layers) const;
  // Of one row over these layers, by the planner's formula: SO + C / CS + P + H + I / down + O / up
  // and the server's own work.
  double TokenUs(const Worker& worker, LayerSpan layers) const;

  // How often a row waits for experts elsewhere, and for how long, as plans count with it.
  int Exchanges(LayerSpan layers) const;
  double ExchangesUs(const Worker& worker, LayerSpan layers) const;

  // What a step of `rows` rows over these layers is expected to take at most, from sending to the
  // answer: as measured (BatchTimes), until then computed row by row.
  double StepUs(const Worker& worker, LayerSpan layers, uint32_t rows) const;
  // One sample of SO_w and CS_w from a step of one row that took `compute_us`, in the proportion in
  // which they were measured. Example: a GPU that was measured to take 0.7 ms, and
  // 0.03 ms a layer, takes 1.58 ms for six layers and not 0.88. Each part counts 1.8 times. If all
  // of the rest were the layers', a layer would take five times as long as measured, and a device
  // with fewer layers would look slower for as long as it has few.
  StepSpeed SpeedSample(const Worker& worker, LayerSpan layers, double compute_us) const;

  uint64_t boundary_row_bytes() const { return boundary_row_bytes_; }
  // Of a worker, for each row of a step.
  uint64_t scratch_row_bytes() const { return scratch_row_bytes_; }

 private:
  // The layers as a whole, or as hubs.
  struct Form {
    std::vector<planner::LayerCost> layers;
    std::vector<double> cost_prefix = {0};
    std::vector<int> exchange_prefix = {0};
    std::vector<uint64_t> download_bytes;
  };
  const Form& FormOf(LayerForm form) const { return forms_[IsHub(form) ? 1 : 0]; }
  void AddLayer(const CoreOptions& options, const ModelLayer& layer, Form& form) const;

  std::array<Form, 2> forms_;
  uint64_t boundary_row_bytes_ = 0, scratch_row_bytes_ = 0;
};

// What all sessions together take in a layer, each at the full length of its context.
struct SessionMemory {
  uint64_t kv_bytes = 0;
  uint64_t state_bytes = 0;  // of states_of_session states each
};
SessionMemory MemoryOfSessions(const CoreOptions& options, const ModelLayer& layer);
// In a recurrent layer: the state, the next one, which a step writes beside it, and those at marks.
uint32_t StatesOfSession(const CoreOptions& options);

// What the layer is where its experts are elsewhere.
ModelLayer HubForm(const ModelLayer& layer);

}  // namespace weft::swarm
