#include "swarm/costs.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "planner/cost_model.h"

namespace weft::swarm {
namespace {

// C_i counts the keys and values that attention reads at this position: a chat of some hundred
// tokens.
constexpr uint32_t kNominalPosition = 512;
// Working rows of f32 that an engine holds per row of a chunk: residual, normed, q, k, v, gate, up,
// and spares.
constexpr uint64_t kScratchRows = 32;

}  // namespace

Costs::Costs(const CoreOptions& options) {
  const ModelInfo& model = options.model;
  CHECK(model.layers.size() >= 2, "a model has at least an embedding and a head");
  boundary_row_bytes_ =
      model.hidden_columns * static_cast<uint64_t>(ElementBytes(model.boundary_dtype));
  const uint64_t position = std::min(options.context_length / 2, kNominalPosition);
  const uint64_t kv_positions = uint64_t{options.context_length} * options.session_count;
  const uint64_t frame_bytes = wire::kHeaderBytes + wire::kRunBytes;
  const size_t count = model.layers.size();
  cost_prefix_.push_back(0);
  for (size_t i = 0; i < count; ++i) {
    const ModelLayer& layer = model.layers[i];
    planner::LayerCost cost;
    cost.compute_cost =
        static_cast<double>(layer.read_bytes_per_token + layer.kv_bytes_per_position * position);
    cost.weight_bytes = layer.weight_bytes;
    cost.kv_bytes = layer.kv_bytes_per_position * kv_positions;
    cost.scratch_bytes =
        uint64_t{options.prefill_chunk_rows} * model.hidden_columns * sizeof(float) * kScratchRows;
    if (i + 1 == count) cost.scratch_bytes += uint64_t{model.vocabulary} * sizeof(float);
    cost.input_bytes = frame_bytes + (i == 0 ? sizeof(int32_t) : boundary_row_bytes_);
    cost.output_bytes = frame_bytes + (i + 1 == count ? 12 : boundary_row_bytes_);
    cost.tied_to = layer.tied_to;
    cost.tied_bytes = layer.tied_bytes;
    layers_.push_back(cost);
    cost_prefix_.push_back(cost_prefix_.back() + cost.compute_cost);
    download_bytes_.push_back(layer.download_bytes);
  }
}

double Costs::Cost(uint32_t first, uint32_t end) const {
  return cost_prefix_[end] - cost_prefix_[first];
}

uint64_t Costs::MissingBytes(const LayerSet& cached, uint32_t first, uint32_t end) const {
  uint64_t bytes = 0;
  for (uint32_t i = first; i < end; ++i)
    if (!cached.Has(i)) bytes += download_bytes_[i];
  return bytes;
}

uint64_t Costs::MemoryBytes(double weight_factor, uint32_t first, uint32_t end) const {
  return planner::StageMemoryBytes(layers_, weight_factor, static_cast<int>(first),
                                   static_cast<int>(end));
}

uint64_t Costs::MemoryBytes(double weight_factor, const LayerSet& held) const {
  const auto ranges = held.Ranges();
  if (ranges.empty()) return 0;
  if (ranges.size() == 1) return MemoryBytes(weight_factor, ranges[0].first, ranges[0].second);
  double weight_bytes = 0;
  uint64_t kv_bytes = 0, scratch_bytes = 0;
  for (uint32_t i = 0; i < layer_count(); ++i) {
    if (!held.Has(i)) continue;
    const planner::LayerCost& layer = layers_[i];
    weight_bytes += static_cast<double>(layer.weight_bytes);
    if (layer.tied_to >= 0 && held.Has(static_cast<size_t>(layer.tied_to)))
      weight_bytes -= static_cast<double>(layer.tied_bytes);
    kv_bytes += layer.kv_bytes;
    scratch_bytes = std::max(scratch_bytes, layer.scratch_bytes);
  }
  return static_cast<uint64_t>(std::ceil(weight_bytes * weight_factor)) + kv_bytes + scratch_bytes;
}

DeviceNumbers Costs::NumbersOf(const Worker& worker) const {
  DeviceNumbers device;
  device.native = worker.offer.kind == "native";
  device.needs_onnx = worker.offer.needs_onnx;
  device.memory_bytes = worker.memory.limit;
  device.weight_factor = worker.memory.weight_factor;
  const LineRates rates = Rates(worker);
  device.download_bytes_per_s = rates.down * 1e6;
  device.upload_bytes_per_s = rates.up * 1e6;
  device.overhead_us = worker.times.overhead_us;
  device.bytes_per_us = worker.times.speed.Median();
  device.latency_us = worker.times.latency_us.Median();
  device.handover_us = worker.times.handover_us.Median();
  device.batch_gain = worker.times.batch_gain.Median();
  device.load_bytes_per_us = worker.times.load_rate.Median();
  return device;
}

double Costs::OverheadUs(const Worker& worker) const {
  return swarm::OverheadUs(NumbersOf(worker));
}

double Costs::Speed(const Worker& worker) const {
  return BytesPerUs(NumbersOf(worker));
}

double Costs::LatencyUs(const Worker& worker) const {
  return swarm::LatencyUs(NumbersOf(worker));
}

planner::WorkerMetrics Costs::Metrics(const Worker& worker) const {
  DeviceNumbers device = NumbersOf(worker);
  device.name = worker.offer.name;
  device.cached_layers = worker.layers.cached.bits();
  return MetricsOf(device);
}

double Costs::HandoverUs(const Worker& worker) const {
  const DeviceNumbers device = NumbersOf(worker);
  return StepLatencyUs(device) - swarm::LatencyUs(device);
}

// What the device has said of its line counts until its steps tell.
LineRates Costs::Rates(const Worker& worker) const {
  return {worker.times.down_rate.Median().value_or(worker.offer.download_bytes_per_s * 1e-6),
          worker.times.up_rate.Median().value_or(worker.offer.upload_bytes_per_s * 1e-6)};
}

double Costs::ComputeUs(const Worker& worker, uint32_t first, uint32_t end) const {
  return OverheadUs(worker) + Cost(first, end) / Speed(worker);
}

double Costs::TokenUs(const Worker& worker, uint32_t first, uint32_t end) const {
  // Asked for every token: the numbers are gathered once.
  const DeviceNumbers device = NumbersOf(worker);
  return kServerStepUs + swarm::OverheadUs(device) + Cost(first, end) / BytesPerUs(device) +
         StepLatencyUs(device) +
         static_cast<double>(layers_[first].input_bytes) / (device.download_bytes_per_s * 1e-6) +
         static_cast<double>(layers_[end - 1].output_bytes) / (device.upload_bytes_per_s * 1e-6);
}

double Costs::StepUs(const Worker& worker, uint32_t first, uint32_t end, uint32_t rows) const {
  const planner::LayerCost& input = layers_[first];
  const planner::LayerCost& output = layers_[end - 1];
  if (const auto measured_us = worker.times.batches.ExpectedUs(rows)) return *measured_us;
  const double compute_us = OverheadUs(worker) + rows * Cost(first, end) / Speed(worker);
  const LineRates rates = Rates(worker);
  const double down_us = rows * static_cast<double>(input.input_bytes) / rates.down;
  const double up_us = rows * static_cast<double>(output.output_bytes) / rates.up;
  return compute_us + LatencyUs(worker) + down_us + up_us;
}

double Costs::SpeedSample(const Worker& worker, uint32_t first, uint32_t end,
                          double compute_us) const {
  // The overhead is an estimate: at least a tenth of the step counts as work, so that a sample
  // stays finite.
  const double work_us = std::max({compute_us - OverheadUs(worker), compute_us * 0.1, 0.5});
  return std::max(Cost(first, end), 1.0) / work_us;
}

}  // namespace weft::swarm
