// What recurrent kernels (causal_conv.h, delta_rule.h, ssm_scan.h) take beside their rows: which
// rows belong to one session, and where its state lies.
#pragma once

#include <cmath>
#include <cstddef>

namespace weft::kernels {

// Rows [first_row, first_row + row_count) of a batch: consecutive positions of one session.
struct StateRun {
  size_t first_row = 0;
  size_t row_count = 0;
  const float* before = nullptr;  // the state that the first row meets; null: zeros
  float* after = nullptr;         // receives the state behind the last row; may be `before`
};

// log(1 + e^x), as torch computes it: x itself above 20.
inline double Softplus(double x) {
  return x > 20 ? x : std::log1p(std::exp(x));
}
inline double SigmoidOf(double x) {
  return 1 / (1 + std::exp(-x));
}

}  // namespace weft::kernels
