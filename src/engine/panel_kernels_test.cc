// The same logits from a small model, whichever kernels multiply its superblocks.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/test_model.h"
#include "kernels/panel_matmul.h"

namespace weft::engine {
namespace {

using TokenRun = Run;  // inside a test, Run is gtest's

// Of all positions of texts of 1, 3, 8, 16 and 33 tokens, then of a token more: few rows and many.
std::vector<float> Logits() {
  ModelSpec spec;
  spec.hidden = 320;
  spec.width = 544;
  spec.matrix_dtype = DType::kQ4S;
  MemorySource weights;
  const auto programs = ModelBuilder(spec, RandomTensors(1), weights).Build();
  const auto engine = MakeNativeEngine({.thread_count = 2});
  EXPECT_TRUE(engine->Load(programs, weights).ok());
  std::vector<float> logits;
  for (const uint32_t length : {1u, 3u, 8u, 16u, 33u}) {
    for (const uint32_t first : {0u, length}) {
      std::vector<int32_t> ids;
      for (uint32_t i = 0; i < (first == 0 ? length : 1); ++i)
        ids.push_back(static_cast<int32_t>((first + i) * 37 % 128));
      const TokenRun run = {
          length, 0, first, static_cast<uint32_t>(ids.size()), {OutputKind::kLogits}};
      const auto output =
          engine->Step({{0, static_cast<uint32_t>(programs.size())}, {&run, 1}, ids, {}});
      EXPECT_TRUE(output.ok()) << output.error().ToString();
      if (!output.ok()) return {};
      logits.insert(logits.end(), output->logits.begin(), output->logits.end());
    }
  }
  return logits;
}

TEST(PanelKernelsInAnEngine, GiveTheSameLogits) {
  const std::vector<float> expected = Logits();
  ASSERT_FALSE(expected.empty());
  for (const kernels::PanelKernel& kernel : kernels::PanelKernels()) {
    if (!kernel.runs_here()) continue;
    ASSERT_TRUE(kernels::UsePanelKernel(kernel.name).ok());
    EXPECT_EQ(Logits(), expected) << kernel.name;
  }
  ASSERT_TRUE(kernels::UsePanelKernel(kernels::BestPanelKernel().name).ok());
}

}  // namespace
}  // namespace weft::engine
