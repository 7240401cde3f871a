// The cases whose instructions tests/instructions/kernels.mjs counts: products and attention of
// a size. Here their results are compared with the rule's.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "kernels/panel_matmul.h"
#include "kernels/panels.h"
#include "kernels/test_case.h"

namespace weft::kernels {
namespace {

// Names the one case that a counted process does, as "avx2 8": a kernel, or attention, and rows.
constexpr const char* kVariable = "WEFT_COUNTED_CASE";

struct CountedCase {
  std::string_view name;
  size_t rows;
};
constexpr CountedCase kCountedCases[] = {{"avx2", 1},      {"avx2", 8},   {"avx2", 64},
                                         {"ssse3", 1},     {"ssse3", 64}, {"attention", 1},
                                         {"attention", 32}};

// 256 outputs of 2,560 columns, by the kernel of that name.
void Multiply(std::string_view name, size_t rows) {
  constexpr size_t kOutputs = 256, kColumns = 2560;
  const PanelKernel* kernel = nullptr;
  for (const PanelKernel& each : PanelKernels())
    if (each.name == name) kernel = &each;
  // Kernels of another family of processors, or of a younger one.
  if (kernel == nullptr || !kernel->runs_here()) return;
  const CaseWeight stored(DType::kQ4S, kOutputs, kColumns, 1);
  FloatBuffer memory;
  auto* panels = reinterpret_cast<uint8_t*>(
      memory.Reserve(PanelsBytes(DType::kQ4S, kOutputs, kColumns) / sizeof(float)));
  ASSERT_TRUE(PackPanels(stored.matrix(), panels).ok());
  const std::vector<float> in = CaseFloats(2, rows * kColumns);
  std::vector<IntegerInput> prepared(rows * kColumns / 256);
  for (size_t r = 0; r < rows; ++r)
    kernel->prepare(std::span(in).subspan(r * kColumns, kColumns), &prepared[r * kColumns / 256]);
  std::vector<float> out(rows * kOutputs), expected(out.size());
  PanelProduct product;
  product.in = prepared.data();
  product.rows = rows;
  product.weight = {DType::kQ4S, kOutputs, kColumns, nullptr, nullptr, nullptr, panels, 0};
  product.out = out.data();
  product.out_stride = kOutputs;
  kernel->run(product, 0, kOutputs / kPanelOutputs);
  Workspace workspace(1);
  MatMulReference({{in.data(), rows, kColumns, kColumns},
                   stored.matrix(),
                   {},
                   {expected.data(), rows, kOutputs, kOutputs}},
                  workspace);
  EXPECT_EQ(out, expected);
}

// Rows at the end of 512 positions, 4 heads of 2 kv heads.
void Attend(size_t rows) {
  constexpr size_t kPositions = 512, kQueryHeads = 4;
  constexpr KvShape kCountedShape = {2, 64};
  std::vector<uint16_t> memory(kPositions / kPagePositions * kCountedShape.page_elements());
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<uint16_t>(0x3000 + i % 997);
  std::vector<void*> pages;
  for (size_t i = 0; i < kPositions / kPagePositions; ++i)
    pages.push_back(&memory[i * kCountedShape.page_elements()]);
  std::vector<AttentionRow> kv_rows;
  for (size_t r = 0; r < rows; ++r)
    kv_rows.push_back({static_cast<uint32_t>(kPositions - rows + r), pages.data()});
  const size_t columns = kQueryHeads * kCountedShape.head_columns;
  const std::vector<float> q = CaseFloats(3, rows * columns);
  std::vector<float> out(rows * columns), expected(out.size());
  AttentionArgs args;
  args.q = {q.data(), rows, columns, columns};
  args.heads = kQueryHeads;
  args.kv = kCountedShape;
  args.scale = 0.1f;
  args.kv_rows = kv_rows;
  args.out = {out.data(), rows, columns, columns};
  Workspace workspace(1);
  AttentionSimd(args, workspace);
  args.out.data = expected.data();
  AttentionReference(args, workspace);
  for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected[i], 1e-4);
}

TEST(CountedCases, HaveTheirResults) {
  const char* const only = std::getenv(kVariable);
  size_t count = 0;
  for (const auto& [name, rows] : kCountedCases) {
    if (only != nullptr && only != std::string(name) + " " + std::to_string(rows)) continue;
    ++count;
    if (name == "attention")
      Attend(rows);
    else
      Multiply(name, rows);
  }
  EXPECT_EQ(count, only == nullptr ? std::size(kCountedCases) : 1) << only;
}

}  // namespace
}  // namespace weft::kernels
