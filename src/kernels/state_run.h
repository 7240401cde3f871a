// Recurrent kernels (causal_conv.h, delta_rule.h, ssm_scan.h) take this beside their rows: which
// rows belong to one session, and where its state lies. A state that is a matrix for each head is
// walked here, too.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "kernels/workspace.h"

namespace weft::kernels {

inline constexpr size_t kMostStateColumns = 256;  // program::kMaxStateColumns

// Rows [first_row, first_row + row_count) of a batch: consecutive positions of one session.
struct StateRun {
  size_t first_row = 0;
  size_t row_count = 0;
  const float* before = nullptr;  // the state that the first row meets; null: zeros
  float* after = nullptr;         // receives the state behind the last row; may be `before`
};

// The rows of all runs, head by head: `row_of(row, head, state)` brings a head's state, of
// `head_floats` values, from the row before to this one.
template <typename RowOf>
void RunStateHeads(std::span<const StateRun> runs, size_t head_count, size_t head_floats,
                   const RowOf& row_of) {
  for (const StateRun& run : runs) {
    for (size_t head = 0; head < head_count; ++head) {
      float* state = run.after + head * head_floats;
      if (run.before == nullptr) {
        std::fill_n(state, head_floats, 0.0f);
      } else if (run.before != run.after) {
        std::copy_n(run.before + head * head_floats, head_floats, state);
      }
      for (size_t row = 0; row < run.row_count; ++row) row_of(run.first_row + row, head, state);
    }
  }
}

// Columns of a head's state do not depend on one another. `columns_of(run, head, first, n)` takes
// columns [first, first + n) of a head through a whole run, at most sixteen at a time, on threads.
template <typename ColumnsOf>
void RunStateColumns(Workspace& workspace, std::span<const StateRun> runs, size_t head_count,
                     size_t column_count, const ColumnsOf& columns_of) {
  constexpr size_t kColumns = 16;
  const size_t parts = (column_count + kColumns - 1) / kColumns;
  workspace.threads().Run(runs.size() * head_count * parts, [&](size_t task, size_t) {
    const size_t first = task % parts * kColumns;
    columns_of(runs[task / parts / head_count], task / parts % head_count, first,
               std::min(kColumns, column_count - first));
  });
}

// log(1 + e^x), as torch computes it: x itself above 20.
inline double Softplus(double x) {
  return x > 20 ? x : std::log1p(std::exp(x));
}
inline double SigmoidOf(double x) {
  return 1 / (1 + std::exp(-x));
}

}  // namespace weft::kernels
