// Panels of experts are made once, however shards of them come and go.
#include "engine/loaded_weight.h"

#include <gtest/gtest.h>

#include "engine/test_model.h"
#include "program/shards.h"

namespace weft::engine {
namespace {

constexpr uint32_t kExperts = 4;

// Counts the bytes that are read from it.
class CountingSource : public WeightSource {
 public:
  Result<Slice> Read(const program::Part& part) override {
    byte_count += part.byte_count;
    return memory.Read(part);
  }
  MemorySource memory;
  uint64_t byte_count = 0;
};

class LoadedWeightTest : public testing::Test {
 protected:
  LoadedWeightTest() {
    ModelSpec spec;
    spec.experts = kExperts;
    spec.top_k = 2;
    spec.matrix_dtype = DType::kQ4S;
    const program::Program layer = ModelBuilder(spec, RandomTensors(1), source_.memory).Build()[1];
    down_ = layer.weights[program::FindExperts(layer)->down];
  }

  LoadedWeight Load(const std::vector<uint32_t>& experts) {
    source_.byte_count = 0;
    auto loaded = LoadedWeight::Load(program::WeightOfExperts(down_, experts),
                                     WeightUse::kMultiplied, source_, store_);
    CHECK(loaded.ok());
    return std::move(*loaded);
  }
  // What is stored of so many experts.
  uint64_t BytesOf(size_t experts) const {
    uint64_t byte_count = 0;
    for (const auto* parts : {&down_.data, &down_.scale})
      for (const program::Part& part : *parts) byte_count += part.byte_count;
    return byte_count / kExperts * experts;
  }
  static std::vector<uint8_t> Copy(const LoadedWeight& weight, size_t matrix) {
    const HeldBytes& held = weight.held()[matrix];
    return {held.address, held.address + held.byte_count};
  }

  CountingSource source_;
  program::Weight down_;
  PanelStore store_;
};

TEST_F(LoadedWeightTest, AChangedShardReadsWhatIsNewAlone) {
  std::optional<LoadedWeight> old = Load({0, 1, 3});
  EXPECT_EQ(source_.byte_count, BytesOf(3));
  const LoadedWeight changed = Load({1, 2, 3});
  EXPECT_EQ(source_.byte_count, BytesOf(1));
  EXPECT_EQ(changed.matrices()[0].panels, old->matrices()[1].panels);
  EXPECT_EQ(changed.matrices()[2].panels, old->matrices()[2].panels);
  ASSERT_EQ(changed.held().size(), 3u);
  // What the two share stays when the old shard goes.
  const std::vector<uint8_t> first = Copy(changed, 0), last = Copy(changed, 2);
  old.reset();
  EXPECT_EQ(Copy(changed, 0), first);
  EXPECT_EQ(Copy(changed, 2), last);
}

TEST_F(LoadedWeightTest, PanelsAreThoseOfALoadAtOnce) {
  const LoadedWeight some = Load({0, 2});
  const LoadedWeight all = Load({0, 1, 2, 3});
  PanelStore empty;
  const auto at_once = LoadedWeight::Load(down_, WeightUse::kMultiplied, source_, empty);
  ASSERT_TRUE(at_once.ok());
  for (size_t i = 0; i < kExperts; ++i) EXPECT_EQ(Copy(all, i), Copy(*at_once, i)) << i;
}

TEST_F(LoadedWeightTest, WhatNobodyHoldsIsReadAgain) {
  static_cast<void>(Load({0, 1}));
  static_cast<void>(Load({0, 1}));
  EXPECT_EQ(source_.byte_count, BytesOf(2));
}

}  // namespace
}  // namespace weft::engine
