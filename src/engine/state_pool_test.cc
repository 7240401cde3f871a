#include "engine/state_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "engine/kv_cache.h"

namespace weft::engine {
namespace {

constexpr size_t kPage = 4096;

TEST(StatePool, GivesAgainWhatCameBack) {
  StatePool pool;
  pool.Keep({{kPage, 1}});
  LargeMemory page = pool.Take(kPage);
  const uint8_t* address = page.data();
  pool.GiveBack(std::move(page), kPage);
  EXPECT_EQ(pool.waiting_bytes(), kPage);
  EXPECT_EQ(pool.Take(kPage).data(), address);
  EXPECT_EQ(pool.waiting_bytes(), 0u);
}

TEST(StatePool, KeepsNoMoreThanAStepTakes) {
  StatePool pool;
  pool.Keep({{kPage, 3}, {2 * kPage, 1}});
  for (int i = 0; i < 5; ++i) {
    pool.GiveBack(pool.Take(kPage), kPage);
    pool.GiveBack(LargeMemory(kPage), kPage);
    pool.GiveBack(LargeMemory(2 * kPage), 2 * kPage);
    pool.GiveBack(LargeMemory(3 * kPage), 3 * kPage);
  }
  EXPECT_EQ(pool.waiting_bytes(), 5 * kPage);
  pool.Keep({{kPage, 2}});
  EXPECT_EQ(pool.waiting_bytes(), 2 * kPage);
  pool.Keep({});
  EXPECT_EQ(pool.waiting_bytes(), 0u);
}

TEST(StatePool, PagesOfTwoMebibytesAreWhereLargePagesBegin) {
  constexpr size_t kLarge = size_t{2} << 20;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(StatePool().Take(kLarge + 64).data()) % kLarge, 0u);
}

// A cache of layers with a state each, and steps of one row.
struct StateCache {
  static constexpr uint32_t kLayers = 3;
  static constexpr uint64_t kStateFloats = 1000;
  static constexpr uint64_t kStep = kLayers * kStateFloats * sizeof(float);

  StateCache() {
    for (uint32_t layer = 0; layer < kLayers; ++layer) cache.AddLayer(layer, {{}, kStateFloats});
  }
  // The states that the step writes.
  std::set<const float*> Step(uint32_t session, uint32_t position, bool commit = true) {
    const Run run = {session, 0, position, 1};
    auto append = cache.BeginAppend(kAll, {&run, 1});
    std::set<const float*> written;
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      float* after = append->state(0, layer).StateAfter();
      std::fill_n(after, kStateFloats, static_cast<float>(position));
      written.insert(after);
    }
    if (commit) append->Commit();
    return written;
  }

  static constexpr LayerRange kAll = {0, kLayers};
  KvCache cache;
};

TEST(StateCache, ASessionTakesTwoPagesALayerInTurn) {
  StateCache states;
  const auto first = states.Step(1, 0), second = states.Step(1, 1);
  for (uint32_t position = 2; position < 8; position += 2) {
    EXPECT_EQ(states.Step(1, position), first);
    EXPECT_EQ(states.Step(1, position + 1), second);
  }
  EXPECT_EQ(states.cache.bytes(), StateCache::kStep);
  EXPECT_EQ(states.cache.waiting_bytes(), StateCache::kStep);
}

TEST(StateCache, AFailedStepGivesItsPagesBackAndLeavesTheState) {
  StateCache states;
  const auto first = states.Step(1, 0);
  const auto failed = states.Step(1, 1, false);
  for (const float* state : first) EXPECT_EQ(*state, 0);
  EXPECT_EQ(states.cache.bytes(), StateCache::kStep);
  EXPECT_EQ(states.cache.waiting_bytes(), StateCache::kStep);
  EXPECT_EQ(states.Step(1, 1), failed);
}

TEST(StateCache, NothingWaitsWithoutSessions) {
  StateCache states;
  states.Step(1, 0);
  states.Step(2, 0);
  states.Step(1, 1);
  states.cache.Release(1);
  EXPECT_LE(states.cache.waiting_bytes(), StateCache::kStep);
  states.cache.Release(2);
  EXPECT_EQ(states.cache.bytes(), 0u);
  EXPECT_EQ(states.cache.waiting_bytes(), 0u);
  states.Step(3, 0);
  states.Step(3, 1);
  EXPECT_GT(states.cache.waiting_bytes(), 0u);
  states.cache.ReleaseAll();
  EXPECT_EQ(states.cache.waiting_bytes(), 0u);
}

}  // namespace
}  // namespace weft::engine
