// Rounding in place is exactly a trip through tensor/half.h, on every instruction set.
#include "kernels/round.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "hwy/highway.h"
#include "kernels/kernel_set.h"
#include "tensor/half.h"

namespace weft::kernels {
namespace {

// Values of every magnitude and sign, and all that lies at, between and next to the 16-bit ones.
std::vector<float> Values() {
  std::vector<float> values;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4099) {
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (uint32_t half = 0; half < 1 << 16; ++half) {
    const auto exact = std::bit_cast<uint32_t>(F16ToF32(static_cast<uint16_t>(half)));
    const uint32_t bf16 = half << 16;
    for (const uint32_t off : {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u}) {
      values.push_back(std::bit_cast<float>(exact + off));
      values.push_back(std::bit_cast<float>(bf16 + off));
    }
  }
  return values;
}

float Through(DType dtype, float value) {
  switch (dtype) {
    case DType::kF16:
      return F16ToF32(F32ToF16(value));
    case DType::kBF16:
      return BF16ToF32(F32ToBF16(value));
    default:
      return value;
  }
}

void ExpectRounded(const KernelSet& kernels, const std::vector<float>& values, DType dtype) {
  Workspace workspace(1);
  // Rows of 37 in a buffer 40 wide: vectors end in the middle, and the gaps must stay.
  const size_t rows = values.size() / 40;
  std::vector<float> got = values;
  kernels.round({{got.data(), rows, 37, 40}, dtype}, workspace);
  for (size_t i = 0; i < rows * 40; ++i) {
    const float expected = i % 40 < 37 ? Through(dtype, values[i]) : values[i];
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got[i])) << values[i];
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(expected))
          << values[i] << " became " << got[i];
    }
  }
}

TEST(Round, IsATripThroughTheType) {
  const std::vector<float> values = Values();
  const int64_t supported = hwy::SupportedTargets();
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    SCOPED_TRACE(DTypeName(dtype));
    ExpectRounded(ReferenceKernels(), values, dtype);
    for (int64_t left = supported; left != 0; left &= left - 1) {
      const int64_t target = left & -left;
      SCOPED_TRACE(hwy::TargetName(target));
      hwy::SetSupportedTargetsForTest(target);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
      ExpectRounded(FastKernels(), values, dtype);
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
}

TEST(Round, TooLargeForF16BecomesInfinite) {
  Workspace workspace(1);
  for (const KernelSet* kernels : {&ReferenceKernels(), &FastKernels()}) {
    std::vector<float> values = {65504, 65519, 65520, -65520, 1e30f, 2048.9f};
    kernels->round({{values.data(), 1, values.size(), values.size()}, DType::kF16}, workspace);
    const std::vector<float> expected = {65504, 65504, INFINITY, -INFINITY, INFINITY, 2048};
    EXPECT_EQ(values, expected);
  }
}

}  // namespace
}  // namespace weft::kernels
