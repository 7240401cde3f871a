// Pages of f32: attention over them is exact to f32, on every instruction set, and what is stored
// comes out unrounded.
#include <weft_source_dir.h>

#include <gtest/gtest.h>

#include "hwy/highway.h"
#include "kernels/test_naive.h"
#include "kernels/test_run_case.h"

namespace weft::kernels {
namespace {

std::vector<ConformanceCase> AttentionCases() {
  return ReadCases(std::string(WEFT_SOURCE_DIR) + "/tests/conformance/attention.json");
}

// Worst error relative to the larger of 1 and the value.
double WorstError(const std::vector<float>& got, const Doubles& expected) {
  if (got.size() != expected.size()) return INFINITY;
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = std::fabs(got[i] - expected[i]) / std::max(1.0, std::fabs(expected[i]));
    worst = error <= worst ? worst : error;  // a NaN is the worst
  }
  return worst;
}

TEST(KvF32, AttentionIsThatOfUnroundedKeysAndValues) {
  const std::vector<ConformanceCase> cases = AttentionCases();
  ASSERT_FALSE(cases.empty());
  const int64_t supported = hwy::SupportedTargets();
  double rounded_error = 0;
  for (int64_t left = supported; left != 0; left &= left - 1) {
    const int64_t target = left & -left;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    Workspace workspace(2);
    for (const KernelSet* kernels : {&ReferenceKernels(), &FastKernels()}) {
      for (const ConformanceCase& c : cases) {
        SCOPED_TRACE(c.name + " " + hwy::TargetName(target));
        const Doubles exact = NaiveCase(c, /*kv_in_f16=*/false).Run();
        EXPECT_LE(WorstError(CaseRunner(*kernels, workspace, DType::kF32).Run(c), exact), 1e-5);
        rounded_error = std::max(
            rounded_error, WorstError(CaseRunner(*kernels, workspace, DType::kF16).Run(c), exact));
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  EXPECT_GT(rounded_error, 1e-4);  // the cases can tell the two apart
}

TEST(KvF32, StoredHeadsComeOutAsTheyWere) {
  const KvShape shape = {2, 24, DType::kF32};
  EXPECT_EQ(shape.page_bytes(), 2u * 2 * 24 * 32 * 4);
  std::vector<float> page(shape.page_elements(), NAN), other(shape.page_elements(), NAN);
  const std::vector<float> k = CaseFloats(1, shape.row_columns(), 3);
  const std::vector<float> v = CaseFloats(2, shape.row_columns(), 3);
  for (size_t head = 0; head < shape.kv_heads; ++head) {
    StoreKv(shape, page.data(), 7, head, std::span(k).subspan(head * 24, 24),
            std::span(v).subspan(head * 24, 24));
  }
  std::vector<float> k_back(k.size()), v_back(v.size());
  CopyOut(shape, page.data(), 7, k_back.data(), v_back.data());
  EXPECT_EQ(k_back, k);
  EXPECT_EQ(v_back, v);
  CopyIn(shape, other.data(), 30, k.data(), v.data());
  CopyOut(shape, other.data(), 30, k_back.data(), v_back.data());
  EXPECT_EQ(k_back, k);
  EXPECT_EQ(v_back, v);
}

}  // namespace
}  // namespace weft::kernels
