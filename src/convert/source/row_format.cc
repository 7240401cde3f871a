// Layouts, all little-endian; d and m are f16, q a stored whole number, x a value:
//   Q8_0  d, i8 q[32]                                         x = d q
//   Q4_0  d, u4 q[32]                                         x = d (q - 8)
//   Q4_1  d, m, u4 q[32]                                      x = d q + m
//   Q5_0  d, u32 fifth bits, u4 q[32]                         x = d (q - 16)
//   Q5_1  d, m, u32 fifth bits, u4 q[32]                      x = d q + m
//   MXFP4 u8 e, u4 index[32] of the magnitudes of e2m1        x = 2^(e - 128) magnitude[index]
//   Q4_K  d, m, 8 pairs of 6-bit (s, t), u4 q[256]            x = (d s) q - (m t), s, t per 32
//   Q5_K  d, m, 8 pairs of 6-bit (s, t), fifth bits, u4 q[256]
//   Q6_K  low 4 bits, high 2 bits, i8 s[16], d                x = (d s) (q - 32), s per 16
// Nibbles of a block of 32 are split in halves: byte j holds values j (low) and j + 16 (high).
#include "convert/source/row_format.h"

#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "tensor/blocks.h"
#include "tensor/half.h"
#include "tensor/kquants.h"
#include "tensor/mxfp4.h"

