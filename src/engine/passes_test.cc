// A step's rows go through the layers in passes as long as memory allows: the same bits, whatever
// their length, and no more memory than plans reserved where there is no more.
#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "engine/engine.h"
#include "engine/test_model.h"

namespace weft::engine {
namespace {

constexpr uint32_t kLong = 700;  // two passes of 512 rows at most, six of 128

std::vector<int32_t> TokenIds(uint32_t count, uint32_t vocabulary) {
  std::vector<int32_t> ids;
  for (uint32_t i = 0; i < count; ++i)
    ids.push_back(static_cast<int32_t>((i * 37 + 11) % vocabulary));
  return ids;
}

struct ManyRows {
  explicit ManyRows(uint64_t limit)
      : tensors(RandomTensors(1)),
        engine(MakeNativeEngine({.thread_count = 2, .memory_limit_bytes = limit})) {
    EXPECT_TRUE(engine->Load(ModelBuilder(spec, tensors, source).Build(), source).ok());
  }

  Result<StepOutput> Step(uint32_t session, uint32_t first, uint32_t count, OutputKind kind) {
    const std::vector<int32_t> ids = TokenIds(first + count, spec.vocabulary);
    const Run run = {session, 0, first, count, {kind}};
    return engine->Step(
        {{0, spec.layers + 2}, {&run, 1}, std::span<const int32_t>(ids).subspan(first), {}});
  }
  // Of the logits behind `count` rows.
  std::vector<uint32_t> Bits(uint32_t session, uint32_t count) {
    const auto prompt = Step(session, 0, count, OutputKind::kArgmax);
    EXPECT_TRUE(prompt.ok()) << prompt.error().message();
    const auto last = Step(session, count, 1, OutputKind::kLogits);
    EXPECT_TRUE(last.ok()) << last.error().message();
    std::vector<uint32_t> bits;
    for (const float value : last.value().logits) bits.push_back(std::bit_cast<uint32_t>(value));
    return bits;
  }

  ModelSpec spec;
  TensorGetter tensors;
  MemorySource source;
  std::unique_ptr<StageEngine> engine;
};

TEST(Passes, AreShorterWhereMemoryIsAndGiveTheSameBits) {
  ManyRows free(0);
  const std::vector<uint32_t> expected = free.Bits(1, kLong);

  // What a plan reserves: weights, keys and values, and scratch memory for 128 rows.
  ManyRows planned(0);
  for (uint32_t first = 0; first < kLong; first += 128)
    ASSERT_TRUE(planned.Step(1, first, 128, OutputKind::kArgmax).ok());
  const uint64_t scratch = planned.engine->memory().scratch_bytes;
  const MemoryUse use = free.engine->memory();
  const uint64_t logits = free.spec.vocabulary * sizeof(float);
  ManyRows tight(use.weight_bytes + use.kv_bytes + scratch + logits);
  EXPECT_EQ(tight.Bits(1, kLong), expected);
  EXPECT_LE(tight.engine->memory().scratch_bytes, scratch);

  // A pass of all rows, where there is memory for it.
  ASSERT_TRUE(free.Step(2, 0, kLong, OutputKind::kNone).ok());
  EXPECT_GT(free.engine->memory().scratch_bytes, 2 * scratch);
}

TEST(Passes, WhatLongOnesComputedInIsGivenBack) {
  ManyRows loaded(0);
  ASSERT_TRUE(loaded.Step(1, 0, 128, OutputKind::kNone).ok());
  const uint64_t small = loaded.engine->memory().scratch_bytes;
  ASSERT_TRUE(loaded.Step(1, 128, kLong, OutputKind::kNone).ok());
  const uint64_t large = loaded.engine->memory().scratch_bytes;
  EXPECT_GT(large, 2 * small);
  // A prompt's next frame finds it.
  ASSERT_TRUE(loaded.Step(1, 128 + kLong, kLong, OutputKind::kNone).ok());
  EXPECT_GE(loaded.engine->memory().scratch_bytes, large);
  ASSERT_TRUE(loaded.Step(1, 128 + 2 * kLong, 1, OutputKind::kArgmax).ok());
  EXPECT_LT(loaded.engine->memory().scratch_bytes, small);
}

}  // namespace
}  // namespace weft::engine
