#include "kernels/kquant_panels.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace weft::kernels {
namespace {

constexpr size_t kGroups = 32;         // of eight columns
constexpr size_t kDataBytes = 128;     // of a superblock of an output, as stored
constexpr size_t kMostWords = 41;      // of a record
constexpr size_t kNothing = SIZE_MAX;  // no such part

// Where the parts of a record lie, in bytes.
struct RecordLayout {
  size_t scales, scale_words;  // s and m, in words of 32 bits
  size_t upper, upper_words;
  size_t minimum;  // e, or kNothing
};
RecordLayout RecordLayoutOf(DType dtype) {
  if (dtype == DType::kQ6K) return {2, 4, 18, 16, kNothing};
  return {4, 3, 16, dtype == DType::kQ5K ? size_t{8} : size_t{0}, 2};
}

// Calls take(byte of the panel's superblock, byte of the record, byte count) for every part of a
// record of output `o`.
template <typename Take>
void ForEachPart(DType dtype, size_t o, Take take) {
  const KQuantLayout panel = LayoutOf(dtype);
  const RecordLayout record = RecordLayoutOf(dtype);
  for (size_t i = 0; i < record.upper_words; ++i)
    take(panel.Upper(i) + o * 4, record.upper + 4 * i, size_t{4});
  for (size_t i = 0; i < record.scale_words; ++i)
    take(panel.scales + (i * kPanelOutputs + o) * 4, record.scales + 4 * i, size_t{4});
  take(panel.factors + o * 2, size_t{0}, size_t{2});
  if (record.minimum != kNothing)
    take(panel.factors + (kPanelOutputs + o) * 2, record.minimum, size_t{2});
}

void PackPart(const Matrix& stored, size_t first, size_t b, uint8_t* panel) {
  const auto record_words = static_cast<size_t>(RecordWords(stored.dtype));
  const size_t outputs = std::min(kPanelOutputs, stored.rows - first);
  const KQuantLayout layout = LayoutOf(stored.dtype);
  std::fill_n(panel, layout.end, uint8_t{0});
  for (size_t o = 0; o < outputs; ++o) {
    const uint8_t* data = stored.DataRow(first + o) + b * kDataBytes;
    for (size_t t = 0; t < kGroups; ++t) {
      uint32_t word;
      std::memcpy(&word, data + 4 * t, 4);
      word = PanelOrder(word);
      std::memcpy(panel + layout.Nibbles(t) + o * 4, &word, 4);
    }
    const auto* record =
        reinterpret_cast<const uint8_t*>(stored.ScaleRow(first + o) + b * record_words);
    ForEachPart(stored.dtype, o, [&](size_t to, size_t from, size_t byte_count) {
      std::memcpy(panel + to, record + from, byte_count);
    });
  }
}

// An output's superblock as it was stored.
void UnpackPart(DType dtype, const uint8_t* panel, size_t o, uint8_t* data, uint16_t* words) {
  const KQuantLayout layout = LayoutOf(dtype);
  for (size_t t = 0; t < kGroups; ++t) {
    for (size_t k = 0; k < 4; ++k) {
      const uint8_t byte = panel[layout.Nibbles(t) + o * 4 + k];
      for (const size_t c : {8 * t + k, 8 * t + 4 + k}) {
        const int level = c % 8 < 4 ? byte & 15 : byte >> 4;
        uint8_t& pair = data[c / 2];
        pair = static_cast<uint8_t>(c % 2 == 0 ? (pair & 0xf0) | level : (pair & 15) | level << 4);
      }
    }
  }
  ForEachPart(dtype, o, [&](size_t from, size_t to, size_t byte_count) {
    std::memcpy(reinterpret_cast<uint8_t*>(words) + to, panel + from, byte_count);
  });
}

}  // namespace

void PackKQuantPanels(const Matrix& stored, uint8_t* panels) {
  CHECK(IsKQuant(stored.dtype) && stored.panels == nullptr &&
        stored.columns % kSuperblockColumns == 0);
  for (size_t first = 0; first < stored.rows; first += kPanelOutputs) {
    for (size_t b = 0; b < stored.columns / kSuperblockColumns; ++b) {
      PackPart(stored, first, b, panels);
      panels += LayoutOf(stored.dtype).end;
    }
  }
}

void ReadKQuantRow(const Matrix& matrix, size_t row, std::span<KQuantRecord> records,
                   std::span<int8_t> levels) {
  CHECK(IsKQuant(matrix.dtype) && row < matrix.rows && levels.size() == matrix.columns &&
        records.size() * kSuperblockColumns == matrix.columns);
  const auto record_words = static_cast<size_t>(RecordWords(matrix.dtype));
  const size_t at = matrix.first_row + row;
  std::array<uint8_t, kDataBytes> data;
  std::array<uint16_t, kMostWords> words;
  for (size_t b = 0; b < records.size(); ++b) {
    const uint8_t* nibbles = data.data();
    const uint16_t* own = words.data();
    if (matrix.panels != nullptr) {
      const uint8_t* panel = matrix.panels +
                             at / kPanelOutputs * PanelBytes(matrix.dtype, matrix.columns) +
                             b * LayoutOf(matrix.dtype).end;
      UnpackPart(matrix.dtype, panel, at % kPanelOutputs, data.data(), words.data());
    } else {
      nibbles = matrix.DataRow(row) + b * kDataBytes;
      own = matrix.ScaleRow(row) + b * record_words;
    }
    records[b] = ReadKQuantRecord(matrix.dtype, own);
    ReadKQuantLevels(
        matrix.dtype, nibbles, own,
        std::span<int8_t, kSuperblockColumns>(&levels[b * kSuperblockColumns], kSuperblockColumns));
  }
}

void ReadKQuantPanelRow(const Matrix& matrix, size_t row, std::span<float> out) {
  std::vector<KQuantRecord> records(matrix.columns / kSuperblockColumns);
  std::vector<int8_t> levels(matrix.columns);
  ReadKQuantRow(matrix, row, records, levels);
  for (size_t c = 0; c < out.size(); ++c)
    out[c] = KQuantValue(records[c / kSuperblockColumns], c % kSuperblockColumns, levels[c]);
}

}  // namespace weft::kernels
