#include "kernels/finite.h"

#include <atomic>
#include <bit>
#include <cstdint>

namespace weft::kernels {

size_t CountNonFinite(std::span<const float> values) {
  size_t count = 0;
  for (const float value : values) {
    count += (std::bit_cast<uint32_t>(value) & 0x7f800000u) == 0x7f800000u ? 1 : 0;
  }
  return count;
}

size_t CountNonFinite(const ConstRows& rows, Workspace& workspace) {
  std::atomic<size_t> count = 0;
  ForRows(rows.rows, workspace, [&](size_t row) {
    if (const size_t some = CountNonFinite(rows.Row(row)); some > 0) count += some;
  });
  return count;
}

}  // namespace weft::kernels
