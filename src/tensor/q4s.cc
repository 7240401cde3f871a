#include "tensor/q4s.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace weft {
namespace {

constexpr size_t kSigns = 1, kMagnitudes = 2;  // words of a record behind S

Error Invalid(size_t superblock, const std::string& what) {
  return Error(ErrorCode::kInvalidData,
               "Superblock " + std::to_string(superblock) + " of a q4s row " + what);
}

}  // namespace

Q4sRecord ReadQ4sRecord(const uint16_t* words) {
  Q4sRecord record{words[0], {}};
  for (size_t i = 0; i < kMultipliers; ++i) {
    const int magnitude = (words[kMagnitudes + i / 4] >> (i % 4 * 4)) & 15;
    const bool negative = ((words[kSigns] >> i) & 1) != 0;
    record.multipliers[i] = static_cast<int8_t>(negative ? -magnitude : magnitude);
  }
  return record;
}

void WriteQ4sRecord(const Q4sRecord& record, uint16_t* words) {
  std::fill_n(words, kSuperblockWords, uint16_t{0});
  words[0] = record.scale;
  for (size_t i = 0; i < kMultipliers; ++i) {
    const int m = record.multipliers[i];
    CHECK(m != 0 && m >= -15 && m <= 15);
    if (m < 0) words[kSigns] = static_cast<uint16_t>(words[kSigns] | 1 << i);
    uint16_t& magnitudes = words[kMagnitudes + i / 4];
    magnitudes = static_cast<uint16_t>(magnitudes | (m < 0 ? -m : m) << (i % 4 * 4));
  }
}

Status CheckQ4sRow(std::span<const uint16_t> words, int64_t columns) {
  CHECK(words.size() == static_cast<size_t>(ScaleWords(DType::kQ4S, columns)));
  for (size_t b = 0; b * kSuperblockWords < words.size(); ++b) {
    const Q4sRecord record = ReadQ4sRecord(&words[b * kSuperblockWords]);
    if ((record.scale & 0x7c00) == 0x7c00)
      return Invalid(b, "has a scale that is not finite (f16 bits " + std::to_string(record.scale) +
                            "); expected a finite one.");
    const int64_t rest = columns - static_cast<int64_t>(b) * kSuperblockValues;
    for (size_t i = 0; i < kMultipliers; ++i) {
      const int m = record.multipliers[i];
      if (m == 0)
        return Invalid(
            b, "has 0 as multiplier " + std::to_string(i) + "; expected a magnitude of 1 to 15.");
      if (static_cast<int64_t>(i) * kMultiplierValues >= rest && m != 1)
        return Invalid(b, "has " + std::to_string(m) + " as multiplier " + std::to_string(i) +
                              " of columns that it has not; expected 1.");
    }
  }
  return OkStatus();
}

}  // namespace weft
