// What the history says of looks in several distances, of gaps, and of more than it may keep.
#include "server/swarm_history.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace weft::server {
namespace {

namespace json = boost::json;

swarm::Snapshot Seen(uint64_t tokens, size_t devices, bool is_up) {
  swarm::Snapshot snapshot;
  snapshot.state = is_up ? swarm::SwarmState::kUp : swarm::SwarmState::kDown;
  snapshot.generated_tokens = tokens;
  snapshot.workers.resize(devices);
  return snapshot;
}

json::object LevelOf(const SwarmHistory& history, int64_t now_s, size_t level) {
  const json::value all = json::parse(history.ToJson(Instant{} + Seconds(now_s)));
  return all.at("levels").at(level).as_object();
}

std::vector<double> Numbers(const json::value& list) {
  std::vector<double> numbers;
  for (const json::value& item : list.as_array())
    numbers.push_back(item.is_null() ? -1 : item.to_number<double>());
  return numbers;
}

TEST(SwarmHistoryTest, LooksOfAStretchAreAddedUp) {
  SwarmHistory history;
  history.Add(Instant{} + Seconds(1000), Seen(50, 1, true));
  history.Add(Instant{} + Seconds(1009), Seen(150, 3, false));
  history.Add(Instant{} + Seconds(1011), Seen(170, 3, true));
  const json::object level = LevelOf(history, 1012, 0);
  EXPECT_EQ(level.at("step_s").to_number<double>(), 10);
  // 150 tokens in 10 + 9 s of looking, then 20 in 2 s.
  EXPECT_EQ(Numbers(level.at("tokens_per_s")), (std::vector<double>{150.0 / 19, 10}));
  EXPECT_EQ(Numbers(level.at("devices")), (std::vector<double>{2, 3}));
  EXPECT_EQ(Numbers(level.at("up")), (std::vector<double>{0.5, 1}));
  const json::object day = LevelOf(history, 1012, 1);
  EXPECT_EQ(day.at("step_s").to_number<double>(), 300);
  EXPECT_EQ(Numbers(day.at("tokens_per_s")), (std::vector<double>{170.0 / 21}));
}

TEST(SwarmHistoryTest, StretchesWithoutALookAreNull) {
  SwarmHistory history;
  history.Add(Instant{} + Seconds(5), Seen(0, 1, true));
  history.Add(Instant{} + Seconds(35), Seen(10, 1, true));
  EXPECT_EQ(Numbers(LevelOf(history, 36, 0).at("tokens_per_s")),
            (std::vector<double>{0, -1, -1, 1}));
  // The last one is where now is, also when nobody has looked since.
  EXPECT_EQ(Numbers(LevelOf(history, 45, 0).at("up")), (std::vector<double>{1, -1, -1, 1, -1}));
}

TEST(SwarmHistoryTest, OldStretchesGoAndALongSleepLeavesNone) {
  SwarmHistory history;
  EXPECT_EQ(Numbers(LevelOf(history, 7, 0).at("up")), (std::vector<double>{-1}));
  for (int64_t at_s = 0; at_s < 5000; at_s += 10)
    history.Add(Instant{} + Seconds(at_s), Seen(0, 1, true));
  EXPECT_EQ(LevelOf(history, 4995, 0).at("up").as_array().size(), 360u);
  history.Add(Instant{} + Seconds(1'000'000), Seen(0, 1, true));
  const std::vector<double> up = Numbers(LevelOf(history, 1'000'001, 0).at("up"));
  ASSERT_EQ(up.size(), 360u);
  EXPECT_EQ(up.front(), -1);
  EXPECT_EQ(up.back(), 1);
}

}  // namespace
}  // namespace weft::server
