// Engines that compute at once on the same threads (ShareThreads), as those of several models do.
#include <gtest/gtest.h>

#include <bit>
#include <memory>
#include <thread>

#include "engine/engine.h"
#include "engine/test_model.h"

namespace weft::engine {
namespace {

// The bits of all logits of a random model for 200 rows, a few rows a step.
std::vector<uint32_t> LogitsBits(const NativeEngineOptions& options) {
  ModelSpec spec;
  spec.matrix_dtype = DType::kQ4;
  MemorySource source;
  const auto programs = ModelBuilder(spec, RandomTensors(1), source).Build();
  const auto engine = MakeNativeEngine(options);
  EXPECT_TRUE(engine->Load(programs, source).ok());
  std::vector<uint32_t> bits;
  for (uint32_t first = 0; first < 200; first += 5) {
    std::vector<int32_t> ids;
    for (uint32_t i = 0; i < 5; ++i) ids.push_back(static_cast<int32_t>((first + i) % 7));
    const weft::engine::Run run = {1, 0, first, 5, {OutputKind::kLogits}};
    const auto step = engine->Step({{0, spec.layers + 2}, {&run, 1}, ids, {}});
    EXPECT_TRUE(step.ok());
    if (!step.ok()) break;
    for (const float value : step->logits) bits.push_back(std::bit_cast<uint32_t>(value));
  }
  return bits;
}

TEST(SharedThreads, LeaveEveryResultAsItIsAlone) {
  const std::vector<uint32_t> alone = LogitsBits({.thread_count = 1});
  const auto threads = ShareThreads(4);
  std::vector<std::vector<uint32_t>> at_once(3);
  std::vector<std::thread> callers;
  for (std::vector<uint32_t>& bits : at_once) {
    callers.emplace_back([&] { bits = LogitsBits({.threads = threads}); });
  }
  for (std::thread& caller : callers) caller.join();
  ASSERT_FALSE(alone.empty());
  for (const std::vector<uint32_t>& bits : at_once) EXPECT_EQ(bits, alone);
}

}  // namespace
}  // namespace weft::engine
