// KV kept in f32: values against the double-precision oracle, export, import, forks, memory.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "engine/engine.h"
#include "engine/test_model.h"
#include "engine/test_oracle.h"

namespace weft::engine {
namespace {

using StepRun = Run;  // inside a test, Run is gtest's

constexpr uint32_t kRows = 45;  // two pages

struct Loaded {
  explicit Loaded(NativeEngineOptions options) : engine(MakeNativeEngine(options)) {
    spec.qk_norm = true;
    programs = ModelBuilder(spec, tensors, source).Build();
    EXPECT_TRUE(engine->Load(programs, source).ok());
    SeededRandom random(5);
    for (uint32_t i = 0; i < 2 * kRows; ++i) {
      ids.push_back(static_cast<int32_t>(random.Below(spec.vocabulary)));
    }
  }
  Result<StepOutput> Step(uint32_t session, uint32_t first, uint32_t count, OutputKind kind) {
    const StepRun run = {session, 0, first, count, {kind}};
    return engine->Step({all, {&run, 1}, std::span(ids).subspan(first, count), {}});
  }
  uint64_t bytes_per_position() const {
    return uint64_t{4} * 2 * spec.kv_heads * spec.head_columns;
  }

  ModelSpec spec;
  TensorGetter tensors = RandomTensors(1);
  MemorySource source;
  std::vector<program::Program> programs;
  std::unique_ptr<StageEngine> engine;
  std::vector<int32_t> ids;
  const LayerRange all = {0, 4};
};

NativeEngineOptions F32(bool reference = false) {
  return {.thread_count = 2, .reference_kernels = reference, .kv_dtype = DType::kF32};
}

TEST(EngineKvF32, LogitsAreThoseOfTheUnroundedOracle) {
  for (const bool reference : {false, true}) {
    Loaded loaded(F32(reference));
    const std::vector<float> logits = loaded.Step(1, 0, kRows, OutputKind::kLogits)->logits;
    const std::vector<int32_t> ids(loaded.ids.begin(), loaded.ids.begin() + kRows);
    const Oracle::Matrix exact = Oracle(loaded.spec, loaded.tensors, false).Run(ids, 99);
    const Oracle::Matrix rounded = Oracle(loaded.spec, loaded.tensors, true).Run(ids, 99);
    double worst = 0, rounding = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      const size_t row = i / loaded.spec.vocabulary, id = i % loaded.spec.vocabulary;
      worst = std::max(worst, std::fabs(logits[i] - exact[row][id]));
      rounding = std::max(rounding, std::fabs(rounded[row][id] - exact[row][id]));
    }
    EXPECT_LT(worst, 2e-5);
    EXPECT_GT(rounding, 5 * worst);  // f16 pages would have been noticed
  }
}

TEST(EngineKvF32, MemoryCountsFourBytesAValueAndKeepsTheLimit) {
  Loaded loaded(F32());
  ASSERT_TRUE(loaded.Step(1, 0, kRows, OutputKind::kArgmax).ok());
  const MemoryUse use = loaded.engine->memory();
  EXPECT_EQ(use.kv_bytes, 2u * 64 * loaded.bytes_per_position());  // two layers, two pages each
  NativeEngineOptions exact_options = F32();
  exact_options.memory_limit_bytes = use.weight_bytes + use.kv_bytes + use.scratch_bytes;
  Loaded exact(exact_options);
  ASSERT_TRUE(exact.Step(1, 0, kRows, OutputKind::kArgmax).ok());
  EXPECT_FALSE(exact.Step(2, 0, 1, OutputKind::kArgmax).ok());
  --exact_options.memory_limit_bytes;
  Loaded less(exact_options);
  EXPECT_FALSE(less.Step(1, 0, kRows, OutputKind::kArgmax).ok());
  loaded.engine->ReleaseAll();
  EXPECT_EQ(loaded.engine->memory().kv_bytes, 0u);
}

TEST(EngineKvF32, ForksCopyWholePages) {
  Loaded loaded(F32()), fresh(F32());
  ASSERT_TRUE(loaded.Step(1, 0, kRows, OutputKind::kNone).ok());
  ASSERT_TRUE(loaded.engine->Fork(loaded.all, {1, 2, 0, kRows}).ok());
  const auto forked = loaded.Step(2, kRows, 10, OutputKind::kLogits);
  const auto original = loaded.Step(1, kRows, 10, OutputKind::kLogits);
  ASSERT_TRUE(fresh.Step(1, 0, kRows, OutputKind::kNone).ok());
  const auto expected = fresh.Step(1, kRows, 10, OutputKind::kLogits);
  EXPECT_EQ(forked->logits, expected->logits);
  EXPECT_EQ(original->logits, expected->logits);
}

TEST(EngineKvF32, ExportedKvContinuesElsewhereBitForBit) {
  Loaded from(F32()), to(F32());
  ASSERT_TRUE(from.Step(1, 0, kRows, OutputKind::kNone).ok());
  for (uint32_t layer = 1; layer <= 2; ++layer) {
    const auto kv = from.engine->ExportKv(1, layer, 0, kRows).value();
    ASSERT_EQ(kv.size(), kRows * from.bytes_per_position());
    // In two pieces, the second of which is exported by itself.
    const auto tail = from.engine->ExportKv(1, layer, 33, kRows - 33).value();
    const size_t row_bytes = from.bytes_per_position() / 2;
    std::vector<uint8_t> head;
    for (const size_t begin : {size_t{0}, kRows * row_bytes}) {
      const auto first = kv.begin() + static_cast<ptrdiff_t>(begin);
      head.insert(head.end(), first, first + static_cast<ptrdiff_t>(33 * row_bytes));
      EXPECT_EQ(0, std::memcmp(&kv[begin + 33 * row_bytes], &tail[begin == 0 ? 0 : tail.size() / 2],
                               (kRows - 33) * row_bytes));
    }
    ASSERT_TRUE(to.engine->ImportKv(7, 0, layer, 0, 33, head).ok());
    ASSERT_TRUE(to.engine->ImportKv(7, 0, layer, 33, kRows - 33, tail).ok());
    EXPECT_EQ(to.engine->ExportKv(7, layer, 0, kRows).value(), kv);
  }
  EXPECT_EQ(to.Step(7, kRows, 10, OutputKind::kLogits)->logits,
            from.Step(1, kRows, 10, OutputKind::kLogits)->logits);
}

TEST(EngineKvF32, KvOfTheOtherTypeIsRefused) {
  Loaded f32(F32()), f16({.thread_count = 2});
  for (Loaded* loaded : {&f32, &f16}) {
    ASSERT_TRUE(loaded->Step(1, 0, kRows, OutputKind::kNone).ok());
  }
  const auto wide = f32.engine->ExportKv(1, 1, 0, kRows).value();
  const auto narrow = f16.engine->ExportKv(1, 1, 0, kRows).value();
  EXPECT_EQ(wide.size(), 2 * narrow.size());
  const Status to_f32 = f32.engine->ImportKv(2, 0, 1, 0, kRows, narrow);
  const Status to_f16 = f16.engine->ImportKv(2, 0, 1, 0, kRows, wide);
  ASSERT_FALSE(to_f32.ok());
  ASSERT_FALSE(to_f16.ok());
  EXPECT_NE(to_f32.error().message().find("in f32 takes"), std::string::npos);
  EXPECT_NE(to_f16.error().message().find("in f16 takes"), std::string::npos);
  EXPECT_EQ(f32.engine->Held(2, {1, 2}).positions, 0u);
}

}  // namespace
}  // namespace weft::engine
