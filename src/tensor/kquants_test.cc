#include "tensor/kquants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "base/random.h"
#include "tensor/blocks.h"

namespace weft {
namespace {

using testing::HasSubstr;

constexpr DType kForms[] = {DType::kQ4K, DType::kQ5K, DType::kQ6K};
using Levels = std::array<int8_t, kSuperblockValues>;

TEST(KQuants, TakeTheBytesOfLlamaCppsBlocks) {
  EXPECT_EQ(128 + 2 * RecordWords(DType::kQ4K), 144);
  EXPECT_EQ(128 + 2 * RecordWords(DType::kQ5K), 176);
  EXPECT_EQ(128 + 2 * RecordWords(DType::kQ6K), 210);
}

TEST(KQuants, LevelsAreReadAsTheyWereWritten) {
  for (const DType dtype : kForms) {
    SeededRandom random(static_cast<uint64_t>(dtype));
    const int count = dtype == DType::kQ4K ? 16 : dtype == DType::kQ5K ? 32 : 64;
    const int least = dtype == DType::kQ6K ? -32 : 0;
    Levels levels, read;
    for (int8_t& level : levels)
      level = static_cast<int8_t>(least + static_cast<int>(random.Below(count)));
    std::array<uint8_t, 128> nibbles;
    std::vector<uint16_t> words(static_cast<size_t>(RecordWords(dtype)), 0xabcd);
    WriteKQuantLevels(dtype, levels, nibbles.data(), words.data());
    ReadKQuantLevels(dtype, nibbles.data(), words.data(), read);
    EXPECT_EQ(read, levels);
    EXPECT_EQ(words[0], 0xabcd) << "scales are no levels";
  }
}

// Words by hand: the fifth bit of column 4 g + k is bit 8 k + g; d = 2, e = 0.5, s = 63 and m = 17
// of the first 32 columns, s = 35 and m = 52 of the last.
TEST(KQuants, ValuesAreThoseOfTheExampleByHand) {
  std::vector<uint16_t> words(24);
  words[0] = 0x4000;
  words[1] = 0x3800;
  auto* packed = reinterpret_cast<uint8_t*>(&words[2]);
  packed[0] = 63;
  packed[4] = 17;
  packed[11] = 3 | 4 << 4;  // low nibbles of s 7 and m 7
  packed[3] = 2 << 6;       // above them: 35 = 32 + 3
  packed[7] = 3 << 6;       // 52 = 48 + 4
  auto* fifth = reinterpret_cast<uint8_t*>(&words[8]);
  fifth[4 * 0 + 2] = 1 << 1;  // column 4 * 1 + 2
  fifth[4 * 7 + 3] = 1 << 7;  // column 224 + 4 * 7 + 3
  std::vector<uint8_t> data(128);
  data[3] = 5;         // column 6
  data[127] = 9 << 4;  // column 255
  std::vector<float> values(256);
  DequantizeRow(DType::kQ5K, data, words, {}, values);
  EXPECT_EQ(values[6], 2 * 63 * (16 + 5) - 0.5f * 17);
  EXPECT_EQ(values[7], -0.5f * 17);
  EXPECT_EQ(values[255], 2 * 35 * (16 + 9) - 0.5f * 52);
}

TEST(KQuants, SixBitsHaveScalesOfSixteenColumns) {
  std::vector<uint16_t> words(41);
  words[0] = 0x3c00;
  auto* record = reinterpret_cast<uint8_t*>(words.data());
  record[2 + 15] = static_cast<uint8_t>(-128);
  record[18 + 4 * 15 + 1] = 3 << 4;  // both bits of column 240 + 4 * 2 + 1
  std::vector<uint8_t> data(128);
  data[124] = 15 << 4;  // column 249
  std::vector<float> values(256);
  DequantizeRow(DType::kQ6K, data, words, {}, values);
  EXPECT_EQ(values[249], -128.0f * (63 - 32));
  EXPECT_EQ(values[248], -128.0f * (0 - 32));
  EXPECT_EQ(values[239], 0);
}

TEST(KQuants, ScalesThatAreNotFiniteAreRefusedByTheirSuperblock) {
  std::vector<uint16_t> words(16);
  EXPECT_TRUE(CheckKQuantRow(DType::kQ4K, words).ok());
  words[9] = 0xfc00;
  const Status status = CheckKQuantRow(DType::kQ4K, words);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().ToString(), HasSubstr("Superblock 1 of a q4k row"));
  std::vector<uint16_t> six(41);
  six[1] = 0x7c00;  // a scale of q6k
  EXPECT_TRUE(CheckKQuantRow(DType::kQ6K, six).ok());
  six[0] = 0x7e00;
  EXPECT_FALSE(CheckKQuantRow(DType::kQ6K, six).ok());
}

}  // namespace
}  // namespace weft
