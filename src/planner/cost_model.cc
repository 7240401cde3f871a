#include "planner/cost_model.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace weft::planner {
namespace {

// Bounds far outside anything real, so that no sum or quotient of accepted numbers overflows.
constexpr double kSmallest = 1e-9;
constexpr double kLargest = 1e24;
bool IsPositive(double value) {
  return value >= kSmallest && value <= kLargest;
}
bool IsNonNegative(double value) {
  return value >= 0 && value <= kLargest;
}

uint64_t ToBytes(double bytes) {
  return bytes >= 0x1p64 ? UINT64_MAX : static_cast<uint64_t>(bytes);
}

std::string Number(double value) {
  std::string text = std::to_string(value);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

// rho(t) of 5.2.2: 1 right after a redistribution, 1/2 at t_mid, then towards 0.
// Written with exp of the positive argument: 1 - 1/(1 + e^-z) = 1/(1 + e^z) loses no digits for
// large t.
double InitImportance(Duration since_redistribution, const CostConstants& constants) {
  const double z = static_cast<double>(since_redistribution.us - constants.t_mid.us) /
                   static_cast<double>(constants.t_sharp.us);
  return 1 / (1 + std::exp(z));
}

// What becomes of init_us in C_total: its power, times this.
struct InitTransform {
  double exponent, scale;
};
InitTransform TransformOf(const PlanContext& context) {
  const CostConstants& constants = context.constants;
  if (context.rule == PlanRule::kThesis) {
    if (!context.up) return {constants.gamma_block, 1};
    return {constants.gamma, InitImportance(context.since_redistribution, constants)};
  }
  // While a plan serves, AcceptMove prices the loading. While nothing does, a wait of R costs the
  // tokens of that time: R / token_us of the expected_stable_us / token_us that there would be.
  if (context.up) return {1, 0};
  return {1, context.token_us / context.expected_stable_us};
}

}  // namespace

std::string LayersProblem(const std::vector<LayerCost>& layers) {
  if (layers.empty()) return "The model has no layers.";
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerCost& layer = layers[i];
    const std::string name = "Layer " + std::to_string(i);
    if (!IsNonNegative(layer.compute_cost)) {
      return name + " has compute cost " + Number(layer.compute_cost) +
             "; expected a finite number >= 0.";
    }
    if (layer.with_previous && i == 0) return name + " is kept with a layer before it.";
    if (layer.tied_to < 0) continue;
    const size_t other = static_cast<size_t>(layer.tied_to);
    if (other >= i) {
      return name + " is tied to layer " + std::to_string(other) + "; expected an earlier layer.";
    }
    if (layer.tied_bytes > layer.weight_bytes || layer.tied_bytes > layers[other].weight_bytes) {
      return name + " shares " + std::to_string(layer.tied_bytes) + " bytes with layer " +
             std::to_string(other) + ", more than one of them has.";
    }
  }
  return {};
}

std::string ConstantsProblem(const CostConstants& constants) {
  const auto is_share = [](double value) { return value >= 0 && value <= 1; };
  if (!is_share(constants.alpha)) {
    return "The planner's alpha is " + Number(constants.alpha) + "; expected 0 to 1.";
  }
  if (!is_share(constants.gamma) || !is_share(constants.gamma_block)) {
    return "The planner's gamma and gamma_block are " + Number(constants.gamma) + " and " +
           Number(constants.gamma_block) + "; expected 0 to 1.";
  }
  if (!IsNonNegative(constants.sigma_us) || !IsNonNegative(constants.delta_us)) {
    return "The planner's sigma and delta are " + Number(constants.sigma_us) + " and " +
           Number(constants.delta_us) + "; expected finite numbers >= 0.";
  }
  if (constants.t_sharp.us <= 0) return "The planner's t_sharp must be longer than 0.";
  return {};
}

std::string ContextProblem(const PlanContext& context) {
  if (std::string problem = ConstantsProblem(context.constants); !problem.empty()) return problem;
  if (!IsPositive(context.expected_stable_us)) {
    return "The expected time to the next change is " + Number(context.expected_stable_us) +
           " us; expected a finite number > 0.";
  }
  if (!IsNonNegative(context.token_us) || !IsNonNegative(context.repair_us)) {
    return "The time per token and the time of a repair are " + Number(context.token_us) + " and " +
           Number(context.repair_us) + " us; expected finite numbers >= 0.";
  }
  if (!IsNonNegative(context.balance)) {
    return "The share that an even plan may cost more is " + Number(context.balance) +
           "; expected a finite number >= 0.";
  }
  if (context.repair_bytes_per_us != 0 && !IsPositive(context.repair_bytes_per_us)) {
    return "The rate of loading in a repair is " + Number(context.repair_bytes_per_us) +
           " bytes per us; expected 0 or a finite number > 0.";
  }
  return {};
}

