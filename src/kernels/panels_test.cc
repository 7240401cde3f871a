// Every kernel of q4s against the scalar rule, bit for bit: shapes, views, extremes, values that
// are not finite; and the rule against the product in double precision.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>

#include "base/random.h"
#include "kernels/matmul.h"
#include "kernels/q4s_matmul.h"
#include "kernels/test_case.h"

namespace weft::kernels {
namespace {

using testing::HasSubstr;

std::vector<uint32_t> BitsOf(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  // One pattern for what is no number: kernels need not agree on its bits.
  for (const float x : values) bits.push_back(std::isnan(x) ? ~0u : std::bit_cast<uint32_t>(x));
  return bits;
}

// A stored weight and its panels.
struct Weight {
  Weight(size_t rows, size_t columns, uint32_t seed) : stored(DType::kQ4S, rows, columns, seed) {
    Pack();
  }
  void Pack() {
    const size_t bytes = PanelsBytes(stored.matrix().rows, stored.matrix().columns);
    memory.Reserve(bytes / sizeof(float));
    auto* at = reinterpret_cast<uint8_t*>(memory.Reserve(0));
    const Status status = PackPanels(stored.matrix(), at);
    CHECK(status.ok(), status.ok() ? "" : status.error().ToString());
    panels = {DType::kQ4S,
              stored.matrix().rows,
              stored.matrix().columns,
              nullptr,
              nullptr,
              nullptr,
              at,
              0};
  }
  CaseWeight stored;
  FloatBuffer memory;
  Matrix panels;
};

// Values whose magnitudes differ by 2^60 between rows, and by 2^12 within one.
std::vector<float> Rows(uint64_t seed, size_t rows, size_t columns) {
  SeededRandom random(seed);
  std::vector<float> values(rows * columns);
  for (size_t r = 0; r < rows; ++r) {
    const int exponent = static_cast<int>(random.Below(60)) - 30;
    for (size_t c = 0; c < columns; ++c) {
      const int small = random.Below(4) == 0 ? static_cast<int>(random.Below(12)) : 0;
      values[r * columns + c] =
          static_cast<float>(std::ldexp(random.Uniform() * 2 - 1, exponent - small));
    }
  }
  return values;
}

std::vector<float> Multiply(void (*run)(std::span<const MatMulArgs>, Workspace&),
                            const Matrix& weight, const std::vector<float>& in, size_t rows,
                            std::span<const float> bias) {
  Workspace workspace(2);
  std::vector<float> out(rows * weight.rows, NAN);
  const MatMulArgs call = {{in.data(), rows, weight.columns, weight.columns},
                           weight,
                           bias,
                           {out.data(), rows, weight.rows, weight.rows}};
  run({&call, 1}, workspace);
  return out;
}

// The same by one kernel, in tasks of up to three panels.
std::vector<float> MultiplyBy(const Q4sKernel& kernel, const Matrix& panels,
                              const std::vector<float>& in, size_t rows,
                              std::span<const float> bias) {
  const size_t superblocks = (panels.columns + 255) / 256;
  std::vector<Q4sInput> prepared(rows * superblocks);
  for (size_t r = 0; r < rows; ++r)
    kernel.prepare(std::span(in).subspan(r * panels.columns, panels.columns),
                   &prepared[r * superblocks]);
  std::vector<float> out(rows * panels.rows, NAN);
  const Q4sProduct product = {
      prepared.data(), rows, panels, bias.empty() ? nullptr : bias.data(), out.data(), panels.rows};
  for (size_t first = product.first_panel(); first < product.end_panel(); first += 3)
    kernel.run(product, first, std::min(first + 3, product.end_panel()));
  return out;
}

class Q4sKernels : public testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    if (!kernel_.runs_here()) GTEST_SKIP() << "this processor has no " << kernel_.name;
  }

  std::vector<float> Multiplied(const Matrix& panels, const std::vector<float>& in,
                                size_t rows) const {
    return MultiplyBy(kernel_, panels, in, rows, {});
  }
  void ExpectTheRule(const Weight& weight, const std::vector<float>& in, size_t rows,
                     std::span<const float> bias = {}) const {
    const auto expected = Multiply(MatMulsReference, weight.stored.matrix(), in, rows, bias);
    const auto got = MultiplyBy(kernel_, weight.panels, in, rows, bias);
    ASSERT_EQ(BitsOf(got), BitsOf(expected))
        << rows << " rows, " << weight.panels.rows << " x " << weight.panels.columns;
  }

  const Q4sKernel& kernel_ = weft::kernels::Q4sKernels()[GetParam()];
};

