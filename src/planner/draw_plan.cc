#include "planner/draw_plan.h"

#include <algorithm>
#include <cmath>

#include "planner/words.h"

namespace weft::planner {
namespace {

constexpr int kLayerColumns = 36, kTimeColumns = 28;

// The column where layer `layer` of `layer_count` begins.
int ColumnOf(int layer, int layer_count, int columns) {
  return static_cast<int>(std::lround(static_cast<double>(layer) * columns / layer_count));
}

// "[====]" from the stage's first layer to its last; one column is "|".
std::string LayerBar(const StageAssignment& stage, int layer_count, int columns) {
  const int first = ColumnOf(stage.first_layer, layer_count, columns);
  const int end = std::max(first + 1, ColumnOf(stage.end_layer, layer_count, columns));
  std::string bar(static_cast<size_t>(std::min(first, columns - 1)), ' ');
  const int length = end - first;
  bar += length < 2 ? "|" : "[" + std::string(static_cast<size_t>(length) - 2, '=') + "]";
  return Padded(bar, static_cast<size_t>(columns));
}

// Where the stage's time goes, the slowest stage being as long as all columns.
std::string TimeBar(const StageAssignment& stage, double slowest_us) {
  std::string bar;
  double us = 0;
  const std::pair<double, char> parts[] = {
      {stage.compute_us, '#'}, {stage.overhead_us, 'o'}, {stage.transfer_us, '~'}};
  for (const auto& [part_us, mark] : parts) {
    us += part_us;
    const double columns = slowest_us > 0 ? us / slowest_us * kTimeColumns : 0;
    bar.resize(static_cast<size_t>(std::lround(columns)), mark);
  }
  return Padded(bar, kTimeColumns);
}

std::string RightAligned(const std::string& text, size_t columns) {
  return std::string(columns - std::min(text.size(), columns), ' ') + text;
}

}  // namespace

std::string DrawPlan(const std::vector<LayerCost>& layers,
                     const std::vector<WorkerMetrics>& workers, const Plan& plan) {
  const int layer_count = static_cast<int>(layers.size());
  // Every layer as wide as the others, where there is room for it.
  const int columns = std::max(kLayerColumns / layer_count, 1) * layer_count;
  const int shown_columns = std::min(columns, kLayerColumns);
  size_t name_width = 0;
  double slowest_us = 0;
  for (const StageAssignment& stage : plan.stages) {
    name_width = std::max(name_width, ShownName(workers, stage.worker).size());
    slowest_us = std::max(slowest_us, stage.exec_us);
  }
  const std::string ruler =
      layer_count > 3 ? "embedding, layers 1-" + std::to_string(layer_count - 2) + ", head"
                      : "layers";
  const size_t bar_width = std::max(static_cast<size_t>(shown_columns), ruler.size());
  std::string text = "  " + Padded("", name_width) + "  " + Padded(ruler, bar_width) +
                     "  time per token: # compute, o overhead, ~ network\n";
  for (const StageAssignment& stage : plan.stages) {
    text += "  " + Padded(ShownName(workers, stage.worker), name_width) + "  " +
            Padded(LayerBar(stage, layer_count, shown_columns), bar_width) + "  " +
            TimeBar(stage, slowest_us) + RightAligned(FormatMicroseconds(stage.exec_us), 10) + "\n";
  }
  if (plan.stages.size() > 1) {
    text += std::string(name_width + bar_width + 6, ' ') + Padded("", kTimeColumns) +
            RightAligned(FormatMicroseconds(plan.exec_us), 10) + "\n";
  }
  return text;
}

}  // namespace weft::planner