std::string WorkerProblem(const WorkerMetrics& worker) {
  const auto bad = [](const char* what, double value, const char* expected) {
    return std::string("its ") + what + " is " + Number(value) + "; expected " + expected;
  };
  const char* const positive = "a finite number > 0";
  const char* const non_negative = "a finite number >= 0";
  if (!IsPositive(worker.compute_speed)) {
    return bad("compute speed", worker.compute_speed, positive);
  }
  if (!IsPositive(worker.bandwidth_down)) {
    return bad("download bandwidth", worker.bandwidth_down, positive);
  }
  if (!IsPositive(worker.bandwidth_up)) {
    return bad("upload bandwidth", worker.bandwidth_up, positive);
  }
  if (!IsPositive(worker.weight_factor)) {
    return bad("weight factor", worker.weight_factor, positive);
  }
  if (!IsNonNegative(worker.exchange_us))
    return bad("exchange time", worker.exchange_us, non_negative);
  if (!IsNonNegative(worker.latency_us)) return bad("latency", worker.latency_us, non_negative);
  if (!IsNonNegative(std::fabs(worker.session_overhead_us))) {
    return bad("session overhead", worker.session_overhead_us, "a finite number");
  }
  if (worker.session_init_us && !IsNonNegative(*worker.session_init_us)) {
    return bad("session start time", *worker.session_init_us, non_negative);
  }
  if (!IsNonNegative(worker.load_bytes_per_us)) {
    return bad("loading rate", worker.load_bytes_per_us, non_negative);
  }
  if (!(worker.batch_gain >= 1 && worker.batch_gain <= kLargest)) {
    return bad("batch gain", worker.batch_gain, "a finite number >= 1");
  }
  if (!IsNonNegative(worker.departures_per_s)) {
    return bad("rate of departures", worker.departures_per_s, non_negative);
  }
  return {};
}

uint64_t StageMemoryBytes(const std::vector<LayerCost>& layers, double weight_factor,
                          int first_layer, int end_layer) {
  CHECK(0 <= first_layer && first_layer <= end_layer &&
        static_cast<size_t>(end_layer) <= layers.size());
  double weights = 0, kv = 0, scratch = 0;
  for (size_t i = static_cast<size_t>(first_layer); i < static_cast<size_t>(end_layer); ++i) {
    weights += static_cast<double>(layers[i].weight_bytes);
    if (layers[i].tied_to >= first_layer) weights -= static_cast<double>(layers[i].tied_bytes);
    kv += static_cast<double>(layers[i].kv_bytes);
    scratch = std::max(scratch, static_cast<double>(layers[i].scratch_bytes));
  }
  return ToBytes(std::ceil(weight_factor * weights) + kv + scratch);
}

std::vector<int> CutsOf(const std::vector<LayerCost>& layers) {
  std::vector<int> cuts;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!layers[i].with_previous) cuts.push_back(static_cast<int>(i));
  }
  cuts.push_back(static_cast<int>(layers.size()));
  return cuts;
}

