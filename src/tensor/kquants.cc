#include "tensor/kquants.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"
#include "tensor/half.h"

namespace weft {
namespace {

constexpr size_t kPacked = 2;           // words in front of s and m of q4k and q5k
constexpr size_t kFifthBits = 8;        // words in front of these bits of q5k
constexpr size_t kSixthBits = 9;        // words in front of bits 4 and 5 of q6k
constexpr size_t kColumnsOfWord5 = 32;  // whose bits are one word of 32 bits
constexpr size_t kColumnsOfWord6 = 16;

bool IsFinite(uint16_t half) {
  return (half & 0x7c00) != 0x7c00;
}

// Where the upper bits of a column lie.
struct Place {
  size_t byte;  // of the record
  int shift;
  int mask;
};
Place PlaceOf(DType dtype, size_t column) {
  if (dtype == DType::kQ5K) {
    const size_t word = column / kColumnsOfWord5, within = column % kColumnsOfWord5;
    return {2 * kFifthBits + 4 * word + within % 4, static_cast<int>(within / 4), 1};
  }
  const size_t word = column / kColumnsOfWord6, within = column % kColumnsOfWord6;
  return {2 * kSixthBits + 4 * word + within % 4, static_cast<int>(2 * (within / 4)), 3};
}

}  // namespace

KQuantPair KQuantPairOf(const uint8_t* packed, size_t j) {
  if (j < 4) return {packed[j] & 63, packed[j + 4] & 63};
  return {(packed[j + 4] & 15) | (packed[j - 4] >> 6 << 4),
          (packed[j + 4] >> 4) | (packed[j] >> 6 << 4)};
}

KQuantRecord ReadKQuantRecord(DType dtype, const uint16_t* words) {
  CHECK(IsKQuant(dtype));
  KQuantRecord record;
  record.scale = words[0];
  if (dtype == DType::kQ6K) {
    std::memcpy(record.scales.data(), words + 1, kKQuantGroups);
    return record;
  }
  record.minimum = words[1];
  const auto* packed = reinterpret_cast<const uint8_t*>(words + kPacked);
  for (size_t i = 0; i < kKQuantGroups; ++i) {
    const KQuantPair pair = KQuantPairOf(packed, i / 2);
    record.scales[i] = static_cast<int8_t>(pair.scale);
    record.minima[i] = static_cast<uint8_t>(pair.minimum);
  }
  return record;
}

void ReadKQuantLevels(DType dtype, const uint8_t* nibbles, const uint16_t* words,
                      std::span<int8_t, kSuperblockValues> levels) {
  const auto* record = reinterpret_cast<const uint8_t*>(words);
  for (size_t c = 0; c < levels.size(); ++c) {
    int level = (nibbles[c / 2] >> (c % 2 * 4)) & 15;
    if (dtype != DType::kQ4K) {
      const Place place = PlaceOf(dtype, c);
      level |= ((record[place.byte] >> place.shift) & place.mask) << 4;
    }
    levels[c] = static_cast<int8_t>(dtype == DType::kQ6K ? level - 32 : level);
  }
}

void WriteKQuantLevels(DType dtype, std::span<const int8_t, kSuperblockValues> levels,
                       uint8_t* nibbles, uint16_t* words) {
  auto* record = reinterpret_cast<uint8_t*>(words);
  std::fill_n(nibbles, kSuperblockValues / 2, uint8_t{0});
  if (dtype == DType::kQ5K) std::fill_n(record + 2 * kFifthBits, 32, uint8_t{0});
  if (dtype == DType::kQ6K) std::fill_n(record + 2 * kSixthBits, 64, uint8_t{0});
  for (size_t c = 0; c < levels.size(); ++c) {
    const int level = levels[c] + (dtype == DType::kQ6K ? 32 : 0);
    CHECK(level >= 0 && level < (dtype == DType::kQ4K ? 16 : dtype == DType::kQ5K ? 32 : 64));
    nibbles[c / 2] = static_cast<uint8_t>(nibbles[c / 2] | (level & 15) << (c % 2 * 4));
    if (dtype == DType::kQ4K) continue;
    const Place place = PlaceOf(dtype, c);
    record[place.byte] = static_cast<uint8_t>(record[place.byte] | level >> 4 << place.shift);
  }
}

float KQuantValue(const KQuantRecord& record, size_t column, int level) {
  const size_t group = column / 16;
  const auto whole = static_cast<float>(record.scales[group] * level);
  return F16ToF32(record.scale) * whole -
         F16ToF32(record.minimum) * static_cast<float>(record.minima[group]);
}

void DequantizeKQuant(DType dtype, ByteSpan data, std::span<const uint16_t> words,
                      std::span<float> values) {
  constexpr auto kValues = static_cast<size_t>(kSuperblockValues);
  const auto record_words = static_cast<size_t>(RecordWords(dtype));
  CHECK(values.size() % kValues == 0 && data.size() == values.size() / 2 &&
        words.size() == values.size() / kValues * record_words);
  std::array<int8_t, kValues> levels;
  for (size_t b = 0; b * kValues < values.size(); ++b) {
    const uint16_t* own = &words[b * record_words];
    const KQuantRecord record = ReadKQuantRecord(dtype, own);
    ReadKQuantLevels(dtype, &data[b * kValues / 2], own, levels);
    for (size_t c = 0; c < kValues; ++c)
      values[b * kValues + c] = KQuantValue(record, c, levels[c]);
  }
}

Status CheckKQuantRow(DType dtype, std::span<const uint16_t> words) {
  const auto record_words = static_cast<size_t>(RecordWords(dtype));
  for (size_t b = 0; b * record_words < words.size(); ++b) {
    const uint16_t* own = &words[b * record_words];
    const bool has_minimum = dtype != DType::kQ6K;
    if (IsFinite(own[0]) && (!has_minimum || IsFinite(own[1]))) continue;
    return Error(
        ErrorCode::kInvalidData,
        "Superblock " + std::to_string(b) + " of a " + std::string(DTypeName(dtype)) +
            " row has a scale or minimum that is not finite (f16 bits " + std::to_string(own[0]) +
            (has_minimum ? " and " + std::to_string(own[1]) : "") + "); expected finite ones.");
  }
  return OkStatus();
}

}  // namespace weft
