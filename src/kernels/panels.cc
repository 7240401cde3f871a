#include "kernels/panels.h"

#include <cstring>
#include <string>

#include "kernels/kquant_panels.h"
#include "kernels/q4s_panels.h"
#include "tensor/kquants.h"
#include "tensor/q4s.h"

namespace weft::kernels {
namespace {

// Whether all records of a q4s row of whole superblocks are good. Of those that are not,
// CheckQ4sRow says what is wrong.
bool AreGoodQ4sRecords(std::span<const uint16_t> words) {
  uint16_t infinite = 0;
  uint64_t zeros = 0;
  for (size_t b = 0; b < words.size(); b += kSuperblockWords) {
    infinite = static_cast<uint16_t>(infinite | ((words[b] & 0x7c00) == 0x7c00 ? 1 : 0));
    uint64_t magnitudes;
    std::memcpy(&magnitudes, &words[b + 2], sizeof(magnitudes));
    // The highest bit of a nibble is left where the nibble is 0, or above one that is.
    zeros |= (magnitudes - 0x1111111111111111ull) & ~magnitudes & 0x8888888888888888ull;
  }
  return infinite == 0 && zeros == 0;
}

}  // namespace

Status CheckRecords(const Matrix& stored) {
  CHECK(IsSuperblockFormat(stored.dtype) && stored.panels == nullptr);
  for (size_t row = 0; row < stored.rows; ++row) {
    const std::span<const uint16_t> words(stored.ScaleRow(row), stored.scale_words());
    if (stored.dtype == DType::kQ4S && stored.columns % kSuperblockColumns == 0 &&
        AreGoodQ4sRecords(words))
      continue;
    const Status status = stored.dtype == DType::kQ4S
                              ? CheckQ4sRow(words, static_cast<int64_t>(stored.columns))
                              : CheckKQuantRow(stored.dtype, words);
    if (!status.ok()) return Error(status.error()).Context("In row " + std::to_string(row));
  }
  return OkStatus();
}

Status PackPanels(const Matrix& stored, uint8_t* panels) {
  CHECK(reinterpret_cast<uintptr_t>(panels) % 64 == 0);
  TRY(CheckRecords(stored));
  if (stored.dtype == DType::kQ4S)
    PackQ4sPanels(stored, panels);
  else
    PackKQuantPanels(stored, panels);
  return OkStatus();
}

void ReadPanelRow(const Matrix& matrix, size_t row, std::span<float> out) {
  if (matrix.dtype == DType::kQ4S) return ReadQ4sPanelRow(matrix, row, out);
  ReadKQuantPanelRow(matrix, row, out);
}

}  // namespace weft::kernels
