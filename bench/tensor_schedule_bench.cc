// Schedules of neuron groups over random uneven devices, by the predicted time of a token: figure 9
// of halo-lossy-networks (`./dev bench tensor-schedule [SCENARIOS]`, docs/tensor-groups.md).
//
// Devices as in the paper's table IV: 0.6 to 1.8 GHz in steps of 0.1, 1.2 on average, and budgets
// of 300 to 6,300 MB in steps of 200, together at least the model and what each device keeps of
// it. Everything is relative to Galaxy's two steps in the same scenario.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/random.h"
#include "planner/tensor_costs.h"
#include "planner/tensor_schedule.h"

namespace weft::planner {
namespace {

// Four cores of a Raspberry Pi 4, four bit weights: a billion multiply-adds a core and GHz.
constexpr double kWorkPerGhz = 4e9;

struct Model {
  std::string name;
  TensorModel shape;
};

const std::vector<Model>& Models() {
  static const std::vector<Model> models = {{"8B",
                                             {.layers = 32,
                                              .columns = 4096,
                                              .heads = 32,
                                              .kv_heads = 8,
                                              .head_columns = 128,
                                              .mlp_columns = 14336,
                                              .vocabulary = 128256,
                                              .bytes_per_weight = 0.5625,
                                              .bytes_per_kv_value = 2,
                                              .positions = 256}},
                                            {"13B",
                                             {.layers = 40,
                                              .columns = 5120,
                                              .heads = 40,
                                              .kv_heads = 40,
                                              .head_columns = 128,
                                              .mlp_columns = 13824,
                                              .vocabulary = 32000,
                                              .bytes_per_weight = 0.5625,
                                              .bytes_per_kv_value = 2,
                                              .positions = 256}}};
  return models;
}

TensorProblem RandomScenario(SeededRandom& random, const TensorModel& shape, size_t device_count,
                             double bytes_per_second) {
  TensorProblem problem{TensorBlocks(shape), {}, 0, uint64_t{shape.columns} * 4};
  const auto devices = static_cast<uint64_t>(device_count);
  while (true) {
    problem.devices.clear();
    uint64_t tenths = 0;
    for (size_t i = 0; i < device_count; ++i) {
      const uint64_t speed = 6 + random.Below(13);
      const uint64_t budget = 300'000'000 + 200'000'000 * random.Below(31);
      tenths += speed;
      problem.devices.push_back(
          {budget, static_cast<double>(speed) / 10 * kWorkPerGhz, 0, 0, bytes_per_second});
    }
    if (tenths == 12 * devices && MinMaxSchedule(problem).ok()) return problem;
  }
}

struct Ratios {
  std::vector<double> values;
  double Mean() const {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  }
  double Best() const { return *std::max_element(values.begin(), values.end()); }
  double Worst() const { return *std::min_element(values.begin(), values.end()); }
};

void RunCell(const Model& model, size_t device_count, double megabits, int scenarios) {
  SeededRandom random(9);
  Ratios greedy, plain, whole;
  int vanilla_fits = 0, skipped = 0;
  std::vector<double> times_ms;
  for (int scenario = 0; scenario < scenarios; ++scenario) {
    const TensorProblem problem =
        RandomScenario(random, model.shape, device_count, megabits * 1e6 / 8);
    const auto rounded = [&](const Result<std::vector<double>>& shares) {
      return shares.ok() ? WholeGroups(problem, *shares) : Result<TensorSchedule>(shares.error());
    };
    const auto galaxy = rounded(GalaxyShares(problem));
    const auto by_greed = rounded(ComputationGreedyShares(problem));
    const auto by_threshold = rounded(MinMaxShares(problem));
    const std::clock_t begin = std::clock();  // processor time
    const auto ours = MinMaxSchedule(problem);
    times_ms.push_back(1000.0 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    TensorSchedule equal;
    for (const TensorBlock& block : problem.blocks) {
      const auto each = (block.groups + static_cast<uint32_t>(device_count) - 1) /
                        static_cast<uint32_t>(device_count);
      equal.counts.emplace_back(device_count, each);
    }
    if (Fits(problem, equal)) ++vanilla_fits;
    if (!galaxy.ok() || !by_greed.ok() || !by_threshold.ok()) {
      ++skipped;
      continue;
    }
    const double galaxy_s = PredictTime(problem, *galaxy).total_s();
    greedy.values.push_back(galaxy_s / PredictTime(problem, *by_greed).total_s());
    plain.values.push_back(galaxy_s / PredictTime(problem, *by_threshold).total_s());
    whole.values.push_back(galaxy_s / PredictTime(problem, *ours).total_s());
  }
  std::sort(times_ms.begin(), times_ms.end());
  std::printf(
      "| %s | %zu | %4.0f | %.2f | %.2f | %.2f / %.2f | %.2f | %.2f / %.2f | %d%% | %.1f, %.1f |\n",
      model.name.c_str(), device_count, megabits, greedy.Mean(), plain.Mean(), plain.Worst(),
      plain.Best(), whole.Mean(), whole.Worst(), whole.Best(), 100 * vanilla_fits / scenarios,
      times_ms[times_ms.size() / 2], times_ms.back());
  if (skipped > 0)
    std::printf("(%d scenarios that a baseline could not round left out)\n", skipped);
  std::fflush(stdout);
}

}  // namespace
}  // namespace weft::planner

int main(int argc, char** argv) {
  int scenarios = 200;
  if (argc > 1) {
    const std::string_view text = argv[1];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), scenarios);
    if (error != std::errc() || end != text.data() + text.size() || scenarios < 1) {
      std::fprintf(stderr, "Expected a number of scenarios, got '%s'.\n", argv[1]);
      return 1;
    }
  }
  std::printf("Speed relative to Galaxy, %d scenarios a row.\n", scenarios);
  std::printf(
      "| model | devices | Mbit/s | greedy | algorithm 2 | worst / best | whole groups | "
      "worst / best | equal fits | median, slowest ms |\n"
      "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
  for (const weft::planner::Model& model : weft::planner::Models()) {
    for (const double megabits : {100.0, 1000.0}) {
      for (const size_t devices : {4, 6, 8})
        weft::planner::RunCell(model, devices, megabits, scenarios);
    }
  }
  return 0;
}
