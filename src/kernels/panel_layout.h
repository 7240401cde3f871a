// The integer kernels read weights in panels of 16 outputs, all columns of a panel before the next
// panel. The panels are made once from the stored weights and are as large as these. What a
// superblock of a panel looks like is a matter of its form: q4s_panels.h, kquant_panels.h. A
// weight's panels begin at a multiple of 64 bytes. Outputs that the weight has not are all 0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace weft::kernels {

inline constexpr size_t kPanelOutputs = 16;
inline constexpr size_t kSuperblockColumns = 256;

// Of a panel of so many columns. REQUIRES: IsSuperblockFormat(dtype).
constexpr size_t PanelBytes(DType dtype, size_t columns) {
  const auto count = static_cast<int64_t>(columns);
  const auto row_bytes = static_cast<size_t>(BlockCount(count) * kBlockValues / 2);
  return kPanelOutputs * (row_bytes + 2 * static_cast<size_t>(ScaleWords(dtype, count)));
}
// Of a weight's panels. REQUIRES: it fits.
constexpr size_t PanelsBytes(DType dtype, size_t rows, size_t columns) {
  return (rows + kPanelOutputs - 1) / kPanelOutputs * PanelBytes(dtype, columns);
}

// Nibbles of eight columns as stored, in the order of panels: byte k has columns k (low nibble) and
// 4 + k (high nibble). Example: 0x76543210 becomes 0x73625140.
constexpr uint32_t PanelOrder(uint32_t stored) {
  const auto spread = [](uint32_t half) {
    const uint32_t pairs = (half | half << 8) & 0x00ff00ffu;
    return (pairs | pairs << 4) & 0x0f0f0f0fu;
  };
  return spread(stored & 0xffffu) | spread(stored >> 16) << 4;
}
static_assert(PanelOrder(0x76543210u) == 0x73625140u);
// The same of two such words at once.
constexpr uint64_t PanelOrderOfTwo(uint64_t stored) {
  const auto spread = [](uint64_t halves) {
    const uint64_t pairs = (halves | halves << 8) & 0x00ff00ff00ff00ffull;
    return (pairs | pairs << 4) & 0x0f0f0f0f0f0f0f0full;
  };
  constexpr uint64_t kHalves = 0x0000ffff0000ffffull;
  return spread(stored & kHalves) | spread(stored >> 16 & kHalves) << 4;
}
static_assert(PanelOrderOfTwo(0xfedcba9876543210ull) == 0xfbead9c873625140ull);

}  // namespace weft::kernels
