// The body of core_testing_engine.h, and what it refuses.
#include "swarm/tests/core_testing_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace weft::swarm {

void TestTokens::Note(uint32_t session, uint32_t first, std::span<const int32_t> ids) {
  std::vector<int32_t>& known = sessions_[session];
  for (size_t i = 0; i < ids.size(); ++i) {
    const size_t at = first + i;
    if (at < known.size() && known[at] != ids[i]) known.resize(at);
    if (at == known.size()) known.push_back(ids[i]);
  }
}

std::vector<int32_t> TestTokens::Of(uint32_t session, uint32_t count) const {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return {};
  const size_t end = std::min<size_t>(count, found->second.size());
  return {found->second.begin(), found->second.begin() + static_cast<std::ptrdiff_t>(end)};
}

void TestEngine::Load(LayerSpan layers) {
  for (uint32_t layer = layers.first; layer < layers.end; ++layer) layers_[layer];
}

void TestEngine::KeepOnly(const std::vector<LayerSpan>& ranges) {
  std::erase_if(layers_, [&](const auto& layer) {
    return std::none_of(ranges.begin(), ranges.end(),
                        [&](const LayerSpan& range) { return range.Covers(layer.first); });
  });
}

void TestEngine::Forget(uint32_t session) {
  for (auto& [layer, sessions] : layers_) sessions.erase(session);
}

bool TestEngine::IsLoaded(LayerSpan layers) const {
  for (uint32_t layer = layers.first; layer < layers.end; ++layer)
    if (!layers_.contains(layer)) return false;
  return true;
}

std::string TestEngine::Append(LayerSpan layers, const wire::Run& run,
                               std::span<const int32_t> rows, std::span<const int32_t> known) {
  if (!IsLoaded(layers)) return "Its layers are not loaded.";
  if (known.size() != run.first_position + rows.size() ||
      !std::equal(rows.begin(), rows.end(), known.begin() + run.first_position))
    return "Its rows are not those of its session's tokens.";
  for (uint32_t layer = layers.first; layer < layers.end; ++layer) {
    const auto held = layers_[layer].find(run.session);
    const std::string where = "Layer " + std::to_string(layer) + " holds ";
    if (held == layers_[layer].end()) {
      if (run.first_position > 0)
        return where + "nothing, and the run begins at " + std::to_string(run.first_position) + ".";
      continue;
    }
    const std::vector<int32_t>& ids = held->second.ids;
    if (run.generation < held->second.generation) return where + "a later generation.";
    if (run.first_position > ids.size() ||
        (run.generation == held->second.generation && run.first_position != ids.size()))
      return where + std::to_string(ids.size()) + " rows, and the run begins at " +
             std::to_string(run.first_position) + ".";
    if (!std::equal(ids.begin(), ids.begin() + run.first_position, known.begin()))
      return where + "rows of other tokens.";
  }
  for (uint32_t layer = layers.first; layer < layers.end; ++layer) {
    Rows& held = layers_[layer][run.session];
    held.generation = run.generation;
    held.ids.resize(run.first_position);
    held.ids.insert(held.ids.end(), rows.begin(), rows.end());
  }
  return {};
}

std::string TestEngine::Fork(LayerSpan layers, const wire::Fork& fork) {
  if (!IsLoaded(layers)) return "Its layers are not loaded.";
  if (Held(layers, fork.from) < fork.position_count) return "There are too few rows to share.";
  for (uint32_t layer = layers.first; layer < layers.end; ++layer) {
    const auto held = layers_[layer].find(fork.session);
    if (held != layers_[layer].end() && held->second.generation >= fork.generation)
      return "The session is in a later generation.";
  }
  for (uint32_t layer = layers.first; layer < layers.end; ++layer) {
    Rows copy = layers_[layer].at(fork.from);
    copy.generation = fork.generation;
    copy.ids.resize(fork.position_count);
    layers_[layer][fork.session] = std::move(copy);
  }
  return {};
}

uint32_t TestEngine::Held(LayerSpan layers, uint32_t session) const {
  uint32_t least = UINT32_MAX;
  for (uint32_t layer = layers.first; layer < layers.end; ++layer) {
    const auto sessions = layers_.find(layer);
    if (sessions == layers_.end()) return 0;
    const auto rows = sessions->second.find(session);
    if (rows == sessions->second.end()) return 0;
    least = std::min(least, static_cast<uint32_t>(rows->second.ids.size()));
  }
  return least;
}

std::map<uint32_t, TestEngine::HeldRows> TestEngine::Sessions(LayerSpan layers) const {
  std::map<uint32_t, HeldRows> held;
  for (uint32_t layer = layers.first; layer < layers.end; ++layer)
    for (const auto& [session, rows] : layers_.at(layer)) {
      const uint32_t count = Held(layers, session);
      if (count == 0) continue;
      const auto known = held.try_emplace(session, HeldRows{rows.generation, count}).first;
      if (known->second.generation != rows.generation) known->second.generation = 0;
    }
  return held;
}

namespace {

using testing::HasSubstr;

wire::Run RunOf(uint32_t generation, uint32_t first, uint16_t count) {
  wire::Run run;
  run.session = 1;
  run.generation = generation;
  run.first_position = first;
  run.count = count;
  return run;
}

// The oracle of the other tests is worth something only if it refuses what an engine does.
TEST(TestEngine, RefusesWhatDoesNotContinueWhatItHolds) {
  const std::vector<int32_t> tokens{5, 6, 7, 8};
  const std::span<const int32_t> all(tokens);
  TestEngine engine;
  EXPECT_THAT(engine.Append({0, 2}, RunOf(1, 0, 2), all.first(2), all.first(2)),
              HasSubstr("not loaded"));
  engine.Load({0, 2});
  EXPECT_THAT(engine.Append({0, 2}, RunOf(1, 2, 2), all.subspan(2), all), HasSubstr("nothing"));
  EXPECT_EQ(engine.Append({0, 2}, RunOf(1, 0, 2), all.first(2), all.first(2)), "");
  EXPECT_THAT(engine.Append({0, 2}, RunOf(1, 1, 3), all.subspan(1), all), HasSubstr("2 rows"));
  EXPECT_THAT(engine.Append({0, 2}, RunOf(0, 2, 2), all.subspan(2), all), HasSubstr("generation"));
  EXPECT_THAT(engine.Append({0, 2}, RunOf(2, 3, 1), all.subspan(3), all), HasSubstr("2 rows"));
  const std::vector<int32_t> other{5, 9, 7, 8};
  EXPECT_THAT(engine.Append({0, 2}, RunOf(1, 2, 2), all.subspan(2), other),
              HasSubstr("other tokens"));
  EXPECT_THAT(engine.Append({0, 2}, RunOf(1, 2, 1), all.subspan(3), all.first(3)),
              HasSubstr("not those of"));
  EXPECT_EQ(engine.Append({0, 2}, RunOf(2, 1, 3), all.subspan(1), all), "");
  EXPECT_EQ(engine.Held({0, 2}, 1), 4u);
  // A layer that is loaded later knows nothing; those that stay keep what they hold.
  engine.Load({0, 3});
  EXPECT_EQ(engine.Held({0, 3}, 1), 0u);
  engine.KeepOnly({{1, 2}});
  EXPECT_EQ(engine.Held({1, 2}, 1), 4u);
  EXPECT_FALSE(engine.IsLoaded({0, 1}));
  engine.Forget(1);
  EXPECT_EQ(engine.Held({1, 2}, 1), 0u);
}

}  // namespace
}  // namespace weft::swarm
