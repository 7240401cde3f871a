#include "kernels/moe_experts.h"

#include <algorithm>
#include <vector>

#include "kernels/matmul.h"

namespace weft::kernels {
namespace {

std::span<const float> BiasOf(std::span<const float> bias, size_t expert, size_t columns) {
  return bias.empty() ? bias : bias.subspan(expert * columns, columns);
}

class SlotSum {
 public:
  explicit SlotSum(size_t columns) : sum_(columns, 0.0) {}
  void Add(float weight, std::span<const float> slot) {
    for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += static_cast<double>(weight) * slot[i];
  }
  void Round(std::span<float> out) const {
    std::ranges::transform(sum_, out.begin(), [](double x) { return static_cast<float>(x); });
  }

 private:
  std::vector<double> sum_;
};

}  // namespace

void SumSlotsReference(const SumSlotsArgs& args, Workspace&) {
  for (size_t row = 0; row < args.out.rows; ++row) {
    SlotSum sum(args.out.columns);
    for (size_t slot = 0; slot < args.top_k; ++slot)
      sum.Add(args.route.Row(row)[args.top_k + slot], args.slots.Row(row * args.top_k + slot));
    sum.Round(args.out.Row(row));
  }
}

void MoeExpertsReference(const MoeExpertsArgs& args, Workspace& workspace) {
  CHECK(args.route.columns == 2 * args.top_k && args.gate_up.size() == args.down.size());
  const size_t columns = args.in.columns;
  const size_t width = args.down.empty() ? 0 : args.down[0].columns;
  const size_t both = args.gate_up.empty() ? 0 : args.gate_up[0].rows;  // rows of gate and up
  std::vector<float> gate_up(both);
  std::vector<float> expert_out(columns);
  for (size_t row = 0; row < args.in.rows; ++row) {
    const std::span<const float> route = args.route.Row(row);
    SlotSum sum(columns);
    for (size_t slot = 0; slot < args.top_k; ++slot) {
      const auto expert = static_cast<size_t>(route[slot]);
      const Rows hidden = {gate_up.data(), 1, both, both};
      MatMulReference({{args.in.Row(row).data(), 1, columns, columns},
                       args.gate_up[expert],
                       BiasOf(args.gate_up_bias, expert, both),
                       hidden},
                      workspace);
      const Rows gate = {gate_up.data(), 1, width, width};
      const Rows up = {gate_up.data() + both - width, 1, width, width};
      GatedActivationReference({gate, up, args.kind, gate}, workspace);
      MatMulReference({gate,
                       args.down[expert],
                       BiasOf(args.down_bias, expert, columns),
                       {expert_out.data(), 1, columns, columns}},
                      workspace);
      RoundToGrid(args.grid, expert_out);
      sum.Add(route[args.top_k + slot], expert_out);
    }
    sum.Round(args.out.Row(row));
  }
}

}  // namespace weft::kernels