// Every cost of a stage is a sum over its layers: differences of prefix sums give it in O(1):
//
//   sum of C over [first, end) = compute_prefix_[end] - compute_prefix_[first]
//
// likewise for weights, keys and values, and for each worker the weights that it still lacks. What
// is no sum is kept apart: the largest scratch by (first, end), and tied layers, whose bytes count
// once where both lie in the stage. Searches ask for m n^2 / 2 stages, thousands for a big model.
CostModel::CostModel(const std::vector<LayerCost>& layers,
                     const std::vector<WorkerMetrics>& workers, const PlanContext& context)
    : cuts_(CutsOf(layers)),
      objective_(context.objective),
      alpha_(context.constants.alpha),
      delta_us_(context.constants.delta_us),
      init_exponent_(TransformOf(context).exponent),
      init_scale_(TransformOf(context).scale),
      layers_(layers) {
  const size_t n = layers.size();
  compute_prefix_.assign(n + 1, 0);
  weight_prefix_.assign(n + 1, 0);
  kv_prefix_.assign(n + 1, 0);
  exchange_prefix_.assign(n + 1, 0);
  scratch_max_.assign(n * n, 0);
  for (size_t i = 0; i < n; ++i) {
    compute_prefix_[i + 1] = compute_prefix_[i] + layers[i].compute_cost;
    weight_prefix_[i + 1] = weight_prefix_[i] + static_cast<double>(layers[i].weight_bytes);
    exchange_prefix_[i + 1] = exchange_prefix_[i] + layers[i].exchanges;
    kv_prefix_[i + 1] = kv_prefix_[i] + static_cast<double>(layers[i].kv_bytes);
    if (layers[i].tied_to >= 0 && layers[i].tied_bytes > 0) {
      tied_layers_.push_back(static_cast<int>(i));
    }
    most_input_bytes_ = std::max(most_input_bytes_, static_cast<double>(layers[i].input_bytes));
    most_output_bytes_ = std::max(most_output_bytes_, static_cast<double>(layers[i].output_bytes));
    double largest = 0;
    for (size_t end = i; end < n; ++end) {
      largest = std::max(largest, static_cast<double>(layers[end].scratch_bytes));
      scratch_max_[i * n + end] = largest;
    }
  }

  for (const WorkerMetrics& metrics : workers) workers_.push_back(MakeWorker(metrics, context));
}

std::optional<int> CostModel::PlaceOf(int layer) const {
  const auto found = std::lower_bound(cuts_.begin(), cuts_.end(), layer);
  if (found == cuts_.end() || *found != layer) return std::nullopt;
  return static_cast<int>(found - cuts_.begin());
}

CostModel::Worker CostModel::MakeWorker(const WorkerMetrics& metrics,
                                        const PlanContext& context) const {
  const size_t n = layers_.size();
  Worker worker;
  worker.usable = WorkerProblem(metrics).empty();
  worker.memory_bytes = static_cast<double>(metrics.memory_bytes);
  worker.weight_factor = metrics.weight_factor;
  worker.overhead_us = std::max(0.0, metrics.session_overhead_us);
  worker.compute_speed = metrics.compute_speed;
  worker.bandwidth_down = metrics.bandwidth_down;
  worker.bandwidth_up = metrics.bandwidth_up;
  worker.latency_us = metrics.latency_us;
  worker.exchange_us = metrics.exchange_us;
  worker.session_init_us = metrics.session_init_us.value_or(context.constants.sigma_us);
  worker.load_bytes_per_us = metrics.load_bytes_per_us;
  worker.batch_gain = metrics.batch_gain;
  worker.link_us =
      most_input_bytes_ / metrics.bandwidth_down + most_output_bytes_ / metrics.bandwidth_up;
  // It leaves departures_per_s times a second; a token's time sees as much of that.
  if (context.rule == PlanRule::kPriced) {
    const double departures = metrics.departures_per_s * 1e-6 * context.token_us;
    worker.departure_us = departures * context.repair_us;
    if (context.repair_bytes_per_us > 0) {
      worker.departure_us_per_byte = departures / context.repair_bytes_per_us;
    }
  }
  const auto is_cached = [&](size_t layer) {
    return layer < metrics.cached_layers.size() && metrics.cached_layers[layer];
  };
  worker.missing_weight_prefix.assign(n + 1, 0);
  for (size_t i = 0; i < n; ++i) {
    worker.missing_weight_prefix[i + 1] =
        worker.missing_weight_prefix[i] +
        (is_cached(i) ? 0 : static_cast<double>(layers_[i].weight_bytes));
  }
  for (const int layer : tied_layers_) {
    const size_t other = static_cast<size_t>(layers_[Index(layer)].tied_to);
    worker.tied_free.push_back(!is_cached(Index(layer)) && is_cached(other));
    worker.tied_in_stage.push_back(!is_cached(Index(layer)) && !is_cached(other));
  }
  return worker;
}

double CostModel::WeightBytes(int first, int end) const {
  double bytes = weight_prefix_[Index(end)] - weight_prefix_[Index(first)];
  for (const int layer : tied_layers_) {
    const LayerCost& cost = layers_[Index(layer)];
    if (cost.tied_to >= first && layer < end) bytes -= static_cast<double>(cost.tied_bytes);
  }
  return bytes;
}

