// Per head of queries or keys: RMS norm (when there is a weight), then rotary position embedding
// (when there are frequencies) on the first 2 * inv_freq.size() columns. `in` and `out` may be the
// same rows.
#pragma once

#include "kernels/view.h"
#include "kernels/workspace.h"

namespace weft::kernels {

struct QkNormRopeArgs {
  ConstRows in;  // [rows, heads * head_columns]
  size_t heads = 0;
  size_t head_columns = 0;
  std::span<const float> norm_weight;  // [head_columns], or empty: no norm
  float epsilon = 0;
  std::span<const float> inv_freq;      // [rotary_columns / 2], or empty: no rotation
  float rope_scale = 1;                 // multiplies cos and sin
  bool interleaved = false;             // pairs (2i, 2i + 1) instead of (i, i + half)
  std::span<const uint32_t> positions;  // [rows]
  Rows out;                             // [rows, heads * head_columns]
};

void QkNormRopeReference(const QkNormRopeArgs& args, Workspace& workspace);
void QkNormRopeSimd(const QkNormRopeArgs& args, Workspace& workspace);

// Private floats of Workspace that QkNormRopeSimd needs: a row's cosines and sines.
constexpr size_t QkNormRopeThreadFloats(size_t head_columns) {
  return head_columns;
}

}  // namespace weft::kernels
