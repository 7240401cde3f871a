// Every kernel of panels, of every form, against the scalar rule, bit for bit: shapes, views,
// extremes, values that are not finite; and the rules against the product in double precision.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <set>
#include <tuple>

#include "base/random.h"
#include "kernels/matmul.h"
#include "kernels/panel_matmul.h"
#include "kernels/panels.h"
#include "kernels/q4s_panels.h"
#include "kernels/test_case.h"
#include "kernels/test_tiles.h"

namespace weft::kernels {
namespace {

using testing::HasSubstr;

std::vector<uint32_t> BitsOf(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  // One pattern for what is no number: kernels need not agree on its bits.
  for (const float x : values) bits.push_back(std::isnan(x) ? ~0u : std::bit_cast<uint32_t>(x));
  return bits;
}

// K-quants have whole superblocks.
size_t ColumnsOf(DType dtype, size_t columns) {
  return IsKQuant(dtype) ? (columns + 255) / 256 * 256 : columns;
}

// A stored weight and its panels.
struct Weight {
  Weight(DType dtype, size_t rows, size_t columns, uint32_t seed)
      : stored(dtype, rows, columns, seed) {
    Pack();
  }
  void Pack() {
    const size_t bytes =
        PanelsBytes(stored.matrix().dtype, stored.matrix().rows, stored.matrix().columns);
    memory.Reserve(bytes / sizeof(float));
    auto* at = reinterpret_cast<uint8_t*>(memory.Reserve(0));
    const Status status = PackPanels(stored.matrix(), at);
    CHECK(status.ok(), status.ok() ? "" : status.error().ToString());
    panels = {stored.matrix().dtype,
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
std::vector<float> MultiplyBy(const PanelKernel& kernel, const Matrix& panels,
                              const std::vector<float>& in, size_t rows,
                              std::span<const float> bias,
                              ReadAhead one_row = ReadAheadOfOneRow()) {
  const size_t superblocks = (panels.columns + 255) / 256;
  std::vector<IntegerInput> prepared(rows * superblocks);
  for (size_t r = 0; r < rows; ++r)
    kernel.prepare(std::span(in).subspan(r * panels.columns, panels.columns),
                   &prepared[r * superblocks]);
  std::vector<float> out(rows * panels.rows, NAN);
  PanelProduct product = {prepared.data(), rows,       panels, bias.empty() ? nullptr : bias.data(),
                          out.data(),      panels.rows};
  product.one_row = one_row;
  for (size_t first = product.first_panel(); first < product.end_panel(); first += 3)
    kernel.run(product, first, std::min(first + 3, product.end_panel()));
  return out;
}

// The largest sums: x = 32,639 in every column, and weights of the largest magnitude. q4s: m = +-15
// and q = 0. q6k: s = -128 and q = 0. The others: s = m = 63 and the largest q.
void MakeExtreme(Weight* weight) {
  const Matrix stored = weight->stored.matrix();
  auto* data = const_cast<uint8_t*>(stored.data);
  auto* words = const_cast<uint16_t*>(stored.scale);
  const auto record_words = static_cast<size_t>(RecordWords(stored.dtype));
  const bool is_none = stored.dtype == DType::kQ4S || stored.dtype == DType::kQ6K;
  std::fill_n(data, stored.rows * stored.data_row_bytes(), uint8_t(is_none ? 0 : 255));
  for (size_t b = 0; b < stored.rows * 2; ++b) {
    uint16_t* own = words + b * record_words;
    if (stored.dtype == DType::kQ4S) {
      Q4sRecord record{0x3c01, {}};
      record.multipliers.fill(b % 3 == 0 ? 15 : -15);
      WriteQ4sRecord(record, own);
      continue;
    }
    std::fill_n(own, record_words, uint16_t(is_none ? 0 : 0xffff));
    own[0] = 0x3c01;
    if (is_none)
      std::fill_n(own + 1, 8, uint16_t{0x8080});
    else
      own[1] = static_cast<uint16_t>(b % 3 == 0 ? 0x3c02 : 0xbc02);
  }
}

class PanelKernels : public testing::TestWithParam<std::tuple<size_t, DType>> {
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
    for (const ReadAhead one_row :
         {ReadAhead::kSideBySide, ReadAhead::kOneStream, ReadAhead::kHintedStream}) {
      const auto got = MultiplyBy(kernel_, weight.panels, in, rows, bias, one_row);
      ASSERT_EQ(BitsOf(got), BitsOf(expected))
          << rows << " rows, " << weight.panels.rows << " x " << weight.panels.columns;
      if (rows > 8) return;
    }
  }

  const PanelKernel kernel_ = PanelKernelsAndModel()[std::get<0>(GetParam())];
  const DType dtype_ = std::get<1>(GetParam());
};

TEST_P(PanelKernels, HaveTheBitsOfTheRuleOverShapes) {
  std::set<size_t> widths;
  for (const size_t columns : {1u, 16u, 31u, 40u, 256u, 260u, 300u, 512u, 1000u})
    widths.insert(ColumnsOf(dtype_, columns));
  for (const size_t columns : widths) {
    for (const size_t outputs : {1u, 16u, 17u, 70u}) {
      const Weight weight(dtype_, outputs, columns, static_cast<uint32_t>(columns + outputs));
      const std::vector<float> bias = CaseFloats(5, outputs);
      for (const size_t rows : {1u, 2u, 3u, 4u, 7u, 11u}) {
        const auto in = Rows(columns + rows, rows, columns);
        ExpectTheRule(weight, in, rows);
        ExpectTheRule(weight, in, rows, bias);
      }
    }
  }
}

TEST_P(PanelKernels, HaveTheBitsOfTheRuleForEveryNumberOfRowsTo64) {
  const size_t columns = ColumnsOf(dtype_, 600);
  const Weight weight(dtype_, 67, columns, 3);
  for (size_t rows = 1; rows <= 64; ++rows) ExpectTheRule(weight, Rows(rows, rows, columns), rows);
  ExpectTheRule(weight, Rows(9, 203, columns), 203);
}

TEST_P(PanelKernels, KeepTheirBitsAtTheExtremes) {
  Weight weight(dtype_, 20, 512, 1);
  MakeExtreme(&weight);
  weight.Pack();
  const float largest = std::bit_cast<float>(0x3fffffffu);
  for (const float x : {largest, -largest, 0x1.fffffep127f, 0x1p-126f, 0x1p-149f, 0.0f}) {
    for (const size_t rows : {1u, 3u, 16u}) {
      std::vector<float> in(rows * 512, x);
      if (rows > 1) std::fill_n(in.begin() + 512, 512, -x);
      ExpectTheRule(weight, in, rows);
    }
  }
  std::vector<IntegerInput> prepared(1);
  kernel_.prepare(std::vector<float>(256, largest), prepared.data());
  EXPECT_EQ(prepared[0].high[7] * 256 + prepared[0].low[7], 32639);
}

TEST_P(PanelKernels, GiveNoNumberForARowThatIsNotFiniteAndForThatRowAlone) {
  const size_t columns = ColumnsOf(dtype_, 300);
  const Weight weight(dtype_, 33, columns, 8);
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    for (const size_t rows : {3u, 20u}) {
      auto in = Rows(4, rows, columns);
      const auto without = Multiplied(weight.panels, in, rows);
      in[columns + 290] = bad;
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

TEST_P(PanelKernels, ViewsOfRowsAreThatPartOfTheProduct) {
  const size_t columns = ColumnsOf(dtype_, 300);
  const Weight weight(dtype_, 90, columns, 2);
  for (const size_t rows : {1u, 12u}) {
    const auto in = Rows(6, rows, columns);
    const auto all = Multiplied(weight.panels, in, rows);
    for (const auto& [first, count] : {std::pair{0u, 90u}, {16u, 32u}, {5u, 3u}, {15u, 40u}}) {
      const auto part = Multiplied(weight.panels.Sub(first, count), in, rows);
      for (size_t r = 0; r < rows; ++r)
        for (size_t n = 0; n < count; ++n)
          ASSERT_EQ(part[r * count + n], all[r * 90 + first + n]) << first << ", " << n;
    }
  }
}

TEST_P(PanelKernels, PrepareRowsAsTheRuleDoes) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const size_t columns = 1 + seed * 13;
    std::vector<float> row = Rows(seed, 1, columns);
    if (seed % 4 == 1) {  // halves: ties once the largest is a power of two
      for (float& x : row) x = std::round(x * 1e9f) / 2;
      row[0] = 0x1.046434p14f;  // its factor is nearly 1
    }
    if (seed % 4 == 2) std::fill(row.begin(), row.end(), 0x1p-140f);
    std::vector<IntegerInput> got((columns + 255) / 256), expected(got.size());
    kernel_.prepare(row, got.data());
    PrepareIntegers(row, expected.data());
    for (size_t b = 0; b < got.size(); ++b)
      ASSERT_EQ(std::memcmp(&got[b], &expected[b], offsetof(IntegerInput, scale) + 4), 0) << seed;
  }
}

constexpr DType kForms[] = {DType::kQ4S, DType::kQ4K, DType::kQ5K, DType::kQ6K};

INSTANTIATE_TEST_SUITE_P(All, PanelKernels,
                         testing::Combine(testing::Range<size_t>(0, PanelKernelsAndModel().size()),
                                          testing::ValuesIn(kForms)),
                         [](const auto& test) {
                           std::string name(PanelKernelsAndModel()[std::get<0>(test.param)].name);
                           std::erase(name, '-');
                           return name + "_" + std::string(DTypeName(std::get<1>(test.param)));
                         });

TEST(UsedPanelKernel, IsTheBestUnlessAnotherIsForced) {
  EXPECT_EQ(&UsedPanelKernel(), &BestPanelKernel());
  for (const PanelKernel& kernel : weft::kernels::PanelKernels()) {
    const Status status = UsePanelKernel(kernel.name);
    EXPECT_EQ(status.ok(), kernel.runs_here());
    if (status.ok()) {
      EXPECT_EQ(&UsedPanelKernel(), &kernel);
      continue;
    }
    EXPECT_EQ(status.error().code(), ErrorCode::kUnsupported);
    EXPECT_THAT(status.error().ToString(), HasSubstr("cannot run the kernels '"));
  }
  EXPECT_EQ(UsedPanelKernel().name, "scalar");
  const Status unknown = UsePanelKernel("avx3");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(unknown.error().ToString(), HasSubstr("Expected one of: "));
  EXPECT_TRUE(UsePanelKernel(BestPanelKernel().name).ok());
}

class MatMulOfPanels : public testing::TestWithParam<DType> {};

TEST_P(MatMulOfPanels, IsTheRuleWhateverTheTasks) {
  const size_t columns = ColumnsOf(GetParam(), 300);
  const Weight weight(GetParam(), 301, columns, 6);
  const std::vector<float> bias = CaseFloats(5, 301);
  for (const size_t rows : {1u, 20u}) {
    const auto in = Rows(rows, rows, columns);
    for (const auto& [first, count] : {std::pair{0u, 301u}, {7u, 100u}}) {
      const auto part = std::span(bias).subspan(first, count);
      EXPECT_EQ(
          Multiply(MatMulsSimd, weight.panels.Sub(first, count), in, rows, part),
          Multiply(MatMulsReference, weight.stored.matrix().Sub(first, count), in, rows, part));
    }
  }
}

// 16 bits of a row and whole weights: nothing but the row is rounded, by 2^-15 of its largest.
TEST_P(MatMulOfPanels, IsTheProductUpToTheRoundingOfTheRow) {
  const size_t columns = ColumnsOf(GetParam(), 700);
  const CaseWeight weight(GetParam(), 12, columns, 5);
  const std::vector<float> in = CaseFloats(3, columns);
  const auto got = Multiply(MatMulsReference, weight.matrix(), in, 1, {});
  std::vector<float> row(columns);
  for (size_t n = 0; n < 12; ++n) {
    ReadRow(weight.matrix(), n, row);
    double product = 0, magnitude = 0;
    for (size_t k = 0; k < columns; ++k) {
      product += static_cast<double>(row[k]) * in[k];
      magnitude += std::fabs(static_cast<double>(row[k]));
    }
    EXPECT_NEAR(got[n], product, magnitude * 0x1p-15);
  }
}

TEST_P(MatMulOfPanels, HasTheWeightsOfTheStoredRows) {
  for (const size_t columns : {8u, 40u, 256u, 700u}) {
    const size_t width = ColumnsOf(GetParam(), columns);
    const Weight weight(GetParam(), 19, width, 4);
    std::vector<float> row(width), packed_row(width);
    for (size_t r = 0; r < 19; ++r) {
      ReadRow(weight.stored.matrix(), r, row);
      ReadRow(weight.panels, r, packed_row);
      EXPECT_EQ(packed_row, row);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, MatMulOfPanels, testing::ValuesIn(kForms),
                         [](const auto& test) { return std::string(DTypeName(test.param)); });

// The row (1, -0.5) of integer_rows.h, weights 3 * (11 - 8) and -2 * (6 - 8) with S = 2: 18 - 4.
TEST(Q4sRule, IsTheExampleByHand) {
  IntegerInput row;
  PrepareIntegers(std::vector<float>{1, -0.5f}, &row);
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
    const Weight weight(DType::kQ4S, 19, columns, 4);
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

// The row (1, -0.5) of integer_rows.h; q = (12, 3), s = 5, m = 7, d = 2, e = 4:
// 2 * 5 * (12 - 1.5) - 4 * 7 * (1 - 0.5) = 91.
TEST(KQuantRule, IsTheExampleByHand) {
  IntegerInput row;
  PrepareIntegers(std::vector<float>{1, -0.5f}, &row);
  EXPECT_EQ(row.sums[2][0] * 65536 + row.sums[1][0] * 256 + row.sums[0][0], 16320 - 8160);
  KQuantRecord record{0x4000, 0x4400, {}, {}};
  record.scales.fill(5);
  record.minima.fill(7);
  std::vector<int8_t> levels(256);
  levels[0] = 12;
  levels[1] = 3;
  EXPECT_NEAR(KQuantDot(DType::kQ4K, {&record, 1}, levels, &row), 91, 1e-2);
}

TEST(KQuantPanels, TakeTheBytesOfTheStoredRows) {
  EXPECT_EQ(PanelsBytes(DType::kQ4K, 32, 512), 32u * 2 * 144);
  EXPECT_EQ(PanelsBytes(DType::kQ5K, 32, 512), 32u * 2 * 176);
  EXPECT_EQ(PanelsBytes(DType::kQ6K, 20, 256), 32u * 210);
}

TEST(KQuantPanels, AreRefusedWithTheRowAndTheSuperblock) {
  Weight weight(DType::kQ5K, 5, 512, 6);
  const Matrix stored = weight.stored.matrix();
  const_cast<uint16_t*>(stored.ScaleRow(3))[24 + 1] = 0x7c00;
  const Status status = PackPanels(stored, const_cast<uint8_t*>(weight.panels.panels));
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().ToString(), HasSubstr("row 3"));
  EXPECT_THAT(status.error().ToString(), HasSubstr("Superblock 1 of a q5k row"));
}

TEST(Q4sPanels, TakeTheBytesOfTheStoredRows) {
  EXPECT_EQ(PanelsBytes(DType::kQ4S, 3072, 1024), 3072u * 4 * 140);
  EXPECT_EQ(PanelsBytes(DType::kQ4S, 16, 40), 16u * (32 + 12));
}

TEST(Q4sPanels, AreRefusedWithTheRowAndTheMultiplier) {
  Weight weight(DType::kQ4S, 5, 256, 6);
  const Matrix stored = weight.stored.matrix();
  const_cast<uint16_t*>(stored.ScaleRow(3))[2] &= 0xff0f;
  const Status status = PackPanels(stored, const_cast<uint8_t*>(weight.panels.panels));
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().ToString(), HasSubstr("row 3"));
  EXPECT_THAT(status.error().ToString(), HasSubstr("0 as multiplier 1"));
}

}  // namespace
}  // namespace weft::kernels
