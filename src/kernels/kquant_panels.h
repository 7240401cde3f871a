// Panels (panel_layout.h) of q4k, q5k and q6k (tensor/kquants.h). A superblock of a panel is, in
// this order:
//   f16 [16]          d
//   f16 [16]          q4k, q5k: e
//   u32 [3][16]       q4k, q5k: s and m, as packed
//   u32 [4][16]       q6k: s
// and eight times, for 32 columns each,
//   u8  [4][16][4]    byte k of output o in group t: columns 8 t + k (low nibble) and 8 t + 4 + k
//                     (high nibble), so that one 32-bit lane is one output
//   u32 [1][16]       q5k: fifth bits of 32 columns
//   u32 [2][16]       q6k: bits 4 and 5 of 16 columns
// 144, 176 or 210 bytes an output, as stored. Words of upper bits are those of the record. Kernels
// read all of it from the first byte to the last, as memory likes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/matrix.h"
#include "kernels/panel_layout.h"
#include "tensor/kquants.h"

namespace weft::kernels {

// Where the parts of a superblock of a panel lie, in bytes.
struct KQuantLayout {
  size_t factors = 0;      // d, and e
  size_t scales = 0;       // s, and m
  size_t columns = 0;      // the first 32 columns
  size_t upper_words = 0;  // of 32 columns of an output
  size_t end = 0;

  // Group t of eight columns, in [0, 32).
  constexpr size_t Nibbles(size_t t) const { return Columns(t / 4) + t % 4 * kWordBytes; }
  // Word i of bits above the nibbles, in [0, 8 * upper_words).
  constexpr size_t Upper(size_t i) const {
    return Columns(i / upper_words) + (4 + i % upper_words) * kWordBytes;
  }

 private:
  static constexpr size_t kWordBytes = kPanelOutputs * 4;  // a word of each output
  constexpr size_t Columns(size_t j) const { return columns + j * (4 + upper_words) * kWordBytes; }
};
constexpr KQuantLayout LayoutOf(DType dtype) {
  KQuantLayout layout;
  const bool has_minima = dtype != DType::kQ6K;
  layout.upper_words = dtype == DType::kQ4K ? 0 : dtype == DType::kQ5K ? 1 : 2;
  layout.scales = layout.factors + (has_minima ? 2 : 1) * kPanelOutputs * 2;
  layout.columns = layout.scales + (has_minima ? 3 : 4) * kPanelOutputs * 4;
  layout.end = layout.Nibbles(32);
  return layout;
}
static_assert(LayoutOf(DType::kQ4K).end == PanelBytes(DType::kQ4K, 256));
static_assert(LayoutOf(DType::kQ5K).end == PanelBytes(DType::kQ5K, 256));
static_assert(LayoutOf(DType::kQ6K).end == PanelBytes(DType::kQ6K, 256));

// Writes PanelsBytes bytes. REQUIRES: IsKQuant, as stored.
void PackKQuantPanels(const Matrix& stored, uint8_t* panels);

// Records and levels (tensor/kquants.h) of a row, stored or in panels. `records` has one a
// superblock, `levels` [columns].
void ReadKQuantRow(const Matrix& matrix, size_t row, std::span<KQuantRecord> records,
                   std::span<int8_t> levels);
// The row as f32. REQUIRES: panels, out.size() == matrix.columns.
void ReadKQuantPanelRow(const Matrix& matrix, size_t row, std::span<float> out);

}  // namespace weft::kernels
