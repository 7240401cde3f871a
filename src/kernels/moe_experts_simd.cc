// The experts of a layer as a few parallel regions: an expert takes all rows that chose it, so that
// its weights are read once. Each row is prepared for products once, however many experts it chose.
#include "kernels/moe_experts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/matmul.h"

namespace weft::kernels {
namespace {

// Rows that chose one expert, as a run of the rows of all experts.
struct ExpertRows {
  size_t expert = 0;
  size_t first = 0;  // gathered row
  size_t count = 0;
};

struct Gathered {
  std::vector<ExpertRows> experts;  // those with rows
  std::vector<size_t> place;        // [rows * top_k]: the gathered row of a row's slot
  std::vector<uint32_t> row;        // [rows * top_k]: the row that a gathered row is
};

Gathered Gather(const MoeExpertsArgs& args) {
  const size_t rows = args.in.rows;
  Gathered gathered;
  std::vector<size_t> counts(args.gate_up.size() + 1);
  for (size_t row = 0; row < rows; ++row) {
    for (const float expert : args.route.Row(row).first(args.top_k)) {
      CHECK(expert >= 0 && expert < static_cast<float>(args.gate_up.size()));
      ++counts[static_cast<size_t>(expert)];
    }
  }
  size_t first = 0;
  for (size_t expert = 0; expert < args.gate_up.size(); ++expert) {
    const size_t count = std::exchange(counts[expert], first);  // from now on: the next free place
    if (count > 0) gathered.experts.push_back({expert, first, count});
    first += count;
  }
  gathered.place.reserve(rows * args.top_k);
  gathered.row.resize(rows * args.top_k);
  for (size_t row = 0; row < rows; ++row) {
    for (const float expert : args.route.Row(row).first(args.top_k)) {
      gathered.place.push_back(counts[static_cast<size_t>(expert)]++);
      gathered.row[gathered.place.back()] = static_cast<uint32_t>(row);
    }
  }
  return gathered;
}

Rows RowsAt(float* base, size_t columns, const ExpertRows& rows) {
  return {base + rows.first * columns, rows.count, columns, columns};
}

std::span<const float> BiasOf(std::span<const float> bias, size_t expert, size_t columns) {
  return bias.empty() ? bias : bias.subspan(expert * columns, columns);
}

// `result_of(slot)` is where the row of the row's slot begins.
template <typename ResultOf>
void SumRow(const SumGrid& grid, std::span<const float> weights, const ResultOf& result_of,
            std::span<float> sum) {
  std::ranges::fill(sum, 0.0f);
  for (size_t slot = 0; slot < weights.size(); ++slot)
    AddRoundedSimd(grid, weights[slot], {result_of(slot), sum.size()}, sum);
}

}  // namespace

void SumSlotsSimd(const SumSlotsArgs& args, Workspace& workspace) {
  workspace.threads().Run(args.out.rows, [&](size_t row, size_t) {
    SumRow(
        {}, args.route.Row(row).subspan(args.top_k),
        [&](size_t slot) { return args.slots.Row(row * args.top_k + slot).data(); },
        args.out.Row(row));
  });
}

void MoeExpertsSimd(const MoeExpertsArgs& args, Workspace& workspace) {
  CHECK(args.route.columns == 2 * args.top_k && args.gate_up.size() == args.down.size() &&
        !args.down.empty() && args.out.rows == args.in.rows);
  const size_t columns = args.in.columns;
  const size_t width = args.down[0].columns;
  const size_t both = args.gate_up[0].rows;  // rows of gate and up
  const size_t all_rows = args.in.rows * args.top_k;
  const Gathered gathered = Gather(args);

  float* gate_up = workspace.Shared(
      Workspace::kExperts, MoeExpertsScratchFloats(args.in.rows, args.top_k, columns, width));
  float* out = gate_up + all_rows * both;
  std::vector<MatMulArgs> products;
  for (const ExpertRows& rows : gathered.experts) {
    products.push_back({args.in, args.gate_up[rows.expert],
                        BiasOf(args.gate_up_bias, rows.expert, both), RowsAt(gate_up, both, rows),
                        std::span(gathered.row).subspan(rows.first, rows.count)});
  }
  MatMulsSimd(products, workspace);

  const Rows gate = {gate_up, all_rows, width, both};
  const Rows up = {gate_up + both - width, all_rows, width, both};
  GatedActivationSimd({gate, up, args.kind, gate}, workspace);
  products.clear();
  for (const ExpertRows& rows : gathered.experts) {
    const Rows hidden = {gate_up + rows.first * both, rows.count, width, both};
    products.push_back({hidden, args.down[rows.expert],
                        BiasOf(args.down_bias, rows.expert, columns), RowsAt(out, columns, rows)});
  }
  MatMulsSimd(products, workspace);

  workspace.threads().Run(args.in.rows, [&](size_t row, size_t) {
    SumRow(
        args.grid, args.route.Row(row).subspan(args.top_k),
        [&](size_t slot) { return out + gathered.place[row * args.top_k + slot] * columns; },
        args.out.Row(row));
  });
}

}  // namespace weft::kernels