double CostModel::MemoryBytes(const Worker& worker, int first, int end) const {
  if (first >= end) return 0;
  return std::ceil(worker.weight_factor * WeightBytes(first, end)) + kv_prefix_[Index(end)] -
         kv_prefix_[Index(first)] + scratch_max_[Index(first) * layers_.size() + Index(end) - 1];
}

double CostModel::DownloadBytes(const Worker& worker, int first, int end) const {
  double bytes =
      worker.missing_weight_prefix[Index(end)] - worker.missing_weight_prefix[Index(first)];
  for (size_t i = 0; i < tied_layers_.size(); ++i) {
    const int layer = tied_layers_[i];
    if (layer < first || layer >= end) continue;
    const LayerCost& cost = layers_[Index(layer)];
    const bool saved = worker.tied_free[i] || (worker.tied_in_stage[i] && cost.tied_to >= first);
    if (saved) bytes -= static_cast<double>(cost.tied_bytes);
  }
  return bytes;
}

double CostModel::InitCost(double init_us) const {
  if (init_exponent_ == 1) return init_us * init_scale_;
  return std::pow(init_us, init_exponent_) * init_scale_;
}

bool CostModel::Allowed(int worker_index, int first, int end) const {
  const Worker& worker = workers_[Index(worker_index)];
  if (!worker.usable) return false;
  return MemoryBytes(worker, cuts_[Index(first)], cuts_[Index(end)]) <= worker.memory_bytes;
}

StageAssignment CostModel::Stage(int /*previous*/, int worker_index, int first_place,
                                 int end_place) const {
  const int first = cuts_[Index(first_place)], end = cuts_[Index(end_place)];
  const Worker& worker = workers_[Index(worker_index)];
  StageAssignment stage;
  stage.worker = worker_index;
  stage.first_layer = first;
  stage.end_layer = end;
  stage.overhead_us = worker.overhead_us + delta_us_;
  stage.compute_us =
      (compute_prefix_[Index(end)] - compute_prefix_[Index(first)]) / worker.compute_speed;
  const double bytes_us =
      static_cast<double>(layers_[Index(first)].input_bytes) / worker.bandwidth_down +
      static_cast<double>(layers_[Index(end) - 1].output_bytes) / worker.bandwidth_up;
  stage.transfer_us =
      worker.latency_us + bytes_us +
      worker.exchange_us * (exchange_prefix_[Index(end)] - exchange_prefix_[Index(first)]);
  stage.exec_us = stage.overhead_us + stage.compute_us + stage.transfer_us;
  stage.departure_us = DepartureUs(worker, first, end);
  stage.row_us = stage.compute_us / worker.batch_gain + bytes_us;
  stage.busy_us = stage.overhead_us + stage.compute_us + worker.link_us;
  const double download = DownloadBytes(worker, first, end);
  stage.init_us = worker.session_init_us + download / worker.bandwidth_down;
  if (worker.load_bytes_per_us > 0) {
    stage.init_us += WeightBytes(first, end) / worker.load_bytes_per_us;
  }
  stage.init_cost = InitCost(stage.init_us);
  stage.memory_bytes = ToBytes(MemoryBytes(worker, first, end));
  stage.download_bytes = ToBytes(download);
  return stage;
}

double CostModel::LeastExec(int worker_index, int first_place, int furthest,
                            const std::vector<double>& rest) const {
  const size_t first = Layer(first_place);
  const Worker& worker = workers_[Index(worker_index)];
  const double per_op = 1 / worker.compute_speed, per_byte = 1 / worker.bandwidth_up;
  double least = kInfinity;
  for (size_t place = Index(first_place) + 1; place <= Index(furthest); ++place) {
    const size_t end = Index(cuts_[place]);
    least =
        std::min(least, compute_prefix_[end] * per_op + worker.exchange_us * exchange_prefix_[end] +
                            static_cast<double>(layers_[end - 1].output_bytes) * per_byte +
                            worker.departure_us_per_byte * weight_prefix_[end] + rest[place]);
  }
  return least - compute_prefix_[first] * per_op - worker.exchange_us * exchange_prefix_[first] +
         worker.overhead_us + delta_us_ + worker.latency_us + worker.departure_us -
         worker.departure_us_per_byte * weight_prefix_[first] +
         static_cast<double>(layers_[first].input_bytes) / worker.bandwidth_down;
}