namespace weft::convert {
namespace {

struct FormatInfo {
  std::string_view name;
  uint64_t block_values;
  uint64_t block_bytes;
  DType kept;
};

const FormatInfo& InfoOf(RowFormat format) {
  static constexpr FormatInfo kFormats[] = {
      {"F32", 1, 4, DType::kF32},
      {"F16", 1, 2, DType::kF16},
      {"BF16", 1, 2, DType::kBF16},
      {"Q8_0", 32, 34, DType::kQ8},
      {"Q4_0", 32, 18, DType::kQ4},
      {"Q4_1", 32, 20, DType::kQ8},
      {"Q5_0", 32, 22, DType::kQ8},
      {"Q5_1", 32, 24, DType::kQ8},
      {"Q4_K", 256, 144, DType::kQ8},
      {"Q5_K", 256, 176, DType::kQ8},
      {"Q6_K", 256, 210, DType::kQ8},
      {"MXFP4", 32, 17, DType::kQ8},
      {"F8_E4M3", 1, 1, DType::kQ8},
      {"F8_E5M2", 1, 1, DType::kQ8},
      // Bytes of the codes; scales are few.
      {"4-bit groups", 2, 1, DType::kQ4},
      {"4-bit groups with zero points", 2, 1, DType::kQ4},
      {"8-bit groups", 1, 1, DType::kQ8},
      {"other groups", 1, 1, DType::kQ8},
  };
  return kFormats[static_cast<size_t>(format)];
}

constexpr size_t kBlock = 32;

float HalfAt(const uint8_t* at) {
  return F16ToF32(LoadLe<uint16_t>(at));
}

// Value i of a block of 32 nibbles.
int NibbleOf(const uint8_t* nibbles, size_t i) {
  return i < 16 ? nibbles[i] & 15 : nibbles[i - 16] >> 4;
}
// Bit i of a little-endian array of bits.
int BitOf(const uint8_t* bits, size_t i) {
  return (bits[i / 8] >> (i % 8)) & 1;
}

// A block of 32 whole numbers with one scale.
struct WholeBlock {
  float scale = 0;
  std::array<int8_t, kBlock> values = {};
};

WholeBlock ReadWhole(RowFormat format, const uint8_t* block) {
  WholeBlock whole;
  whole.scale = HalfAt(block);
  for (size_t i = 0; i < kBlock; ++i) {
    int value = 0;
    switch (format) {
      case RowFormat::kQ8_0:
        value = static_cast<int8_t>(block[2 + i]);
        break;
      case RowFormat::kQ4_0:
        value = NibbleOf(block + 2, i) - 8;
        break;
      case RowFormat::kQ5_0:
        value = (NibbleOf(block + 6, i) | BitOf(block + 2, i) << 4) - 16;
        break;
      default:
        CHECK(false, "no format of whole numbers");
    }
    whole.values[i] = static_cast<int8_t>(value);
  }
  return whole;
}

bool IsWhole(RowFormat format) {
  return format == RowFormat::kQ8_0 || format == RowFormat::kQ4_0 || format == RowFormat::kQ5_0 ||
         format == RowFormat::kMxfp4 || format == RowFormat::kGroups4 ||
         format == RowFormat::kGroups4Zero || format == RowFormat::kGroups8;
}

Mxfp4Blocks Mxfp4At(const uint8_t* row) {
  const auto stride = static_cast<size_t>(BlockBytes(RowFormat::kMxfp4));
  return {row + 1, stride, row, stride, Mxfp4Order::kHalves};
}

void ReadWithMinimum(RowFormat format, const uint8_t* block, float* values) {
  const float scale = HalfAt(block), minimum = HalfAt(block + 2);
  for (size_t i = 0; i < kBlock; ++i) {
    const int q = format == RowFormat::kQ4_1 ? NibbleOf(block + 4, i)
                                             : NibbleOf(block + 8, i) | BitOf(block + 4, i) << 4;
    values[i] = scale * static_cast<float>(q) + minimum;
  }
}

std::optional<DType> SameKQuant(RowFormat format) {
  if (format == RowFormat::kQ4_K) return DType::kQ4K;
  if (format == RowFormat::kQ5_K) return DType::kQ5K;
  if (format == RowFormat::kQ6_K) return DType::kQ6K;
  return std::nullopt;
}

using Levels = std::array<int8_t, kSuperblockValues>;

// Bytes 32 c to 32 c + 31 hold groups 2 c (low nibbles) and 2 c + 1 (high); fifth bit of value i of
// group j is bit j of byte i.
void ReadLevels45(RowFormat format, const uint8_t* block, Levels* levels) {
  const bool five = format == RowFormat::kQ5_K;
  const uint8_t* high = block + 16;
  const uint8_t* nibbles = block + (five ? 48 : 16);
  for (size_t j = 0; j < 8; ++j) {
    for (size_t i = 0; i < kBlock; ++i) {
      int q = (nibbles[j / 2 * 32 + i] >> (j % 2 * 4)) & 15;
      if (five) q |= ((high[i] >> j) & 1) << 4;
      (*levels)[j * kBlock + i] = static_cast<int8_t>(q);
    }
  }
}

// Two halves of 128 values; each takes 64 bytes of low nibbles and 32 of high pairs. Group g (of 4)
// of a half: low nibbles of bytes 32 (g % 2) + i, low or high by g / 2, and bits 2 g of byte i.
void ReadLevels6(const uint8_t* block, Levels* levels) {
  for (size_t half = 0; half < 2; ++half) {
    const uint8_t* low = block + half * 64;
    const uint8_t* high = block + 128 + half * 32;
    for (size_t g = 0; g < 4; ++g) {
      for (size_t i = 0; i < kBlock; ++i) {
        const int q = ((low[g % 2 * 32 + i] >> (g / 2 * 4)) & 15) | ((high[i] >> (2 * g)) & 3) << 4;
        (*levels)[half * 128 + g * kBlock + i] = static_cast<int8_t>(q - 32);
      }
    }
  }
}

void ReadQ45K(RowFormat format, const uint8_t* block, float* values) {
  const float scale = HalfAt(block), minimum = HalfAt(block + 2);
  Levels levels;
  ReadLevels45(format, block, &levels);
  for (size_t j = 0; j < 8; ++j) {
    const KQuantPair group = KQuantPairOf(block + 4, j);
    const float step = scale * static_cast<float>(group.scale);
    const float base = minimum * static_cast<float>(group.minimum);
    for (size_t i = j * kBlock; i < (j + 1) * kBlock; ++i)
      values[i] = step * static_cast<float>(levels[i]) - base;
  }
}

void ReadQ6K(const uint8_t* block, float* values) {
  const float scale = HalfAt(block + 208);
  Levels levels;
  ReadLevels6(block, &levels);
  for (size_t i = 0; i < levels.size(); ++i) {
    const auto group_scale = static_cast<int8_t>(block[192 + i / 16]);
    values[i] = scale * static_cast<float>(group_scale) * static_cast<float>(levels[i]);
  }
}

// A record begins with what the block says of scales: d, m and the twelve packed bytes, or d and
// the sixteen scales.
void RepackKQuants(RowFormat format, const uint8_t* row, uint64_t columns, DType to,
                   MutableByteSpan data, std::span<uint16_t> words) {
  const auto record_words = static_cast<size_t>(RecordWords(to));
  CHECK(SameKQuant(format) == to && columns % kSuperblockValues == 0 &&
        data.size() == columns / 2 && words.size() == columns / kSuperblockValues * record_words);
  Levels levels;
  for (size_t b = 0; b * kSuperblockValues < columns; ++b, row += BlockBytes(format)) {
    uint16_t* record = &words[b * record_words];
    if (to == DType::kQ6K) {
      std::memcpy(record, row + 208, 2);
      std::memcpy(record + 1, row + 192, 16);
      ReadLevels6(row, &levels);
    } else {
      std::memcpy(record, row, 16);
      ReadLevels45(format, row, &levels);
    }
    WriteKQuantLevels(to, levels, &data[b * kSuperblockValues / 2], record);
  }
}

void ReadBlock(RowFormat format, const uint8_t* block, float* values) {
  switch (format) {
    case RowFormat::kQ4_1:
    case RowFormat::kQ5_1:
      return ReadWithMinimum(format, block, values);
    case RowFormat::kQ4_K:
    case RowFormat::kQ5_K:
      return ReadQ45K(format, block, values);
    case RowFormat::kQ6_K:
      return ReadQ6K(block, values);
    case RowFormat::kMxfp4:
      return Mxfp4ToF32(Mxfp4At(block), {values, kBlock});
    default: {
      const WholeBlock whole = ReadWhole(format, block);
      for (size_t i = 0; i < kBlock; ++i) {
        values[i] = whole.scale * static_cast<float>(whole.values[i]);
      }
    }
  }
}

}  // namespace

std::string_view RowFormatName(RowFormat format) {
  return InfoOf(format).name;
}
uint64_t BlockValues(RowFormat format) {
  return InfoOf(format).block_values;
}
uint64_t BlockBytes(RowFormat format) {
  return InfoOf(format).block_bytes;
}

bool IsPlain(RowFormat format) {
  return format == RowFormat::kF32 || format == RowFormat::kF16 || format == RowFormat::kBF16;
}

bool IsCoded(RowFormat format) {
  return format >= RowFormat::kF8E4M3;
}

uint64_t RowBytes(RowFormat format, uint64_t columns) {
  const FormatInfo& info = InfoOf(format);
  CHECK(columns % info.block_values == 0);
  return columns / info.block_values * info.block_bytes;
}

DType KeptDType(RowFormat format, bool keeps_k_quants) {
  if (const auto same = SameKQuant(format); same && keeps_k_quants) return *same;
  return InfoOf(format).kept;
}

bool IsExact(RowFormat format, DType to) {
  const bool is_four_bit = format == RowFormat::kQ4_0 || format == RowFormat::kGroups4 ||
                           format == RowFormat::kGroups4Zero;
  if (is_four_bit && to == DType::kQ8) return true;
  if (IsKQuant(to)) return SameKQuant(format) == to;
  return KeptDType(format) == to && (IsWhole(format) || IsPlain(format));
}

void ReadRow(RowFormat format, const uint8_t* row, std::span<float> values) {
  const FormatInfo& info = InfoOf(format);
  CHECK(!IsCoded(format));
  if (IsPlain(format)) return ToF32(info.kept, row, values);
  CHECK(values.size() % info.block_values == 0);
  for (size_t first = 0; first < values.size(); first += info.block_values) {
    ReadBlock(format, row, &values[first]);
    row += info.block_bytes;
  }
}

void RepackRow(RowFormat format, const uint8_t* row, uint64_t columns, DType to,
               MutableByteSpan data, std::span<uint16_t> scales) {
  if (IsKQuant(to)) return RepackKQuants(format, row, columns, to, data, scales);
  CHECK(IsWhole(format) && !IsCoded(format) && IsExact(format, to) && columns % kBlock == 0);
  const auto block_bytes = static_cast<size_t>(BlockDataBytes(to));
  CHECK(scales.size() == columns / kBlock && data.size() == scales.size() * block_bytes);
  if (format == RowFormat::kMxfp4) return Mxfp4ToNearestQ8(Mxfp4At(row), data, scales);
  for (size_t b = 0; b < scales.size(); ++b, row += BlockBytes(format)) {
    const WholeBlock whole = ReadWhole(format, row);
    const MutableByteSpan out = data.subspan(b * block_bytes, block_bytes);
    scales[b] = F32ToF16(whole.scale);
    if (to == DType::kQ8) {
      for (size_t i = 0; i < kBlock; ++i) out[i] = static_cast<uint8_t>(whole.values[i] + 128);
    } else {
      for (size_t i = 0; i < kBlock; i += 2) {
        out[i / 2] = static_cast<uint8_t>((whole.values[i] + 8) | (whole.values[i + 1] + 8) << 4);
      }
    }
  }
}

}  // namespace weft::convert
