#include "kernels/panels.h"

#include <string>

#include "kernels/kquant_panels.h"
#include "kernels/q4s_panels.h"
#include "tensor/kquants.h"
#include "tensor/q4s.h"

namespace weft::kernels {

Status CheckRecords(const Matrix& stored) {
  CHECK(IsSuperblockFormat(stored.dtype) && stored.panels == nullptr);
  for (size_t row = 0; row < stored.rows; ++row) {
    const std::span<const uint16_t> words(stored.ScaleRow(row), stored.scale_words());
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
