#include "planner/explain.h"

#include <algorithm>
#include <cctype>
#include <cstdarg>
#include <cstdio>

#include "planner/draw_plan.h"

namespace weft::planner {
namespace {

std::string Format(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::string Format(const char* format, ...) {
  char buffer[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer, sizeof(buffer), format, arguments);
  va_end(arguments);
  return buffer;
}

void AppendStages(const Plan& plan, const std::vector<LayerCost>& layers,
                  const std::vector<WorkerMetrics>& workers, std::string& text) {
  const int layer_count = static_cast<int>(layers.size());
  const auto range_of = [&](const StageAssignment& stage) {
    return FormatLayers(stage.first_layer, stage.end_layer, layer_count);
  };
  size_t name_width = 6, range_width = 6;
  for (const StageAssignment& stage : plan.stages) {
    name_width = std::max(name_width, ShownName(workers, stage.worker).size());
    range_width = std::max(range_width, range_of(stage).size());
  }
  text += "  stage  " + Padded("worker", name_width) + "  " + Padded("layers", range_width) +
          "  overhead_us  compute_us  transfer_us     total_us  memory              to download\n";
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const StageAssignment& stage = plan.stages[i];
    const WorkerMetrics& worker = workers[static_cast<size_t>(stage.worker)];
    const std::string memory = FormatBytes(static_cast<double>(stage.memory_bytes)) + " of " +
                               FormatBytes(static_cast<double>(worker.memory_bytes));
    text += Format("  %5zu  ", i + 1) + Padded(ShownName(workers, stage.worker), name_width) +
            "  " + Padded(range_of(stage), range_width) +
            Format("  %11.0f  %10.0f  %11.0f  %11.0f  ", stage.overhead_us, stage.compute_us,
                   stage.transfer_us, stage.exec_us) +
            Format("%-18s  %s\n", memory.c_str(),
                   FormatBytes(static_cast<double>(stage.download_bytes)).c_str());
  }
}

std::string Capitalised(std::string text) {
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

// How good the plan is, by its own bound.
std::string GapSentence(const PlanOutcome& outcome) {
  if (outcome.lower_bound <= 0) return {};
  const std::string bound = FormatMicroseconds(outcome.lower_bound);
  if (outcome.gap <= 0) return "No plan costs less: lower bound " + bound + ", gap 0%.\n";
  return "A better plan may exist: lower bound " + bound +
         Format(", at most %.1f%% below this plan's cost.\n",
                100 * (1 - outcome.lower_bound / outcome.plan->total_cost));
}

}  // namespace

std::string OversizedSentence(const std::vector<LayerCost>& layers,
                              const std::vector<WorkerMetrics>& workers,
                              const std::vector<OversizedLayer>& oversized) {
  const OversizedLayer& worst = *std::max_element(
      oversized.begin(), oversized.end(), [](const OversizedLayer& a, const OversizedLayer& b) {
        return a.lacking_bytes < b.lacking_bytes;
      });
  const std::string name =
      Capitalised(FormatLayers(worst.layer, worst.end_layer, static_cast<int>(layers.size())));
  const bool is_one = worst.end_layer - worst.layer == 1;
  std::string text = name + (is_one ? " needs " : " need ") +
                     FormatBytes(static_cast<double>(worst.memory_bytes)) +
                     " on one device, since " +
                     (is_one ? "a layer is not divided" : "they are kept together") +
                     ", and no device offers that: " + ShownName(workers, worst.worker) +
                     " lacks " + FormatBytes(static_cast<double>(worst.lacking_bytes));
  const size_t others = oversized.size() - 1;
  if (others == 1) text += ", and another layer fits none either";
  if (others > 1) text += ", and " + std::to_string(others) + " other layers fit none either";
  return text + ".";
}

std::string WhyLeftOut(const StageTable& table, const std::vector<StageChoice>& chosen, int row) {
  const auto exec = [&](const StageChoice& stage, int first, int end) {
    return first < end ? table.exec[table.At(stage.worker, first, end)] : 0;
  };
  std::vector<size_t> stage_of;           // [layer]
  std::vector<double> exec_prefix = {0};  // [stage + 1]
  for (size_t i = 0; i < chosen.size(); ++i) {
    stage_of.resize(static_cast<size_t>(chosen[i].end), i);
    exec_prefix.push_back(exec_prefix[i] + exec(chosen[i], chosen[i].first, chosen[i].end));
  }
  double best_change = kInfinity, best_departure = 0;
  StageChoice best{row, 0, 0};
  const auto departure = [&](const StageChoice& stage, int first, int end) {
    return first < end ? table.Departure(stage.worker, first, end) : 0;
  };
  for (int first = 0; first < table.layer_count; ++first) {
    for (int end = first + 1; end <= table.Reach(row, first); ++end) {
      const size_t a = stage_of[static_cast<size_t>(first)];
      const size_t b = stage_of[static_cast<size_t>(end) - 1];
      // Not out of the middle of a stage: its worker would be used twice.
      if (a == b && chosen[a].first < first && chosen[a].end > end) continue;
      const double change =
          table.exec[table.At(row, first, end)] - (exec_prefix[b + 1] - exec_prefix[a]) +
          exec(chosen[a], chosen[a].first, first) + exec(chosen[b], end, chosen[b].end);
      if (change < best_change) {
        best_change = change;
        best = {row, first, end};
        best_departure = departure(best, first, end) +
                         departure(chosen[a], chosen[a].first, first) +
                         departure(chosen[b], end, chosen[b].end);
        for (size_t i = a; i <= b; ++i) {
          best_departure -= departure(chosen[i], chosen[i].first, chosen[i].end);
        }
      }
    }
  }
  if (best.end == 0) return "no range of layers beside the other stages fits its memory";
  const auto layer_at = [&](int place) { return table.cuts[static_cast<size_t>(place)]; };
  const std::string layers =
      FormatLayers(layer_at(best.first), layer_at(best.end), table.cuts.back());
  if (best_change >= 0) {
    return "it would slow the swarm: with " + layers +
           ", its best use in this plan, a token takes " + FormatMicroseconds(best_change) +
           " longer";
  }
  if (best_change + best_departure >= 0) {
    return "it leaves too often: with " + layers + " it would save " +
           FormatMicroseconds(-best_change) + " per token, and its departures would cost " +
           FormatMicroseconds(best_departure) + " more";
  }
  return "with " + layers + " it would save " + FormatMicroseconds(-best_change) +
         " per token, but loading them is not worth that now";
}

std::vector<std::string> PlanNotes(const CostModel& model,
                                   const std::vector<WorkerMetrics>& workers,
                                   const PlanOutcome& outcome, int candidate_count) {
  const Plan& plan = *outcome.plan;
  std::vector<std::string> notes;
  if (outcome.strategy == SearchStrategy::kExact) {
    notes.push_back(
        Format("Exact search over %d worker%s: no other choice, order or cut has a lower "
               "cost (time per token plus what loading is worth now).",
               candidate_count, candidate_count == 1 ? "" : "s"));
  } else {
    notes.push_back(Format(
        "Search %s over %d workers%s.", std::string(SearchStrategyName(outcome.strategy)).c_str(),
        candidate_count, outcome.lower_bound > 0 ? "" : ": to compare with, not the best"));
  }
  for (const StageAssignment& stage : plan.stages) {
    const int first = model.PlaceOf(stage.first_layer).value();
    const int end = model.PlaceOf(stage.end_layer).value();
    const bool at_end = end == model.layer_count() || !model.Allowed(stage.worker, first, end + 1);
    const bool at_start = first == 0 || !model.Allowed(stage.worker, first - 1, end);
    const bool holds_all = first == 0 && end == model.layer_count();
    if (at_end && at_start && !holds_all) {
      notes.push_back(ShownName(workers, stage.worker) + " is full: one more layer does not fit.");
    }
  }
  const std::vector<int>& cuts = model.cuts();
  for (size_t place = 0; place + 1 < cuts.size(); ++place) {
    if (cuts[place + 1] - cuts[place] == 1) continue;
    notes.push_back(Capitalised(FormatLayers(cuts[place], cuts[place + 1], cuts.back())) +
                    " are kept together on one device: they share more than the residual stream.");
  }
  if (plan.stages.size() == 1 && candidate_count > 1) {
    notes.push_back("One device holds all layers; splitting them would cost more than it gains.");
  }
  return notes;
}

std::string_view SearchStrategyName(SearchStrategy strategy) {
  switch (strategy) {
    case SearchStrategy::kNone:
      return "none";
    case SearchStrategy::kExact:
      return "exact";
    case SearchStrategy::kPrices:
      return "by prices";
    case SearchStrategy::kEqual:
      return "equally";
    case SearchStrategy::kMemory:
      return "by memory";
    case SearchStrategy::kPermutations:
      return "by all orders";
    case SearchStrategy::kAnnealing:
      return "by annealing";
    case SearchStrategy::kRandom:
      return "by random orders";
  }
  return "unknown";
}

std::string ExplainPlan(const std::vector<LayerCost>& layers,
                        const std::vector<WorkerMetrics>& workers, const PlanOutcome& outcome) {
  std::string text;
  if (outcome.plan) {
    const Plan& plan = *outcome.plan;
    text += Format("Plan: %zu stage%s for %zu layers.\n", plan.stages.size(),
                   plan.stages.size() == 1 ? "" : "s", layers.size());
    text += DrawPlan(layers, workers, plan);
    AppendStages(plan, layers, workers, text);
    text += Format("Predicted time per token: %s (%.1f tokens/s).\n",
                   FormatMicroseconds(plan.exec_us).c_str(),
                   plan.exec_us > 0 ? 1e6 / plan.exec_us : 0.0);
    if (plan.slowest_us > 0) {
      text += Format("Many conversations at once: up to %.1f tokens/s.\n", 1e6 / plan.slowest_us);
    }
    if (plan.departure_us > 0) {
      text += "Expected departures cost " + FormatMicroseconds(plan.departure_us) + " per token.\n";
    }
    text += "Ready after " + FormatMicroseconds(plan.init_us) + " of loading.\n";
    text += GapSentence(outcome);
  } else {
    text += "No plan. " + outcome.problem + "\n";
    if (outcome.partial) {
      text += "What fits so far:\n";
      AppendStages(*outcome.partial, layers, workers, text);
    }
  }
  if (!outcome.notes.empty()) text += "Why:\n";
  for (const std::string& note : outcome.notes) text += "  - " + note + "\n";
  if (!outcome.left_out.empty()) text += "Without layers:\n";
  for (const LeftOutWorker& left_out : outcome.left_out) {
    text += "  - " + ShownName(workers, left_out.worker) + ": " + left_out.reason + ".\n";
  }
  return text;
}

}  // namespace weft::planner
