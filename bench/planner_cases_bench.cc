// The cases of dynamic-graph-partitioning 7 as numbers for the planner, beside what the thesis
// measured: which plan it finds for the devices of table 7.2, how fast that is by the cost model,
// and what other ways of sharing out the layers would give. Prints tables for docs/planner.md:
// `./dev bench planner-cases`.
//
// What the thesis does not say of its devices is fitted: Aidos and Thor read as many bytes per
// second as in table 7.7 (Qwen3-14B), and what is left of their time per token in table 7.2
// (Qwen3-0.6B) is their overhead. The other three have Thor's overhead, since all four run on their
// processors, and the speed that is left for table 7.2.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "planner/losses.h"
#include "planner/planner.h"
#include "planner/words.h"

namespace weft::planner {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kVocabulary = 151'936;

struct Qwen3 {
  int layers;
  double hidden, intermediate, query, key_value;
  bool tied;  // its ONNX file has one matrix for embedding and head
};
constexpr Qwen3 k0_6B = {28, 1024, 3072, 2048, 1024, false};
constexpr Qwen3 k4B = {36, 2560, 9728, 4096, 1024, true};
constexpr Qwen3 k14B = {40, 5120, 17'408, 5120, 1024, false};

// In f32, as table 7.3's ONNX column.
std::vector<LayerCost> LayersOf(const Qwen3& model) {
  const double parameters = model.hidden * (2 * model.query + 2 * model.key_value) +
                            3 * model.hidden * model.intermediate;
  LayerCost inner;
  inner.weight_bytes = static_cast<uint64_t>(4 * parameters);
  inner.compute_cost = 4 * parameters;
  inner.input_bytes = inner.output_bytes = static_cast<uint64_t>(8 * model.hidden);  // two tensors
  LayerCost embedding = inner, head = inner;
  embedding.weight_bytes = head.weight_bytes =
      static_cast<uint64_t>(4 * kVocabulary * model.hidden);
  embedding.compute_cost = 4 * model.hidden;
  embedding.input_bytes = 8;
  head.compute_cost = static_cast<double>(head.weight_bytes);
  head.output_bytes = 8;
  if (model.tied) {
    head.tied_to = 0;
    head.tied_bytes = head.weight_bytes;
  }
  std::vector<LayerCost> layers(static_cast<size_t>(model.layers), inner);
  layers.insert(layers.begin(), embedding);
  layers.push_back(head);
  return layers;
}

struct Device {
  const char* name;
  double memory_gib, megabytes_per_s, latency_ms, tokens_per_s;  // table 7.2
  double bytes_per_us;                                           // of table 7.7; 0: not in it
};
constexpr Device kDevices[] = {
    // 6 layers and the head, 11.04 GB, in 31.14 ms; 34 layers, 44.9 GB, in 277.88 ms.
    {"Aidos", 15.72, 117.49, 0.64, 59.22, 354'500}, {"Thor", 118.07, 32.43, 1.87, 48.08, 161'600},
    {"Pgx", 116.15, 37.53, 1.58, 25.23, 0},         {"Agx", 59.08, 31.86, 1.97, 18.94, 0},
    {"Nano", 6.63, 31.26, 2.52, 9.96, 0},
};
enum { kAidos, kThor, kPgx, kAgx, kNano };
constexpr double kDeltaUs = 500;

// Speed and overhead as the head of this file says.
void Fit(const Device& device, double thor_overhead_us, WorkerMetrics& worker) {
  double bytes = 0;
  for (const LayerCost& layer : LayersOf(k0_6B)) bytes += layer.compute_cost;
  const double us = 1e6 / device.tokens_per_s - kDeltaUs - worker.latency_us;
  worker.compute_speed =
      device.bytes_per_us > 0 ? device.bytes_per_us : bytes / (us - thor_overhead_us);
  worker.session_overhead_us = us - bytes / worker.compute_speed;
}

WorkerMetrics WorkerOf(const Device& device) {
  WorkerMetrics worker;
  worker.name = device.name;
  worker.memory_bytes = static_cast<uint64_t>(device.memory_gib * kGiB);
  worker.weight_factor = 1.5;
  worker.bandwidth_down = worker.bandwidth_up = device.megabytes_per_s;
  worker.latency_us = device.latency_ms * 1e3;
  WorkerMetrics thor;
  thor.latency_us = kDevices[kThor].latency_ms * 1e3;
  Fit(kDevices[kThor], 0, thor);
  Fit(device, thor.session_overhead_us, worker);
  return worker;
}

// `memory_gib`: their offers, where the thesis limits them; 0: what table 7.2 says.
std::vector<WorkerMetrics> WorkersOf(const std::vector<int>& devices, double memory_gib = 0) {
  std::vector<WorkerMetrics> workers;
  for (const int device : devices) {
    workers.push_back(WorkerOf(kDevices[device]));
    if (memory_gib > 0) workers.back().memory_bytes = static_cast<uint64_t>(memory_gib * kGiB);
  }
  return workers;
}

// 7.1.3: loading is left out of the comparison.
PlanContext Serving() {
  PlanContext context;
  context.up = true;
  context.constants.delta_us = kDeltaUs;
  return context;
}

std::string StagesOf(const Plan& plan, const std::vector<WorkerMetrics>& workers) {
  std::string text;
  for (const StageAssignment& stage : plan.stages) {
    text += (text.empty() ? "" : ", ") + workers[static_cast<size_t>(stage.worker)].name + " " +
            std::to_string(stage.first_layer) + "-" + std::to_string(stage.end_layer);
  }
  return text;
}

double TokensPerSecond(const Plan& plan) {
  return 1e6 / plan.exec_us;
}

// ---- 7.2: one device ----

void PrintSingle() {
  std::printf("7.2, tokens/s of Qwen3-0.6B and 4B on one device each, times the planner fits:\n\n");
  std::printf("| device | table 7.2 | model, 0.6B | speed GB/s | overhead ms | model, 4B |\n");
  std::printf("|---|---|---|---|---|---|\n");
  for (const Device& device : kDevices) {
    WorkerMetrics worker = WorkerOf(device);
    worker.memory_bytes = static_cast<uint64_t>(1000 * kGiB);
    const auto small = FindPlan(LayersOf(k0_6B), {worker}, Serving());
    const auto large = FindPlan(LayersOf(k4B), {worker}, Serving());
    std::printf("| %s | %.2f | %.2f | %.0f | %.1f | %.1f |\n", device.name, device.tokens_per_s,
                TokensPerSecond(*small.plan), worker.compute_speed / 1e3,
                worker.session_overhead_us / 1e3, TokensPerSecond(*large.plan));
  }
  std::printf("\n");
}

// ---- 7.4: equal and dynamic ----

double PrintSplit(const char* name, const std::vector<WorkerMetrics>& workers, PlanChoice choice,
                  int parts) {
  PlanContext context = Serving();
  context.search.choice = choice;
  context.search.equal_parts = parts;
  const PlanOutcome outcome = FindPlan(LayersOf(k4B), workers, context);
  if (!outcome.plan) {
    std::printf("| %s | - | %s |\n", name, outcome.problem.c_str());
    return 0;
  }
  std::printf("| %s | %.2f | %s |\n", name, TokensPerSecond(*outcome.plan),
              StagesOf(*outcome.plan, workers).c_str());
  return TokensPerSecond(*outcome.plan);
}

void PrintSplits() {
  const std::vector<int> all = {kAidos, kThor, kPgx, kAgx, kNano};
  std::vector<WorkerMetrics> three = WorkersOf(all, 12), five = WorkersOf(all, 6.2);
  three[kNano] = WorkerOf(kDevices[kNano]);
  std::vector<WorkerMetrics> equal_three = WorkersOf(all, 15), equal_five = WorkersOf(all, 15);
  std::printf("7.4, tokens/s of Qwen3-4B:\n\n| strategy | tokens/s | layers |\n|---|---|---|\n");
  const double by_three = PrintSplit("equal, 3", equal_three, PlanChoice::kEqual, 3);
  const double ours_three = PrintSplit("ours, 3 needed (12 GiB each)", three, PlanChoice::kBest, 0);
  PrintSplit("by memory, 12 GiB each", three, PlanChoice::kMemory, 0);
  PrintSplit("thesis' search, 3 needed", three, PlanChoice::kPermutation, 0);
  const double by_five = PrintSplit("equal, 5", equal_five, PlanChoice::kEqual, 5);
  const double ours_five = PrintSplit("ours, 5 needed (6.2 GiB each)", five, PlanChoice::kBest, 0);
  PrintSplit("by memory, 6.2 GiB each", five, PlanChoice::kMemory, 0);
  PrintSplit("thesis' search, 5 needed", five, PlanChoice::kPermutation, 0);
  PrintSplit("ours, free", WorkersOf(all), PlanChoice::kBest, 0);
  std::printf("\nOurs above equal: %+.1f%% with 3 (thesis: +46%%), %+.1f%% with 5 (+41.3%%)\n\n",
              100 * (ours_three / by_three - 1), 100 * (ours_five / by_five - 1));
}

// ---- 7.5: a metric less ----

// 7.5.1: the server's line, a far device and a slow one.
std::vector<WorkerMetrics> Slowed(std::vector<WorkerMetrics> workers) {
  for (WorkerMetrics& worker : workers) {
    worker.latency_us += 5000;
    worker.bandwidth_up = std::min(worker.bandwidth_up, 50.0);      // the server's downloads
    worker.bandwidth_down = std::min(worker.bandwidth_down, 10.0);  // its uploads
    if (worker.name == "Aidos") worker.latency_us += 100'000;
    if (worker.name == "Pgx") worker.bandwidth_down = worker.bandwidth_up = 0.128;
  }
  return workers;
}

void PrintAblation(const char* title, const std::vector<WorkerMetrics>& workers) {
  struct Case {
    const char* name;
    std::vector<Metric> without;
  };
  const Case cases[] = {{"-", {}},
                        {"speed", {Metric::kSpeed, Metric::kOverhead}},
                        {"latency", {Metric::kLatency}},
                        {"bandwidth", {Metric::kBandwidth}}};
  std::printf("7.5, %s:\n\n| without | believed ms | real ms | tokens/s | layers |\n", title);
  std::printf("|---|---|---|---|---|\n");
  const std::vector<LayerCost> layers = LayersOf(k4B);
  for (const Case& c : cases) {
    std::vector<WorkerMetrics> seen = workers;
    for (const Metric metric : c.without) seen = WithoutMetric(std::move(seen), metric);
    const PlanOutcome blind = FindPlan(layers, seen, Serving());
    const auto real = EvaluatePlan(layers, workers, Serving(), blind.plan->stages);
    std::printf("| %s | %.0f | %.0f | %.2f | %s |\n", c.name, blind.plan->exec_us / 1e3,
                real->exec_us / 1e3, TokensPerSecond(*real), StagesOf(*real, workers).c_str());
  }
  std::printf("\n");
}

void PrintAblations() {
  const std::vector<int> all = {kAidos, kThor, kPgx, kAgx, kNano};
  std::vector<WorkerMetrics> five = WorkersOf(all, 6.2), three = WorkersOf(all, 12);
  three[kNano] = WorkerOf(kDevices[kNano]);
  PrintAblation("all five needed, the network of table 7.2", five);
  PrintAblation("all five needed, slowed network", Slowed(five));
  PrintAblation("three needed, slowed network (the traps)", Slowed(three));
}

// ---- 7.4 with the model and the devices of `./dev bench cost-model` ----

// Qwen3-0.6B's layers in q4 (4.5 bits a weight) with a vocabulary of 4,096, so that embedding and
// head are smaller than a layer, where those of the thesis' file are ten times one.
std::vector<LayerCost> BenchLayers() {
  std::vector<LayerCost> layers = LayersOf(k0_6B);
  for (LayerCost& layer : layers) {
    layer.compute_cost *= 4.5 / 32;
    layer.weight_bytes = static_cast<uint64_t>(static_cast<double>(layer.weight_bytes) * 4.5 / 32);
  }
  const double vocabulary_share = 4096 / kVocabulary;
  for (LayerCost* layer : {&layers.front(), &layers.back()})
    layer->weight_bytes =
        static_cast<uint64_t>(static_cast<double>(layer->weight_bytes) * vocabulary_share);
  layers.back().compute_cost *= vocabulary_share;
  return layers;
}

// The least time of all orders and cuts in which each of the three runs something and none more
// than `most` layers, one by one, by the cost model alone.
Plan BestOfAll(const std::vector<LayerCost>& layers, const std::vector<WorkerMetrics>& workers,
               int most) {
  const int count = static_cast<int>(layers.size());
  std::vector<int> order = {0, 1, 2};
  Plan best;
  do {
    for (int one = 1; one <= most; ++one) {
      for (int two = one + 1; two < count && two - one <= most; ++two) {
        if (count - two > most) continue;
        const auto plan =
            EvaluatePlan(layers, workers, Serving(),
                         {{order[0], 0, one}, {order[1], one, two}, {order[2], two, count}});
        if (plan && (best.stages.empty() || plan->exec_us < best.exec_us)) best = *plan;
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

void PrintBenchSplits() {
  const std::vector<LayerCost> layers = BenchLayers();
  std::vector<WorkerMetrics> workers = WorkersOf({kAidos, kThor, kPgx}, 1000);
  for (size_t i = 0; i < workers.size(); ++i) {
    const double share = kDevices[i].tokens_per_s / kDevices[kAidos].tokens_per_s;
    workers[i].compute_speed = 7000 * share;  // bytes per us: 27 tokens/s on a whole core
    workers[i].session_overhead_us = 50;
    workers[i].latency_us = 100;
    workers[i].bandwidth_down = workers[i].bandwidth_up = 1000;
  }
  const int equal = (static_cast<int>(layers.size()) + 2) / 3;
  const double equal_us = BestOfAll(layers, workers, equal).exec_us;
  std::printf("7.4, the bench's 0.6B model on Aidos, Thor and Pgx, every split tried:\n\n");
  std::printf(
      "| layers that a device holds at most | best split | against %d each |\n|---|---|---|\n",
      equal);
  for (int most = equal; most < static_cast<int>(layers.size()) / 2; ++most) {
    const Plan best = BestOfAll(layers, workers, most);
    std::printf("| %d | %s | %+.0f%% |\n", most, StagesOf(best, workers).c_str(),
                100 * (equal_us / best.exec_us - 1));
  }
  std::printf("\n");
}

// ---- 7.6 ----

// On disk are the weights that a device ran before; loading reads 2 GB/s.
void PrintChurn() {
  const std::vector<LayerCost> layers = LayersOf(k4B);
  std::vector<WorkerMetrics> workers = WorkersOf({kAidos, kThor, kAgx});
  for (WorkerMetrics& worker : workers) {
    worker.cached_layers.assign(layers.size(), true);
    worker.session_init_us = 50'000;
    worker.load_bytes_per_us = 2000;
    worker.batch_gain = 4;
  }
  std::printf("7.6.1, Qwen3-4B on Aidos, Thor and Agx, weights on disk:\n\n");
  std::printf("| devices | tokens/s | layers | after a loss |\n|---|---|---|---|\n");
  const char* const names[] = {"all three", "without Aidos", "without Thor too"};
  for (size_t lost = 0; lost < 3; ++lost) {
    const std::vector<WorkerMetrics> left(workers.begin() + static_cast<std::ptrdiff_t>(lost),
                                          workers.end());
    const PlanOutcome outcome = FindPlan(layers, left, Serving());
    std::string losses;
    for (const Loss& loss : FindLosses(layers, left, Serving(), *outcome.plan, 150)) {
      losses += (losses.empty() ? "" : ", ") + left[static_cast<size_t>(loss.worker)].name + ": " +
                (loss.after ? FormatMicroseconds(loss.downtime_us) : "stops");
    }
    std::printf("| %s | %.1f | %s | %s |\n", names[lost], TokensPerSecond(*outcome.plan),
                StagesOf(*outcome.plan, left).c_str(), losses.c_str());
  }
  std::printf("\n");
}

void PrintLargeModel() {
  std::vector<WorkerMetrics> workers = WorkersOf({kAidos, kThor, kPgx});
  workers[1].memory_bytes = static_cast<uint64_t>(64 * kGiB);
  workers[2].memory_bytes = static_cast<uint64_t>(32 * kGiB);
  const std::vector<LayerCost> layers = LayersOf(k14B);
  const PlanOutcome outcome = FindPlan(layers, workers, Serving());
  std::printf("7.6.2, Qwen3-14B on Aidos (16 GB), Thor (64) and Pgx (32), tables 7.6 and 7.7:\n\n");
  std::printf(
      "| device | theirs: layers, estimate ms | ours: layers, estimate ms |\n|---|---|---|\n");
  const char* const theirs[] = {"0-1, 4.34", "1-35, 335.06", "35-42, 34.56"};
  for (size_t i = 0; i < outcome.plan->stages.size(); ++i) {
    const StageAssignment& stage = outcome.plan->stages[i];
    std::printf("| %s | %s | %d-%d, %.2f |\n",
                workers[static_cast<size_t>(stage.worker)].name.c_str(), i < 3 ? theirs[i] : "-",
                stage.first_layer, stage.end_layer, stage.exec_us / 1e3);
  }
  std::printf("| all | 373.96, measured 312.02 (3.17 tokens/s) | %.2f (%.2f tokens/s) |\n\n",
              outcome.plan->exec_us / 1e3, TokensPerSecond(*outcome.plan));
  for (const double memory_gib : {16.0, 4.0}) {
    workers.resize(1);
    workers[0].memory_bytes = static_cast<uint64_t>(memory_gib * kGiB);
    std::printf("7.2.1, Aidos alone with %.0f GiB: %s\n\n", memory_gib,
                FindPlan(layers, workers, Serving()).problem.c_str());
  }
}

}  // namespace
}  // namespace weft::planner

int main() {
  weft::planner::PrintSingle();
  weft::planner::PrintSplits();
  weft::planner::PrintBenchSplits();
  weft::planner::PrintAblations();
  weft::planner::PrintChurn();
  weft::planner::PrintLargeModel();
  return 0;
}
