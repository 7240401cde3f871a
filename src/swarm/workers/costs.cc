#include "swarm/workers/costs.h"

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
constexpr double kLoadBytesPerUs = 100;

}  // namespace

ModelLayer HubForm(const ModelLayer& layer) {
  ModelLayer hub = layer;
  const uint64_t bytes = layer.parts_bytes();
  hub.weight_bytes -= std::min(hub.weight_bytes, bytes);
  hub.download_bytes -= std::min(hub.download_bytes, bytes);
  const uint64_t read_bytes =
      layer.experts_per_token * layer.expert_bytes + layer.range_count * layer.range_bytes;
  hub.read_bytes_per_token -= std::min(hub.read_bytes_per_token, read_bytes);
  hub.tied_bytes = std::min(hub.tied_bytes, hub.weight_bytes);
  return hub;
}

uint32_t StatesOfSession(const CoreOptions& options) {
  return 2 + options.marks;
}

SessionMemory MemoryOfSessions(const CoreOptions& options, const ModelLayer& layer) {
  const uint64_t positions = uint64_t{options.context_length} * options.session_count;
  const uint64_t states = uint64_t{StatesOfSession(options)} * options.session_count;
  return {layer.kv_bytes_per_position * positions, layer.state_bytes * states};
}

Costs::Costs(const CoreOptions& options) {
  const ModelInfo& model = options.model;
  CHECK(model.layers.size() >= 2, "a model has at least an embedding and a head");
  boundary_row_bytes_ =
      model.hidden_columns * static_cast<uint64_t>(ElementBytes(model.boundary_dtype));
  scratch_row_bytes_ = uint64_t{model.hidden_columns} * sizeof(float) * kScratchRows;
  for (const ModelLayer& layer : model.layers) {
    AddLayer(options, layer, forms_[0]);
    AddLayer(options, HubForm(layer), forms_[1]);
  }
}

void Costs::AddLayer(const CoreOptions& options, const ModelLayer& layer, Form& form) const {
  const ModelInfo& model = options.model;
  const uint64_t position = std::min(options.context_length / 2, kNominalPosition);
  const uint64_t frame_bytes = wire::kHeaderBytes + wire::kRunBytes;
  const bool first = form.layers.empty(), last = form.layers.size() + 1 == model.layers.size();
  planner::LayerCost cost;
  cost.compute_cost =
      static_cast<double>(layer.read_bytes_per_token + layer.kv_bytes_per_position * position +
                          2 * layer.state_bytes);  // read and written whole for every token
  cost.weight_bytes = layer.weight_bytes;
  const SessionMemory sessions = MemoryOfSessions(options, layer);
  cost.kv_bytes = sessions.kv_bytes + sessions.state_bytes;
  cost.scratch_bytes = options.prefill_chunk_rows * scratch_row_bytes_;
  if (last) cost.scratch_bytes += uint64_t{model.head_columns()} * sizeof(float);
  cost.input_bytes = frame_bytes + (first ? sizeof(int32_t) : boundary_row_bytes_);
  cost.output_bytes = frame_bytes + (last ? 12 : boundary_row_bytes_);
  if (&form == &forms_[1] && layer.expert_count > 0) cost.exchanges = 1 + layer.range_exchanges;
  cost.tied_to = layer.tied_to;
  cost.tied_bytes = layer.tied_bytes;
  cost.with_previous = layer.with_previous;
  form.layers.push_back(cost);
  form.cost_prefix.push_back(form.cost_prefix.back() + cost.compute_cost);
  form.exchange_prefix.push_back(form.exchange_prefix.back() + cost.exchanges);
  form.download_bytes.push_back(layer.download_bytes);
}

double Costs::Cost(LayerSpan layers) const {
  const std::vector<double>& prefix = FormOf(layers.form).cost_prefix;
  return prefix[layers.end] - prefix[layers.first];
}

double Costs::WeightBytes(LayerSpan span) const {
  double bytes = 0;
  for (uint32_t layer = span.first; layer < span.end; ++layer)
    bytes += static_cast<double>(layers(span.form)[layer].weight_bytes);
  return bytes;
}

uint64_t Costs::MissingBytes(const WorkerLayers& cached, LayerSpan layers) const {
  uint64_t bytes = 0;
  for (uint32_t i = layers.first; i < layers.end; ++i)
    if (!cached.Cached(layers.form).Has(i)) bytes += FormOf(layers.form).download_bytes[i];
  return bytes;
}

