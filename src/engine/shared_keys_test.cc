// Layers that attend to the keys and values of earlier ones: the same bits however a prompt is cut
// and whoever is in the batch, after cutting back and in forks; nothing is kept for them, and they
// do not run without the layers whose keys and values they read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/test_model.h"

namespace weft::engine {
namespace {

using StepRun = Run;  // inside a test, Run is gtest's
using ::testing::HasSubstr;

class SharedKeys : public testing::TestWithParam<bool> {
 protected:
  static constexpr uint32_t kRows = 70;

  SharedKeys() {
    spec_.layers = 4;
    spec_.qk_norm = true;
    spec_.windows = {0, 20, 0, 20};
    programs_ = ModelBuilder(spec_, RandomTensors(3), source_).Build();
    for (const uint32_t layer : {3, 4}) AttentionOf(layer).kv_layer = layer - 2;
    for (const uint32_t layer : {3, 4}) AttentionOf(layer).k = AttentionOf(layer).v = {};
    SeededRandom random(8);
    for (uint32_t i = 0; i < kRows; ++i) {
      ids_.push_back(static_cast<int32_t>(random.Below(spec_.vocabulary)));
    }
  }

  program::Attention& AttentionOf(uint32_t layer) {
    for (program::Op& op : programs_[layer].ops) {
      if (auto* attention = std::get_if<program::Attention>(&op)) return *attention;
    }
    CHECK(false, "no attention");
  }
  std::unique_ptr<StageEngine> Engine() {
    NativeEngineOptions options;
    options.thread_count = 2;
    options.reference_kernels = GetParam();
    auto engine = MakeNativeEngine(options);
    EXPECT_TRUE(engine->Load(programs_, source_).ok());
    return engine;
  }
  StepRun RunOf(uint32_t session, uint32_t generation, uint32_t first, uint32_t count) {
    return {session, generation, first, count, {OutputKind::kLogits}};
  }
  std::vector<float> Logits(StageEngine& engine, const StepRun& run) {
    const auto ids = std::span<const int32_t>(ids_).subspan(run.first_position, run.count);
    auto output = engine.Step({{0, 6}, {&run, 1}, ids, {}});
    EXPECT_TRUE(output.ok()) << output.error().ToString();
    return output.ok() ? output->logits : std::vector<float>();
  }
  std::vector<float> Tail(const std::vector<float>& logits, uint32_t first) const {
    return {logits.begin() + first * spec_.vocabulary, logits.end()};
  }

  ModelSpec spec_;
  MemorySource source_;
  std::vector<program::Program> programs_;
  std::vector<int32_t> ids_;
};

TEST_P(SharedKeys, AnyChunksAnyBatchAndCutsBackGiveTheSameBits) {
  const auto engine = Engine();
  const std::vector<float> whole = Logits(*engine, RunOf(1, 0, 0, kRows));
  uint32_t session = 1;
  for (const uint32_t chunk : {1u, 14u, 33u, 69u}) {
    std::vector<float> parts;
    ++session;
    for (uint32_t first = 0; first < kRows; first += chunk) {
      const auto part = Logits(*engine, RunOf(session, 0, first, std::min(chunk, kRows - first)));
      parts.insert(parts.end(), part.begin(), part.end());
    }
    EXPECT_EQ(parts, whole) << "chunks of " << chunk;
  }
  // Back to the middle of a page, and a fork of what was there.
  ASSERT_TRUE(engine->Fork({0, 6}, {2, 20, 0, 40}).ok());
  EXPECT_EQ(Logits(*engine, RunOf(2, 1, 40, kRows - 40)), Tail(whole, 40));
  EXPECT_EQ(Logits(*engine, RunOf(20, 0, 40, kRows - 40)), Tail(whole, 40));
  // Beside others.
  const StepRun other = {30, 0, 0, 5, {OutputKind::kNone}};
  ASSERT_TRUE(engine->Step({{0, 6}, {&other, 1}, std::span(ids_).first(5), {}}).ok());
  const std::vector<StepRun> runs = {{30, 0, 5, 3, {OutputKind::kNone}}, RunOf(2, 2, 50, 20)};
  std::vector<int32_t> ids(ids_.begin() + 7, ids_.begin() + 10);
  ids.insert(ids.end(), ids_.begin() + 50, ids_.end());
  const auto output = engine->Step({{0, 6}, runs, ids, {}});
  ASSERT_TRUE(output.ok()) << output.error().ToString();
  EXPECT_EQ(output->logits, Tail(whole, 50));
}

TEST_P(SharedKeys, OnlyLayersWithKeysOfTheirOwnKeepThem) {
  const auto engine = Engine();
  Logits(*engine, RunOf(1, 0, 0, 32));
  const uint64_t one = 2 * spec_.kv_heads * spec_.head_columns * 32 * sizeof(uint16_t);
  EXPECT_EQ(engine->memory().kv_bytes, 2 * one);
  EXPECT_TRUE(engine->ExportKv(1, 2, 0, 32).ok());
  EXPECT_FALSE(engine->ExportKv(1, 3, 0, 32).ok());
}

TEST_P(SharedKeys, RunsWithTheLayersThatItReads) {
  const auto engine = Engine();
  const StepRun run = {1, 0, 0, 1, {OutputKind::kHidden}};
  const std::vector<float> hidden(spec_.hidden, 0.1f);
  const auto message = [&](LayerRange layers) {
    const auto output = engine->Step({layers, {&run, 1}, {}, hidden});
    return output.ok() ? std::string() : output.error().message();
  };
  EXPECT_EQ(message({1, 5}), "");
  EXPECT_THAT(message({2, 4}), HasSubstr("Layer 3 attends to the keys and values of layer 1, so a "
                                         "step over layers [2, 4) cannot run."));
  EXPECT_THAT(message({4, 5}), HasSubstr("Layer 4 attends to the keys and values of layer 2"));
}

TEST_P(SharedKeys, ReadsKeysOfItsOwnShapeOnly) {
  AttentionOf(3).kv_layer = 2;
  AttentionOf(4).kv_layer = 3;
  const auto engine = Engine();
  const StepRun run = {1, 0, 0, 1, {OutputKind::kHidden}};
  const std::vector<float> hidden(spec_.hidden, 0.1f);
  EXPECT_TRUE(engine->Step({{1, 4}, {&run, 1}, {}, hidden}).ok());
  const auto chained = engine->Step({{1, 5}, {&run, 1}, {}, hidden});
  ASSERT_FALSE(chained.ok());
  EXPECT_THAT(chained.error().message(), HasSubstr("which keeps none of its shape"));
}

INSTANTIATE_TEST_SUITE_P(Kernels, SharedKeys, testing::Bool());

}  // namespace
}  // namespace weft::engine