TEST_P(Q4sKernels, HaveTheBitsOfTheRuleOverShapes) {
  for (const size_t columns : {1u, 16u, 31u, 40u, 256u, 260u, 300u, 512u, 1000u}) {
    for (const size_t outputs : {1u, 16u, 17u, 70u}) {
      const Weight weight(outputs, columns, static_cast<uint32_t>(columns + outputs));
      const std::vector<float> bias = CaseFloats(5, outputs);
      for (const size_t rows : {1u, 2u, 3u, 4u, 7u, 11u}) {
        const auto in = Rows(columns + rows, rows, columns);
        ExpectTheRule(weight, in, rows);
        ExpectTheRule(weight, in, rows, bias);
      }
    }
  }
}

TEST_P(Q4sKernels, HaveTheBitsOfTheRuleForEveryNumberOfRowsTo64) {
  const Weight weight(67, 600, 3);
  for (size_t rows = 1; rows <= 64; ++rows) ExpectTheRule(weight, Rows(rows, rows, 600), rows);
  ExpectTheRule(weight, Rows(9, 203, 600), 203);
}

TEST_P(Q4sKernels, KeepTheirBitsAtTheExtremes) {
  Weight weight(20, 512, 1);
  const Matrix stored = weight.stored.matrix();
  // m = +-15 and q = 0: w = -+120; x = 32,639 in every column.
  auto* data = const_cast<uint8_t*>(stored.data);
  auto* words = const_cast<uint16_t*>(stored.scale);
  std::fill_n(data, stored.rows * stored.data_row_bytes(), uint8_t{0});
  for (size_t b = 0; b < stored.rows * 2; ++b) {
    Q4sRecord record{0x3c01, {}};
    record.multipliers.fill(b % 3 == 0 ? 15 : -15);
    WriteQ4sRecord(record, words + b * kSuperblockWords);
  }
  weight.Pack();
  const float largest = std::bit_cast<float>(0x3fffffffu);
  for (const float x : {largest, -largest, 0x1.fffffep127f, 0x1p-126f, 0x1p-149f, 0.0f}) {
    for (const size_t rows : {1u, 3u, 16u}) {
      std::vector<float> in(rows * 512, x);
      if (rows > 1) std::fill_n(in.begin() + 512, 512, -x);
      ExpectTheRule(weight, in, rows);
    }
  }
  std::vector<Q4sInput> prepared(1);
  kernel_.prepare(std::vector<float>(256, largest), prepared.data());
  EXPECT_EQ(prepared[0].high[7] * 256 + prepared[0].low[7], 32639);
}

TEST_P(Q4sKernels, GiveNoNumberForARowThatIsNotFiniteAndForThatRowAlone) {
  const Weight weight(33, 300, 8);
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    for (const size_t rows : {3u, 20u}) {
      auto in = Rows(4, rows, 300);
      const auto without = Multiplied(weight.panels, in, rows);
      in[300 + 290] = bad;
      const auto out = Multiplied(weight.panels, in, rows);
      for (size_t i = 0; i < out.size(); ++i) {
        if (i / 33 == 1) {
          ASSERT_TRUE(std::isnan(out[i])) << i;
        } else {
          ASSERT_EQ(out[i], without[i]) << i;
        }
      }
    }
  }
}

TEST_P(Q4sKernels, ViewsOfRowsAreThatPartOfTheProduct) {
  const Weight weight(90, 300, 2);
  for (const size_t rows : {1u, 12u}) {
    const auto in = Rows(6, rows, 300);
    const auto all = Multiplied(weight.panels, in, rows);
    for (const auto& [first, count] : {std::pair{0u, 90u}, {16u, 32u}, {5u, 3u}, {15u, 40u}}) {
      const auto part = Multiplied(weight.panels.Sub(first, count), in, rows);
      for (size_t r = 0; r < rows; ++r)
        for (size_t n = 0; n < count; ++n)
          ASSERT_EQ(part[r * count + n], all[r * 90 + first + n]) << first << ", " << n;
    }
  }
}

TEST_P(Q4sKernels, PrepareRowsAsTheRuleDoes) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const size_t columns = 1 + seed * 13;
    std::vector<float> row = Rows(seed, 1, columns);
    if (seed % 4 == 1) {  // halves: ties once the largest is a power of two
      for (float& x : row) x = std::round(x * 1e9f) / 2;
      row[0] = 0x1.046434p14f;  // its factor is nearly 1
    }
    if (seed % 4 == 2) std::fill(row.begin(), row.end(), 0x1p-140f);
    std::vector<Q4sInput> got((columns + 255) / 256), expected(got.size());
    kernel_.prepare(row, got.data());
    PrepareQ4sRow(row, expected.data());
    for (size_t b = 0; b < got.size(); ++b)
      ASSERT_EQ(std::memcmp(&got[b], &expected[b], offsetof(Q4sInput, scale) + 4), 0) << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Q4sKernels,
                         testing::Range<size_t>(0, weft::kernels::Q4sKernels().size()),
                         [](const auto& test) {
                           std::string name(weft::kernels::Q4sKernels()[test.param].name);
                           std::erase(name, '-');
                           return name;
                         });

