// The vector matrix product against the scalar one over odd shapes, strides and formats; and that a
// row's bits depend neither on the other rows, nor on the number of threads, nor (with fused
// multiply-add) on the instruction set.
#include "kernels/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "hwy/highway.h"
#include "kernels/test_case.h"

namespace weft::kernels {
namespace {

struct Format {
  DType dtype;
  bool zero;
};
constexpr Format kFormats[] = {{DType::kF32, false}, {DType::kF16, false}, {DType::kBF16, false},
                               {DType::kQ8, false},  {DType::kQ4, false},  {DType::kQ4, true},
                               {DType::kQ4S, false}};

// A value that no kernel computes here; marks what must not be written.
constexpr float kUntouched = 12345.678f;

// Sum of |in * weight| over k: what rounding errors are relative to.
float Magnitude(const Matrix& weight, size_t n, std::span<const float> in) {
  std::vector<float> row(weight.columns);
  ReadRow(weight, n, row);
  float sum = 0;
  for (size_t k = 0; k < row.size(); ++k) sum += std::fabs(row[k] * in[k]);
  return sum;
}

class MatMul : public testing::TestWithParam<Format> {
 protected:
  CaseWeight Weight(size_t n, size_t k) const {
    return CaseWeight(GetParam().dtype, n, k, static_cast<uint32_t>(n * 31 + k), GetParam().zero);
  }
};

TEST_P(MatMul, AgreesWithTheScalarKernelOverShapes) {
  Workspace workspace(2);
  for (const size_t k : {1u, 15u, 16u, 31u, 32u, 33u, 127u, 128u, 129u, 172u, 4096u, 5000u}) {
    for (const size_t n : {1u, 3u, 4u, 7u, 130u}) {
      for (const size_t rows : {1u, 2u, 3u, 5u, 8u, 9u, 19u}) {
        if (k > 1000 && (rows > 5 || n > 7)) continue;
        SCOPED_TRACE(testing::Message() << rows << " x " << k << " x " << n);
        const CaseWeight weight = Weight(n, k);
        const std::vector<float> in = CaseFloats(7, rows * k);
        const std::vector<float> bias = CaseFloats(8, n);
        std::vector<float> got(rows * n, NAN), expected(rows * n, NAN);
        const MatMulArgs call = {
            {in.data(), rows, k, k}, weight.matrix(), bias, {got.data(), rows, n, n}};
        MatMulsSimd({&call, 1}, workspace);
        MatMulReference({call.in, call.weight, bias, {expected.data(), rows, n, n}}, workspace);
        for (size_t i = 0; i < got.size(); ++i) {
          const float magnitude = Magnitude(weight.matrix(), i % n, call.in.Row(i / n));
          ASSERT_NEAR(got[i], expected[i], 1e-6f * (magnitude + 1)) << i;
        }
      }
    }
  }
}

TEST_P(MatMul, ReadsAndWritesViewsOfWiderBuffers) {
  Workspace workspace(1);
  constexpr size_t kRows = 3, kK = 40, kN = 6, kInStride = 57, kOutStride = 11;
  const CaseWeight weight = Weight(kN, kK);
  // Everything around the view is not-a-number: reading it would show.
  std::vector<float> in(kRows * kInStride, NAN);
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t k = 0; k < kK; ++k)
      in[r * kInStride + 5 + k] = CaseFloat(3, static_cast<uint32_t>(r * kK + k));
  }
  std::vector<float> out(kRows * kOutStride, kUntouched);
  const MatMulArgs call = {{in.data() + 5, kRows, kK, kInStride},
                           weight.matrix(),
                           {},
                           {out.data() + 2, kRows, kN, kOutStride}};
  MatMulsSimd({&call, 1}, workspace);
  std::vector<float> expected(kRows * kN);
  MatMulReference({call.in, call.weight, {}, {expected.data(), kRows, kN, kN}}, workspace);
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t i = 0; i < kOutStride; ++i) {
      const bool inside = i >= 2 && i < 2 + kN;
      EXPECT_NEAR(out[r * kOutStride + i], inside ? expected[r * kN + i - 2] : kUntouched, 1e-4f);
    }
  }
}

TEST_P(MatMul, ViewOfWeightRowsIsThatPartOfTheProduct) {
  Workspace workspace(1);
  const CaseWeight weight = Weight(12, 70);
  const std::vector<float> in = CaseFloats(5, 70);
  std::vector<float> all(12), part(5);
  const MatMulArgs calls[] = {
      {{in.data(), 1, 70, 70}, weight.matrix(), {}, {all.data(), 1, 12, 12}},
      {{in.data(), 1, 70, 70}, weight.matrix().Sub(4, 5), {}, {part.data(), 1, 5, 5}}};
  MatMulsSimd(calls, workspace);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(part[i], all[i + 4]);
}

