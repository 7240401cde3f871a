#include "tensor/finite.h"

#include <array>
#include <cstring>

#include "base/check.h"

namespace weft {
namespace {

// Values whose bits under `exponent` are all set. Blocks of a fixed length become vector
// instructions: 32 compares, and one sum of their results in words as short as the values.
template <typename Word>
uint64_t CountWithAll(Word exponent, ByteSpan bytes) {
  constexpr size_t kBlock = 32;
  std::array<Word, kBlock> block{};
  uint64_t count = 0;
  size_t left = bytes.size() / sizeof(Word);
  const uint8_t* at = bytes.data();
  for (; left >= kBlock; left -= kBlock, at += sizeof(block)) {
    std::memcpy(block.data(), at, sizeof(block));
    Word bad = 0;
    for (size_t i = 0; i < kBlock; ++i)
      bad = static_cast<Word>(bad + ((block[i] & exponent) == exponent));
    count += bad;
  }
  for (; left > 0; --left, at += sizeof(Word)) {
    Word word = 0;
    std::memcpy(&word, at, sizeof(word));
    count += (word & exponent) == exponent;
  }
  return count;
}

}  // namespace

uint64_t CountNotFinite(DType dtype, ByteSpan bytes) {
  switch (dtype) {
    case DType::kF16:
      return CountWithAll<uint16_t>(0x7c00, bytes);
    case DType::kBF16:
      return CountWithAll<uint16_t>(0x7f80, bytes);
    case DType::kF32:
      return CountWithAll<uint32_t>(0x7f800000, bytes);
    default:
      CHECK(false, "only floating point values can be other than finite");
  }
}

}  // namespace weft
