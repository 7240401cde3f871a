// Panels (panel_layout.h) of q4s (tensor/dtype.h). A superblock of a panel, of `blocks` blocks of
// 32 columns, is
//   f16 [16]                 S of each output
//   u16 [16]                 signs: bit o of word i is set where multiplier i of output o is
//                            negative
//   u32 [2][16]              magnitudes of multipliers 0 to 7, then 8 to 15, lowest nibble first
//   u8  [blocks * 4][16][4]  byte k of output o in group t: columns 8 t + k (low nibble) and
//                            8 t + 4 + k (high nibble), so that one 32-bit lane is one output
// 140 bytes an output and superblock, as stored. Outputs that the weight has not have multipliers
// of 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/matrix.h"
#include "kernels/panel_layout.h"

namespace weft::kernels {

inline constexpr size_t kPanelRecordBytes = kPanelOutputs * 12;
inline constexpr size_t kSuperblockBytes = 8 * 256 + kPanelRecordBytes;  // with all blocks

// One superblock of a panel.
struct PanelPart {
  const uint8_t* nibbles;
  size_t blocks;  // of 32 columns, at most 8

  const uint16_t* scales() const {
    return reinterpret_cast<const uint16_t*>(nibbles - kPanelRecordBytes);
  }
  const uint16_t* signs() const { return scales() + kPanelOutputs; }
  const uint32_t* magnitudes() const {
    return reinterpret_cast<const uint32_t*>(signs() + kPanelOutputs);
  }
};

// Blocks of 32 in superblock `b` of a row of `columns`.
constexpr size_t BlocksInSuperblock(size_t columns, size_t b) {
  const size_t rest = columns - b * kSuperblockColumns;
  return rest >= kSuperblockColumns ? 8 : (rest + 31) / 32;
}
// All superblocks but the last of a row have 8 blocks.
inline PanelPart PartOf(const uint8_t* panel, size_t columns, size_t b) {
  return {panel + b * kSuperblockBytes + kPanelRecordBytes, BlocksInSuperblock(columns, b)};
}

// Writes PanelsBytes bytes. REQUIRES: q4s, as stored, with records that CheckQ4sRow takes.
void PackQ4sPanels(const Matrix& stored, uint8_t* panels);

// A row's whole numbers m * (q - 8), and S of each superblock, of either form of q4s.
void ReadQ4sRow(const Matrix& matrix, size_t row, std::span<int8_t> weights,
                std::span<float> scales);
// The same as f32. REQUIRES: panels, out.size() == matrix.columns.
void ReadQ4sPanelRow(const Matrix& matrix, size_t row, std::span<float> out);

}  // namespace weft::kernels