// Bits of the product of `rows` rows, computed `step` rows at a time.
std::vector<uint32_t> Bits(const Matrix& weight, const std::vector<float>& in, size_t rows,
                           size_t step, size_t threads) {
  Workspace workspace(threads);
  const size_t k = weight.columns, n = weight.rows;
  std::vector<float> out(rows * n);
  for (size_t r = 0; r < rows; r += step) {
    const size_t count = std::min(step, rows - r);
    const MatMulArgs call = {
        {in.data() + r * k, count, k, k}, weight, {}, {out.data() + r * n, count, n, n}};
    MatMulsSimd({&call, 1}, workspace);
  }
  std::vector<uint32_t> bits;
  for (const float value : out) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

TEST_P(MatMul, BitsOfARowDependOnNeitherBatchNorThreads) {
  constexpr size_t kRows = 21;
  for (const size_t k : {33u, 172u, 512u}) {
    const CaseWeight weight = Weight(67, k);
    const std::vector<float> in = CaseFloats(11, kRows * k);
    const auto alone = Bits(weight.matrix(), in, kRows, 1, 1);
    for (const size_t step : {2u, 3u, 4u, 5u, 7u, 8u, 13u, 21u}) {
      for (const size_t threads : {1u, 2u, 3u}) {
        ASSERT_EQ(Bits(weight.matrix(), in, kRows, step, threads), alone) << k << ", " << step;
      }
    }
  }
}

TEST_P(MatMul, BitsAreTheSameOnEveryInstructionSetWithFusedMultiplyAdd) {
  const CaseWeight weight = Weight(35, 300);
  const std::vector<float> in = CaseFloats(13, 6 * 300);
  const auto best = Bits(weight.matrix(), in, 6, 6, 1);
  const int64_t with_fma = hwy::SupportedTargets() & (HWY_AVX2 | HWY_AVX3 | HWY_NEON);
  for (int64_t left = with_fma; left != 0; left &= left - 1) {
    hwy::SetSupportedTargetsForTest(left & -left);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    EXPECT_EQ(Bits(weight.matrix(), in, 6, 6, 1), best) << hwy::TargetName(left & -left);
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST_P(MatMul, SeveralProductsInOneRegionAreTheProductsAlone) {
  Workspace workspace(2);
  constexpr size_t kCalls = 19;  // more than one region takes
  const std::vector<float> in = CaseFloats(17, kCalls * 2 * 48);
  std::vector<CaseWeight> weights;
  std::vector<std::vector<float>> together(kCalls), alone(kCalls);
  std::vector<MatMulArgs> calls;
  for (size_t i = 0; i < kCalls; ++i) {
    weights.push_back(Weight(5 + i, 48));
    together[i].assign(2 * (5 + i), NAN);
    alone[i] = together[i];
  }
  for (size_t i = 0; i < kCalls; ++i) {
    // Some share their input, some do not.
    const ConstRows rows = {in.data() + i / 3 * 96, 2, 48, 48};
    calls.push_back({rows, weights[i].matrix(), {}, {together[i].data(), 2, 5 + i, 5 + i}});
    const MatMulArgs one = {rows, weights[i].matrix(), {}, {alone[i].data(), 2, 5 + i, 5 + i}};
    MatMulsSimd({&one, 1}, workspace);
  }
  MatMulsSimd(calls, workspace);
  EXPECT_EQ(together, alone);
}

// Formats read their activations in different units (q8: whole blocks of 32), so what one product
// of a region may read in place another may not.
TEST(MatMuls, ProductsOfDifferentFormatsReadTheSameRowsWithinTheirBounds) {
  Workspace workspace(1);
  constexpr size_t kRows = 2, kN = 5, kGuard = 32;
  for (const size_t k : {16u, 24u, 48u, 80u, 112u}) {
    // One row's end is followed by not-a-number, so reading beyond it shows in the sum.
    const size_t stride = k + kGuard;
    std::vector<float> in(kRows * stride, NAN);
    for (size_t r = 0; r < kRows; ++r) std::fill_n(in.begin() + r * stride, k, 1.0f);
    const ConstRows rows = {in.data(), kRows, k, stride};
    for (const Format& first : kFormats) {
      for (const Format& second : kFormats) {
        for (const Format& third : kFormats) {
          const Format formats[] = {first, second, third};
          std::vector<CaseWeight> weights;
          std::vector<std::vector<float>> got, expected;
          std::vector<MatMulArgs> calls;
          for (const Format& format : formats) {
            weights.emplace_back(format.dtype, kN, k, 3, format.zero);
            got.emplace_back(kRows * kN, NAN);
            expected.emplace_back(kRows * kN, NAN);
          }
          for (size_t i = 0; i < 3; ++i) {
            const Matrix weight = weights[i].matrix();
            MatMulReference({rows, weight, {}, {expected[i].data(), kRows, kN, kN}}, workspace);
            calls.push_back({rows, weight, {}, {got[i].data(), kRows, kN, kN}});
          }
          MatMulsSimd(calls, workspace);
          for (size_t i = 0; i < 3; ++i) {
            for (size_t j = 0; j < kRows * kN; ++j) {
              ASSERT_NEAR(got[i][j], expected[i][j], 1e-3f)
                  << "product " << i << " of " << DTypeName(first.dtype) << ", "
                  << DTypeName(second.dtype) << ", " << DTypeName(third.dtype) << ", K = " << k;
            }
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, MatMul, testing::ValuesIn(kFormats), [](const auto& test) {
  return std::string(DTypeName(test.param.dtype)) + (test.param.zero ? "_zero" : "");
});

}  // namespace
}  // namespace weft::kernels