uint64_t Costs::MemoryBytes(double weight_factor, LayerSpan span) const {
  return planner::StageMemoryBytes(layers(span.form), weight_factor, static_cast<int>(span.first),
                                   static_cast<int>(span.end));
}

uint64_t Costs::MemoryBytes(double weight_factor, const LayerSet& held,
                            const LayerSet& hubs) const {
  const auto ranges = held.Ranges();
  if (ranges.empty()) return 0;
  if (ranges.size() == 1 && (hubs.empty() || hubs == held))
    return MemoryBytes(weight_factor,
                       {ranges[0].first, ranges[0].second, LayerFormOf(!hubs.empty())});
  double weight_bytes = 0;
  uint64_t kv_bytes = 0, scratch_bytes = 0;
  for (uint32_t i = 0; i < layer_count(); ++i) {
    if (!held.Has(i)) continue;
    const planner::LayerCost& layer = layers(LayerFormOf(hubs.Has(i)))[i];
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
  device.messages = worker.offer.messages;
  device.rows_to_server = worker.offer.rows_to_server;
  device.memory_bytes = worker.limit->bytes;
  device.weight_factor = worker.memory->weight_factor;
  const LineRates rates = worker.Rates();
  device.download_bytes_per_s = rates.down * 1e6;
  device.upload_bytes_per_s = rates.up * 1e6;
  device.overhead_us = worker.times.overhead_us.Median();
  device.bytes_per_us = worker.times.BytesPerUs();
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

planner::WorkerMetrics Costs::Metrics(const Worker& worker, LayerForm form) const {
  DeviceNumbers device = NumbersOf(worker);
  device.name = worker.offer.name;
  device.cached_layers = worker.layers->Cached(form).bits();
  return MetricsOf(device);
}

double Costs::HandoverUs(const Worker& worker) const {
  const DeviceNumbers device = NumbersOf(worker);
  return StepLatencyUs(device) - swarm::LatencyUs(device);
}

double Costs::LoadBytesPerUs(const Worker& worker) const {
  return worker.times.load_rate.Median().value_or(kLoadBytesPerUs);
}

double Costs::ComputeUs(const Worker& worker, LayerSpan layers) const {
  return OverheadUs(worker) + Cost(layers) / Speed(worker);
}

double Costs::TokenUs(const Worker& worker, LayerSpan span) const {
  // Asked for every token: the numbers are gathered once.
  const DeviceNumbers device = NumbersOf(worker);
  return kServerStepUs + swarm::OverheadUs(device) + Cost(span) / BytesPerUs(device) +
         ExchangesUs(worker, span) + StepLatencyUs(device) +
         static_cast<double>(layers()[span.first].input_bytes) /
             (device.download_bytes_per_s * 1e-6) +
         static_cast<double>(layers()[span.end - 1].output_bytes) /
             (device.upload_bytes_per_s * 1e-6);
}

int Costs::Exchanges(LayerSpan span) const {
  const std::vector<int>& prefix = FormOf(span.form).exchange_prefix;
  return prefix[span.end] - prefix[span.first];
}

double Costs::ExchangesUs(const Worker& worker, LayerSpan span) const {
  return worker.exchange->us * Exchanges(span);
}

double Costs::StepUs(const Worker& worker, LayerSpan span, uint32_t rows) const {
  const planner::LayerCost& input = layers()[span.first];
  const planner::LayerCost& output = layers()[span.end - 1];
  if (const auto measured_us = worker.times.batches.ExpectedUs(rows)) return *measured_us;
  const double compute_us = rows * ComputeUs(worker, span);  // row by row: deadlines hang on it
  const LineRates rates = worker.Rates();
  const double down_us = rows * static_cast<double>(input.input_bytes) / rates.down;
  const double up_us = rows * static_cast<double>(output.output_bytes) / rates.up;
  return compute_us + ExchangesUs(worker, span) + LatencyUs(worker) + down_us + up_us;
}

StepSpeed Costs::SpeedSample(const Worker& worker, LayerSpan layers, double compute_us) const {
  const StepSpeed base = worker.times.measured.value_or(AssumedSpeed(NumbersOf(worker)));
  const double expected_us = base.overhead_us + std::max(Cost(layers), 1.0) / base.ops_per_us;
  const double times_as_long = std::max(compute_us, 0.5) / expected_us;
  return {base.overhead_us * times_as_long, base.ops_per_us / times_as_long};
}

}  // namespace weft::swarm
