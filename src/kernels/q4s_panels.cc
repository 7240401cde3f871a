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

// Bit o of out[i] is bit i of in[o].
void TransposeBits(const uint16_t (&in)[16], uint16_t* out) {
  uint16_t rows[16];
  std::copy_n(in, 16, rows);
  uint16_t mask = 0x00ff;  // blocks of `size` bits change places with those `size` rows below
  for (unsigned size = 8; size > 0;
       size /= 2, mask = static_cast<uint16_t>(mask ^ (mask << size))) {
    for (unsigned i = 0; i < 16; i = (i + size + 1) & ~size) {
      const auto swapped = static_cast<uint16_t>((rows[i] >> size ^ rows[i + size]) & mask);
      rows[i] = static_cast<uint16_t>(rows[i] ^ (swapped << size));
      rows[i + size] = static_cast<uint16_t>(rows[i + size] ^ swapped);
    }
  }
  std::copy_n(rows, 16, out);
}

// Superblock `b` of the outputs from `first` on; `at` is what is being written.
void PackPart(const Matrix& stored, size_t first, size_t b, uint8_t* at, size_t blocks) {
  const size_t groups = blocks * 4;
  const size_t outputs = std::min(kPanelOutputs, stored.rows - first);
  const PanelPart part{at + kPanelRecordBytes, blocks};
  auto* scales = const_cast<uint16_t*>(part.scales());
  auto* magnitudes = const_cast<uint32_t*>(part.magnitudes());
  std::fill_n(scales, kPanelOutputs, uint16_t{0});
  std::fill_n(magnitudes, 2 * kPanelOutputs, kOnes);
  uint64_t words[kPanelOutputs][16] = {};
  uint16_t signs[kPanelOutputs] = {};
  for (size_t o = 0; o < kPanelOutputs; ++o) {
    if (o >= outputs) {
      std::fill_n(words[o], groups / 2, uint64_t{kNoLevels} << 32 | kNoLevels);
      continue;
    }
    std::memcpy(words[o], stored.DataRow(first + o) + b * 128, groups * 4);
    // All of them, whatever the superblock has: compilers use vectors for a number they know.
    for (uint64_t& two : words[o]) two = PanelOrderOfTwo(two);
    const uint16_t* record = stored.ScaleRow(first + o) + b * kSuperblockWords;
    scales[o] = record[0];
    signs[o] = record[1];
    magnitudes[o] = record[2] | uint32_t{record[3]} << 16;
    magnitudes[kPanelOutputs + o] = record[4] | uint32_t{record[5]} << 16;
  }
  TransposeBits(signs, const_cast<uint16_t*>(part.signs()));
  uint32_t column[2][kPanelOutputs];
  for (size_t t = 0; t < groups / 2; ++t) {
    for (size_t o = 0; o < kPanelOutputs; ++o) {
      column[0][o] = static_cast<uint32_t>(words[o][t]);
      column[1][o] = static_cast<uint32_t>(words[o][t] >> 32);
    }
    std::memcpy(at + kPanelRecordBytes + t * sizeof(column), column, sizeof(column));
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
