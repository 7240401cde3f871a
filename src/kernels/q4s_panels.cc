#include "kernels/q4s_panels.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "tensor/half.h"
#include "tensor/q4s.h"

namespace weft::kernels {
namespace {

constexpr uint32_t kNoLevels = 0x88888888u;  // eight times 0
constexpr uint32_t kOnes = 0x11111111u;      // eight multipliers of 1

// Superblock `b` of the outputs from `first` on; `part` points into what is being written.
void PackPart(const Matrix& stored, size_t first, size_t b, uint8_t* at, size_t blocks) {
  const size_t groups = blocks * 4;
  const size_t outputs = std::min(kPanelOutputs, stored.rows - first);
  const PanelPart part{at, blocks};
  auto* scales = const_cast<uint16_t*>(part.scales());
  auto* signs = const_cast<uint16_t*>(part.signs());
  auto* magnitudes = const_cast<uint32_t*>(part.magnitudes());
  std::fill_n(scales, kPanelOutputs, uint16_t{0});
  std::fill_n(signs, kMultipliers, uint16_t{0});
  std::fill_n(magnitudes, 2 * kPanelOutputs, kOnes);
  uint32_t words[32];
  for (size_t o = 0; o < kPanelOutputs; ++o) {
    if (o < outputs) {
      std::memcpy(words, stored.DataRow(first + o) + b * 128, groups * 4);
      for (size_t t = 0; t < groups; ++t) words[t] = PanelOrder(words[t]);
      const uint16_t* record = stored.ScaleRow(first + o) + b * kSuperblockWords;
      scales[o] = record[0];
      for (size_t i = 0; i < kMultipliers; ++i)
        signs[i] = static_cast<uint16_t>(signs[i] | ((record[1] >> i) & 1) << o);
      magnitudes[o] = record[2] | uint32_t{record[3]} << 16;
      magnitudes[kPanelOutputs + o] = record[4] | uint32_t{record[5]} << 16;
    } else {
      std::fill_n(words, groups, kNoLevels);
    }
    for (size_t t = 0; t < groups; ++t) std::memcpy(at + (t * kPanelOutputs + o) * 4, &words[t], 4);
  }
}

// Levels and multipliers of one output of a panel.
void ReadOutput(const PanelPart& part, size_t o, std::span<int8_t> weights) {
  for (size_t c = 0; c < weights.size(); ++c) {
    const uint8_t byte = part.nibbles[(c / 8 * kPanelOutputs + o) * 4 + c % 4];
    const int level = (c % 8 < 4 ? byte & 15 : byte >> 4) - 8;
    const size_t i = c / static_cast<size_t>(kMultiplierValues);
    const uint32_t magnitudes = part.magnitudes()[i / 8 * kPanelOutputs + o];
    const auto m = static_cast<int>((magnitudes >> (i % 8 * 4)) & 15);
    const bool negative = ((part.signs()[i] >> o) & 1) != 0;
    weights[c] = static_cast<int8_t>(level * (negative ? -m : m));
  }
}

void ReadStoredRow(const Matrix& matrix, size_t row, std::span<int8_t> weights,
                   std::span<float> scales) {
  for (size_t b = 0; b < scales.size(); ++b) {
    const Q4sRecord record = ReadQ4sRecord(matrix.ScaleRow(row) + b * kSuperblockWords);
    scales[b] = F16ToF32(record.scale);
    const size_t first = b * kSuperblockColumns;
    const size_t end = std::min(first + kSuperblockColumns, weights.size());
    for (size_t c = first; c < end; ++c) {
      const int level = ((matrix.DataRow(row)[c / 2] >> (c % 2 * 4)) & 15) - 8;
      const int m = record.multipliers[(c - first) / static_cast<size_t>(kMultiplierValues)];
      weights[c] = static_cast<int8_t>(m * level);
    }
  }
}

}  // namespace

void PackQ4sPanels(const Matrix& stored, uint8_t* panels) {
  const size_t superblocks = stored.scale_words() / kSuperblockWords;
  for (size_t first = 0; first < stored.rows; first += kPanelOutputs) {
    for (size_t b = 0; b < superblocks; ++b) {
      const size_t blocks = BlocksInSuperblock(stored.columns, b);
      PackPart(stored, first, b, panels, blocks);
      panels += blocks * 256 + kPanelRecordBytes;
    }
  }
}

void ReadQ4sRow(const Matrix& matrix, size_t row, std::span<int8_t> weights,
                std::span<float> scales) {
  CHECK(matrix.dtype == DType::kQ4S && row < matrix.rows && weights.size() == matrix.columns &&
        scales.size() * kSuperblockWords == matrix.scale_words());
  if (matrix.panels == nullptr) return ReadStoredRow(matrix, row, weights, scales);
  const size_t at = matrix.first_row + row;
  const uint8_t* panel =
      matrix.panels + at / kPanelOutputs * PanelBytes(DType::kQ4S, matrix.columns);
  for (size_t b = 0; b < scales.size(); ++b) {
    const PanelPart part = PartOf(panel, matrix.columns, b);
    const size_t first = b * kSuperblockColumns;
    scales[b] = F16ToF32(part.scales()[at % kPanelOutputs]);
    ReadOutput(part, at % kPanelOutputs,
               weights.subspan(first, std::min(kSuperblockColumns, weights.size() - first)));
  }
}

void ReadQ4sPanelRow(const Matrix& matrix, size_t row, std::span<float> out) {
  std::vector<int8_t> weights(matrix.columns);
  std::vector<float> scales(matrix.scale_words() / kSuperblockWords);
  ReadQ4sRow(matrix, row, weights, scales);
  for (size_t c = 0; c < out.size(); ++c)
    out[c] = static_cast<float>(weights[c]) * scales[c / kSuperblockColumns];
}

}  // namespace weft::kernels