StageTable::StageTable(const CostModel& model, const std::vector<int>& workers)
    : layer_count(model.layer_count()),
      cuts(model.cuts()),
      worker_count(static_cast<int>(workers.size())),
      objective(model.objective()),
      alpha(objective == Objective::kLatency ? model.alpha() : 0) {
  for (int end = 0; end <= layer_count; ++end) compute.push_back(model.ComputeBefore(end));
  const size_t stride = static_cast<size_t>(layer_count) + 1;
  const size_t m = static_cast<size_t>(worker_count);
  exec.assign(m * stride * stride, kInfinity);
  init.assign(m * stride * stride, kInfinity);
  sum.assign(m * stride * stride, kInfinity);
  reach.assign(m * stride, 0);
  for (int worker = 0; worker < worker_count; ++worker) {
    for (int first = 0; first <= layer_count; ++first) {
      int end = first;
      double largest_init = 0;
      const int model_worker = workers[static_cast<size_t>(worker)];
      while (end < layer_count && model.Allowed(model_worker, first, end + 1)) {
        ++end;
        const StageAssignment stage = model.Stage(kNoWorker, model_worker, first, end);
        const size_t at = At(worker, first, end);
        // Bytes are exact integers in a double, so that init cannot fall; the max only guards pow's
        // last bit.
        const bool latency = objective == Objective::kLatency;
        largest_init = std::max(largest_init, latency ? stage.init_cost : stage.busy_us);
        exec[at] = stage.exec_us;
        init[at] = largest_init;
        sum[at] = stage.exec_us + stage.departure_us + (latency ? (1 - alpha) * largest_init : 0);
      }
      reach[static_cast<size_t>(worker) * stride + static_cast<size_t>(first)] = end;
    }
  }
}

StageTable SumUnderCap(const StageTable& table, double cap) {
  StageTable capped = table;
  capped.objective = Objective::kLatency;
  capped.alpha = 0;
  for (int worker = 0; worker < table.worker_count; ++worker) {
    for (int first = 0; first < table.layer_count; ++first) {
      int& reach =
          capped.reach[static_cast<size_t>(worker) * (static_cast<size_t>(table.layer_count) + 1) +
                       static_cast<size_t>(first)];
      while (reach > first && table.init[table.At(worker, first, reach)] > cap) {
        capped.sum[table.At(worker, first, reach)] = kInfinity;
        capped.init[table.At(worker, first, reach)] = kInfinity;
        --reach;
      }
      for (int end = first + 1; end <= reach; ++end) capped.init[table.At(worker, first, end)] = 0;
    }
  }
  return capped;
}

double TotalCost(const StageTable& table, const std::vector<StageChoice>& stages) {
  double sum = 0, init_max = 0;
  for (const StageChoice& stage : stages) {
    const size_t at = table.At(stage.worker, stage.first, stage.end);
    sum += table.sum[at];
    init_max = std::max(init_max, table.init[at]);
  }
  return table.objective == Objective::kThroughput ? init_max : sum + table.alpha * init_max;
}

std::vector<int> EarlierTwins(const StageTable& table) {
  const auto equal = [&](const std::vector<double>& values, int a, int b) {
    const auto at = [&](int worker) {
      return values.begin() + static_cast<std::ptrdiff_t>(table.At(worker, 0, 0));
    };
    return std::equal(at(a), at(a + 1), at(b));
  };
  std::vector<int> twins(static_cast<size_t>(table.worker_count), kNoWorker);
  for (int worker = 1; worker < table.worker_count; ++worker) {
    for (int other = worker - 1; other >= 0; --other) {
      // Entries beyond a worker's reach are infinite, so equal tables also mean equal reach.
      if (!equal(table.sum, worker, other) || !equal(table.init, worker, other)) continue;
      twins[static_cast<size_t>(worker)] = other;
      break;
    }
  }
  return twins;
}

std::vector<double> DistinctCaps(const StageTable& table) {
  std::vector<double> caps;
  for (const double init : table.init) {
    if (init < kInfinity) caps.push_back(init);
  }
  std::sort(caps.begin(), caps.end());
  caps.erase(std::unique(caps.begin(), caps.end()), caps.end());
  return caps;
}

}  // namespace weft::planner