TEST(MatMulOfPanels, IsTheRuleWhateverTheTasks) {
  const Weight weight(301, 300, 6);
  const std::vector<float> bias = CaseFloats(5, 301);
  for (const size_t rows : {1u, 20u}) {
    const auto in = Rows(rows, rows, 300);
    for (const auto& [first, count] : {std::pair{0u, 301u}, {7u, 100u}}) {
      const auto part = std::span(bias).subspan(first, count);
      EXPECT_EQ(
          Multiply(MatMulsSimd, weight.panels.Sub(first, count), in, rows, part),
          Multiply(MatMulsReference, weight.stored.matrix().Sub(first, count), in, rows, part));
    }
  }
}

// 16 bits of a row and whole weights: nothing but the row is rounded, by 2^-15 of its largest.
TEST(Q4sRule, IsTheProductUpToTheRoundingOfTheRow) {
  const CaseWeight weight(DType::kQ4S, 12, 700, 5);
  const std::vector<float> in = CaseFloats(3, 700);
  const auto got = Multiply(MatMulsReference, weight.matrix(), in, 1, {});
  std::vector<float> row(700);
  for (size_t n = 0; n < 12; ++n) {
    ReadRow(weight.matrix(), n, row);
    double product = 0, magnitude = 0;
    for (size_t k = 0; k < 700; ++k) {
      product += static_cast<double>(row[k]) * in[k];
      magnitude += std::fabs(static_cast<double>(row[k]));
    }
    EXPECT_NEAR(got[n], product, magnitude * 0x1p-15);
  }
}

// The row (1, -0.5) of q4s_rows.h, weights 3 * (11 - 8) and -2 * (6 - 8) with S = 2: 18 - 4.
TEST(Q4sRule, IsTheExampleByHand) {
  Q4sInput row;
  PrepareQ4sRow(std::vector<float>{1, -0.5f}, &row);
  EXPECT_EQ(row.high[0], 64);
  EXPECT_EQ(row.low[0], -64);
  EXPECT_EQ(row.high[1], -32);
  EXPECT_EQ(row.low[1], 32);
  const std::vector<int8_t> weights = {9, 4};
  const std::vector<float> scales = {2};
  const float sum = 9 * 16320 - 4 * 8160;
  EXPECT_EQ(Q4sDot(weights, scales, &row), sum * (2 * row.scale));
  EXPECT_NEAR(Q4sDot(weights, scales, &row), 14, 1e-3);
}

TEST(Q4sPanels, HaveTheWeightsOfTheStoredRows) {
  for (const size_t columns : {8u, 40u, 256u, 700u}) {
    const Weight weight(19, columns, 4);
    const size_t superblocks = (columns + 255) / 256;
    std::vector<int8_t> stored(columns), packed(columns);
    std::vector<float> stored_scales(superblocks), packed_scales(superblocks);
    std::vector<float> row(columns), packed_row(columns);
    for (size_t r = 0; r < 19; ++r) {
      ReadQ4sRow(weight.stored.matrix(), r, stored, stored_scales);
      ReadQ4sRow(weight.panels, r, packed, packed_scales);
      EXPECT_EQ(packed, stored);
      EXPECT_EQ(packed_scales, stored_scales);
      ReadRow(weight.stored.matrix(), r, row);
      ReadRow(weight.panels, r, packed_row);
      EXPECT_EQ(packed_row, row);
    }
  }
}

TEST(Q4sPanels, TakeTheBytesOfTheStoredRows) {
  EXPECT_EQ(PanelsBytes(3072, 1024), 3072u * 4 * 140);
  EXPECT_EQ(PanelsBytes(16, 40), 16u * (32 + 12));
}

TEST(Q4sPanels, AreRefusedWithTheRowAndTheMultiplier) {
  Weight weight(5, 256, 6);
  const Matrix stored = weight.stored.matrix();
  const_cast<uint16_t*>(stored.ScaleRow(3))[2] &= 0xff0f;
  const Status status = PackPanels(stored, const_cast<uint8_t*>(weight.panels.panels));
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().ToString(), HasSubstr("row 3"));
  EXPECT_THAT(status.error().ToString(), HasSubstr("0 as multiplier 1"));
}

}  // namespace
}  // namespace weft::kernels
