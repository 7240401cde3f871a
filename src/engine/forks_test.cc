// Forks in some of the layers that an engine holds. What forks of all layers share and copy:
// engine_test.cc; recurrent state: state_pages_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/test_model.h"

namespace weft::engine {
namespace {

using testing::HasSubstr;
using ForkRun = Run;

class Forks : public testing::Test {
 protected:
  Forks() {
    programs_ = ModelBuilder(ModelSpec{}, RandomTensors(1), weights_).Build();
    engine_ = Fresh();
  }

  std::unique_ptr<StageEngine> Fresh() {
    auto engine = MakeNativeEngine({.thread_count = 1});
    EXPECT_TRUE(engine->Load(programs_, weights_).ok());
    return engine;
  }
  LayerRange all() const { return {0, static_cast<uint32_t>(programs_.size())}; }

  // The best token behind `count` rows of a text from `first` on, and its logit.
  static std::pair<int32_t, float> Best(StageEngine& engine, LayerRange all, const ForkRun& run) {
    std::vector<int32_t> ids;
    for (uint32_t i = 0; i < run.count; ++i)
      ids.push_back(static_cast<int32_t>((run.first_position + i) * 37 % 128));
    const auto output = engine.Step({all, {&run, 1}, ids, {}});
    EXPECT_TRUE(output.ok()) << output.error().ToString();
    if (!output.ok()) return {};
    const auto& best = output->selections.at(0).candidates.at(0);
    return {best.token_id, best.logit};
  }
  static ForkRun RunOf(uint32_t session, uint32_t generation, uint32_t first, uint32_t count) {
    return {session, generation, first, count, {OutputKind::kArgmax}};
  }
  std::string Refusal(LayerRange layers, const SessionFork& fork) {
    const Status status = engine_->Fork(layers, fork);
    return status.ok() ? "" : status.error().message();
  }

  MemorySource weights_;
  std::vector<program::Program> programs_;
  std::unique_ptr<StageEngine> engine_;
};

// A worker with two bindings forks in the layers of one of them. What the session holds in these
// gives way to a fork of a later generation alone.
TEST_F(Forks, AreOfTheLayersThatAreNamed) {
  Best(*engine_, all(), RunOf(1, 0, 0, 45));
  const LayerRange front = {0, 2}, back = {2, all().end};
  ASSERT_EQ(Refusal(front, {1, 2, 3, 40}), "");
  EXPECT_EQ(engine_->Held(2, front).positions, 40u);
  EXPECT_EQ(engine_->Held(2, back).positions, 0u);
  EXPECT_THAT(Refusal(all(), {1, 2, 3, 44}), HasSubstr("is in generation 3"));
  EXPECT_EQ(engine_->Held(2, front).positions, 40u) << "an error changes nothing";
  EXPECT_EQ(engine_->Held(2, back).positions, 0u);
  ASSERT_EQ(Refusal(all(), {1, 2, 4, 44}), "");
  const auto fresh = Fresh();
  Best(*fresh, all(), RunOf(1, 0, 0, 44));
  EXPECT_EQ(Best(*engine_, all(), RunOf(2, 4, 44, 9)), Best(*fresh, all(), RunOf(1, 0, 44, 9)));
}

TEST_F(Forks, WhatMakesNoSenseIsRefused) {
  Best(*engine_, all(), RunOf(1, 0, 0, 45));
  EXPECT_THAT(Refusal(all(), {1, 1, 1, 40}), HasSubstr("another session"));
  EXPECT_THAT(Refusal(all(), {1, 2, 1, 0}), HasSubstr("at least 1 position"));
  engine_->Unload({2, 3});
  EXPECT_THAT(Refusal(all(), {1, 5, 0, 40}), HasSubstr("are not loaded"));
}

// Pages live as long as somebody needs them, and cost once.
TEST_F(Forks, PagesOutliveTheSessionThatFilledThem) {
  Best(*engine_, all(), RunOf(1, 0, 0, 64));
  const uint64_t bytes = engine_->memory().kv_bytes;
  for (uint32_t session = 2; session < 6; ++session)
    ASSERT_EQ(Refusal(all(), {1, session, 0, 64}), "");
  EXPECT_EQ(engine_->memory().kv_bytes, bytes);
  engine_->Release(1);
  EXPECT_EQ(engine_->memory().kv_bytes, bytes);
  for (uint32_t session = 2; session < 6; ++session) engine_->Release(session);
  EXPECT_EQ(engine_->memory().kv_bytes, 0u);
}

}  // namespace
}  // namespace weft::engine
