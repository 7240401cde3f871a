#include "kernels/causal_conv.h"

#include <cmath>
#include <vector>

namespace weft::kernels {

void CausalConvReference(const CausalConvArgs& args, Workspace&) {
  const size_t columns = args.in.columns, taps = args.weight.size() / columns;
  CHECK(taps >= 2 && taps <= kMostConvTaps && args.out.columns == columns);
  for (const StateRun& run : args.runs) {
    for (size_t column = 0; column < columns; ++column) {
      std::vector<float> past(taps);  // the row's own value comes last
      for (size_t j = 0; j + 1 < taps; ++j) {
        past[j] = run.before == nullptr ? 0 : run.before[j * columns + column];
      }
      for (size_t row = run.first_row; row < run.first_row + run.row_count; ++row) {
        past[taps - 1] = args.in.Row(row)[column];
        double sum = args.bias.empty() ? 0 : args.bias[column];
        for (size_t j = 0; j < taps; ++j) sum += double{args.weight[column * taps + j]} * past[j];
        if (args.silu) sum /= 1 + std::exp(-sum);
        args.out.Row(row)[column] = static_cast<float>(sum);
        for (size_t j = 0; j + 1 < taps; ++j) past[j] = past[j + 1];
      }
      for (size_t j = 0; j + 1 < taps; ++j) run.after[j * columns + column] = past[j];
    }
  }
}

}  // namespace weft::kernels
