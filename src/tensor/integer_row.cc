#include "tensor/integer_row.h"

#include <algorithm>
#include <cstdlib>

#include "base/bytes.h"
#include "base/check.h"
#include "base/sentence.h"

namespace weft {
namespace {

constexpr uint32_t kInfinity = 0x7f800000u;
constexpr auto kColumns = static_cast<size_t>(kSuperblockValues);

size_t Superblocks(size_t columns) {
  return static_cast<size_t>(SuperblockCount(static_cast<int64_t>(columns)));
}

// x of each value. In f64 the product is exact, and 1.5 * 2^52 leaves no place for a fraction: the
// sum is rounded once.
void StoreIntegers(std::span<const float> values, uint32_t e, uint8_t* out) {
  constexpr double kMagic = 0x1.8p52;
  const double factor = FactorOf(e);
  for (size_t i = 0; i < values.size(); ++i) {
    const double x = (values[i] * factor + kMagic) - kMagic;
    StoreLe<int16_t>(out + i * sizeof(int16_t), static_cast<int16_t>(x));
  }
}

}  // namespace

std::optional<uint32_t> ExponentOf(std::span<const float> superblock) {
  uint32_t largest = 0;  // magnitudes are ordered as their bits are, infinities and NaNs above all
  for (const float value : superblock)
    largest = std::max(largest, std::bit_cast<uint32_t>(value) & 0x7fffffffu);
  if (largest >= kInfinity) return std::nullopt;
  return std::clamp(largest >> 23, kLeastRowExponent, kMostRowExponent);
}

void StoreIntegerRow(std::span<const float> row, uint8_t* out) {
  uint8_t* integers = out + Superblocks(row.size());
  for (size_t first = 0; first < row.size(); first += kColumns) {
    const auto superblock = row.subspan(first, std::min(kColumns, row.size() - first));
    const std::optional<uint32_t> e = ExponentOf(superblock);
    CHECK(e.has_value());
    *out++ = static_cast<uint8_t>(*e);
    StoreIntegers(superblock, *e, integers + first * sizeof(int16_t));
  }
}

// The largest x can be read as a value that has the next exponent. It is read as the one below.
void ReadIntegerRow(const uint8_t* from, std::span<float> row) {
  const uint8_t* integers = from + Superblocks(row.size());
  for (size_t first = 0; first < row.size(); first += kColumns) {
    const uint32_t e = *from++;
    const float scale = ScaleOf(e), most = std::bit_cast<float>((e << 23) | 0x7fffffu);
    const size_t count = std::min(kColumns, row.size() - first);
    const uint8_t* x = integers + first * sizeof(int16_t);
    for (size_t i = 0; i < count; ++i)
      row[first + i] = std::clamp(
          static_cast<float>(LoadLe<int16_t>(x + i * sizeof(int16_t))) * scale, -most, most);
  }
}

Status CheckIntegerRow(const uint8_t* from, size_t columns) {
  const size_t superblocks = Superblocks(columns);
  for (size_t i = 0; i < superblocks; ++i)
    if (from[i] < kLeastRowExponent || from[i] > kMostRowExponent)
      return Error(ErrorCode::kInvalidData,
                   Sentence("Superblock ", i, " of a row has exponent ", int{from[i]},
                            ", expected ", kLeastRowExponent, " to ", kMostRowExponent, "."));
  int32_t most = 0;
  for (size_t i = 0; i < columns; ++i)
    most = std::max(most, std::abs(int32_t{LoadLe<int16_t>(from + superblocks + 2 * i)}));
  if (most > kMostInteger)
    return Error(ErrorCode::kInvalidData, Sentence("A row has a whole number of ", most,
                                                   ", expected at most ", kMostInteger, "."));
  return OkStatus();
}

}  // namespace weft
