// Records of q4k, q5k and q6k (dtype.h): what a superblock of 256 columns has beside the low four
// bits of its levels. In bytes:
//   q4k  d, e, 12 bytes of s and m as llama.cpp packs them
//   q5k  the same, and 8 words of fifth bits, one for 32 columns: bit 8 k + g is that of column
//        4 g + k
//   q6k  d, 16 i8 s, and 16 words of bits 4 and 5, one for 16 columns: bits 8 k + 2 g and the next
//        are those of column 4 g + k
// So four columns that follow each other have their bits at the same place of four bytes. Of s and
// m the first four lie in the low six bits of bytes 0-3 and 4-7. The low nibbles of the last four
// are in bytes 8-11 (s low, m high), and their high two bits on top of bytes 0-7.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "tensor/dtype.h"

namespace weft {

inline constexpr size_t kKQuantGroups = 16;  // of 16 columns, in a superblock

struct KQuantRecord {
  uint16_t scale = 0;                           // d, f16
  uint16_t minimum = 0;                         // e, f16; 0 in q6k
  std::array<int8_t, kKQuantGroups> scales{};   // s of 16 columns, in q4k and q5k two alike
  std::array<uint8_t, kKQuantGroups> minima{};  // m of 16 columns, in q6k 0
};

// The s and m of 32 columns in q4k and q5k.
struct KQuantPair {
  int scale = 0, minimum = 0;
};
// Gives pair `j` of the eight in twelve packed bytes, as above.
KQuantPair KQuantPairOf(const uint8_t* packed, size_t j);

// REQUIRES: IsKQuant(dtype), RecordWords(dtype) words.
KQuantRecord ReadKQuantRecord(DType dtype, const uint16_t* words);

// Gives the levels q of a superblock, q6k's less 32. `nibbles` has 128 bytes. REQUIRES: as above.
void ReadKQuantLevels(DType dtype, const uint8_t* nibbles, const uint16_t* words,
                      std::span<int8_t, kSuperblockValues> levels);
// Writes the nibbles, and the bits of a record. REQUIRES: levels that the form has.
void WriteKQuantLevels(DType dtype, std::span<const int8_t, kSuperblockValues> levels,
                       uint8_t* nibbles, uint16_t* words);

// Gives the value of a level in a column of the superblock. Both d * s * q and e * m are exact in
// f32, so that it is rounded once.
float KQuantValue(const KQuantRecord& record, size_t column, int level);
// Writes the values of one row. REQUIRES: IsKQuant(dtype), matching sizes.
void DequantizeKQuant(DType dtype, ByteSpan data, std::span<const uint16_t> words,
                      std::span<float> values);

// Checks that d and e of every record of a row are finite. kInvalidData names the superblock.
Status CheckKQuantRow(DType dtype, std::span<const uint16_t> words);

}  // namespace weft
