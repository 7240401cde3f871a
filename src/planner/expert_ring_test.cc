// Placement of experts: offers are kept, everything is somewhere, and little moves.
#include "planner/expert_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/random.h"

namespace weft::planner {
namespace {

constexpr uint64_t kExpertBytes = 5'000'000;

// Qwen3-30B-A3B has 48 layers of 128 experts; 12 of them keep the test short.
ExpertProblem Shape(std::vector<ExpertHolder> holders, uint32_t replicas = 0,
                    uint32_t layers = 12) {
  ExpertProblem problem;
  for (uint32_t layer = 1; layer <= layers; ++layer)
    problem.layers.push_back({layer, 128, kExpertBytes});
  problem.holders = std::move(holders);
  problem.replicas = replicas;
  return problem;
}

using Held = std::set<std::array<uint32_t, 3>>;  // holder, layer, expert

Held HeldBy(const ExpertPlacement& placement) {
  Held held;
  for (const HolderExperts& holder : placement.holders) {
    for (const PlacedExpert& e : holder.experts)
      EXPECT_TRUE(held.insert({holder.id, e.layer, e.expert}).second) << "twice on one holder";
  }
  return held;
}

size_t Loads(const Held& before, const Held& after) {
  return static_cast<size_t>(std::count_if(after.begin(), after.end(),
                                           [&](const auto& e) { return !before.contains(e); }));
}

void ExpectWithinOffers(const ExpertProblem& problem, const ExpertPlacement& placement) {
  ASSERT_EQ(placement.holders.size(), problem.holders.size());
  for (size_t h = 0; h < problem.holders.size(); ++h) {
    EXPECT_EQ(placement.holders[h].id, problem.holders[h].id);
    EXPECT_EQ(placement.holders[h].used_bytes, placement.holders[h].experts.size() * kExpertBytes);
    EXPECT_LE(placement.holders[h].used_bytes, problem.holders[h].memory_bytes);
  }
}

std::vector<ExpertHolder> Equal(uint32_t count, uint64_t slots) {
  std::vector<ExpertHolder> holders;
  for (uint32_t id = 1; id <= count; ++id) holders.push_back({id, slots * kExpertBytes});
  return holders;
}

TEST(ExpertRing, ReplicasAreWhatMemoryAllowsUpToThree) {
  const uint64_t all = 12 * 128;
  EXPECT_EQ(PlaceExperts(Shape(Equal(4, all / 4))).replicas, 1u);
  EXPECT_EQ(PlaceExperts(Shape(Equal(4, all * 5 / 8))).replicas, 2u);
  EXPECT_EQ(PlaceExperts(Shape(Equal(4, all * 4))).replicas, 3u);
  EXPECT_EQ(PlaceExperts(Shape(Equal(2, all * 4))).replicas, 2u) << "one holder needs one only";
}

TEST(ExpertRing, EverythingThatFitsIsPlacedToTheLastByte) {
  const ExpertProblem problem = Shape(Equal(4, 12 * 128 / 4));
  const ExpertPlacement placement = PlaceExperts(problem);
  ExpectWithinOffers(problem, placement);
  EXPECT_TRUE(placement.unplaced.empty());
  EXPECT_EQ(HeldBy(placement).size(), 12u * 128);

  const ExpertPlacement less = PlaceExperts(Shape(Equal(4, 12 * 128 / 4 - 10)));
  EXPECT_EQ(less.unplaced.size(), 40u);
  EXPECT_EQ(PlaceExperts(Shape({})).unplaced.size(), 12u * 128);
}

TEST(ExpertRing, SharesFollowMemory) {
  std::vector<ExpertHolder> holders = {{1, 2000 * kExpertBytes},
                                       {2, 1000 * kExpertBytes},
                                       {3, 500 * kExpertBytes},
                                       {4, 2500 * kExpertBytes}};
  const ExpertPlacement placement = PlaceExperts(Shape(holders, 1));
  for (size_t h = 0; h < holders.size(); ++h) {
    const double share = static_cast<double>(holders[h].memory_bytes) / (6000.0 * kExpertBytes);
    EXPECT_NEAR(static_cast<double>(placement.holders[h].experts.size()), share * 1536,
                0.15 * share * 1536)
        << h;
  }
}

TEST(ExpertRing, HotExpertsGetMore) {
  ExpertProblem problem = Shape(Equal(4, 12 * 128 * 5 / 16));
  problem.popularity.assign(12, std::vector<double>(128, 1));
  problem.hot.assign(12, std::vector<bool>(128, false));
  problem.popularity[3][77] = 50;
  problem.popularity[5][1] = 20;
  problem.hot[3][77] = problem.hot[5][1] = true;
  const ExpertPlacement placement = PlaceExperts(problem);
  EXPECT_EQ(placement.replicas, 1u);
  ExpectWithinOffers(problem, placement);
  std::map<std::pair<uint32_t, uint32_t>, int> copies;
  for (const HolderExperts& holder : placement.holders)
    for (const PlacedExpert& e : holder.experts) ++copies[{e.layer, e.expert}];
  EXPECT_EQ((copies[{4, 77}]), 2);
  EXPECT_EQ((copies[{6, 1}]), 2);
  EXPECT_EQ((copies[{6, 2}]), 1);
}

TEST(ExpertRing, HotExpertsAreWithTheHubOfTheirLayer) {
  ExpertProblem problem = Shape(Equal(4, 12 * 128 * 6 / 16));
  problem.popularity.assign(12, std::vector<double>(128, 1));
  problem.hot.assign(12, std::vector<bool>(128, false));
  for (size_t l = 0; l < 12; ++l) {
    problem.popularity[l][77] = 50 + static_cast<double>(l);
    problem.hot[l][77] = true;
  }
  // Holder 2 is the hub of layers 1 to 6 and has room for four experts, 3 that of the others.
  problem.holders[1].hub_layers = {{1, 7}};
  problem.holders[1].memory_bytes = 4 * kExpertBytes;
  problem.holders[2].hub_layers = {{7, 9}, {9, 13}};
  const ExpertPlacement placement = PlaceExperts(problem);
  ExpectWithinOffers(problem, placement);
  EXPECT_TRUE(placement.unplaced.empty());
  const Held held = HeldBy(placement);
  for (uint32_t layer = 3; layer <= 6; ++layer)
    EXPECT_TRUE(held.contains({2, layer, 77})) << "the most popular come first";
  EXPECT_FALSE(held.contains({2, 1, 77}));
  for (uint32_t layer = 7; layer <= 12; ++layer) EXPECT_TRUE(held.contains({3, layer, 77}));
  std::set<std::pair<uint32_t, uint32_t>> first;
  for (const HolderExperts& holder : placement.holders)
    for (const PlacedExpert& placed : holder.experts)
      if (placed.replica == 0) {
        EXPECT_TRUE(first.emplace(placed.layer, placed.expert).second) << "has one first place";
      }
  EXPECT_EQ(first.size(), 12u * 128);
}

TEST(ExpertRing, WhoIsHotIsSaidAndNotGuessed) {
  ExpertProblem problem = Shape(Equal(4, 12 * 128 * 5 / 16));
  problem.popularity.assign(12, std::vector<double>(128, 1));
  problem.popularity[3][77] = 50;
  problem.hot.assign(12, std::vector<bool>(128, false));
  problem.hot[5][1] = true;
  int more = 0;
  for (const HolderExperts& holder : PlaceExperts(problem).holders)
    for (const PlacedExpert& placed : holder.experts)
      if (placed.replica == 1) {
        ++more;
        EXPECT_EQ(placed, (PlacedExpert{6, 1, 1}));
      }
  EXPECT_EQ(more, 1);
}

// The bound of expert_ring.h: what a change of one holder loads anywhere, over what that holder has
// before it leaves or after it came. Offers are up to four times as large as others and as full as
// they get: a holder leaves whenever the others can still hold everything in 19 of 20 bytes.
TEST(ExpertRing, AJoinOrLeaveMovesAShareOfOneHolder) {
  SeededRandom random(14);
  uint32_t last_id = 0;
  std::vector<ExpertHolder> holders;
  const uint64_t total = 4 * 128 * 2;
  double sum = 0, worst = 0;
  int changes = 0;
  const auto slots = [&] {
    uint64_t all = 0;
    for (const ExpertHolder& holder : holders) all += holder.memory_bytes / kExpertBytes;
    return all;
  };
  const auto join = [&] {
    holders.push_back({++last_id, (50 + random.Below(150)) * kExpertBytes});
  };
  while (slots() * 19 < total * 20) join();
  ExpertPlacement placement = PlaceExperts(Shape(holders, 2, 4));
  Held held = HeldBy(placement);
  while (changes < 1000) {
    const std::vector<ExpertHolder> before = holders;
    const size_t leaver = random.Below(holders.size());
    const uint64_t rest = slots() - holders[leaver].memory_bytes / kExpertBytes;
    const bool leaves = rest * 19 >= total * 20;
    uint32_t changed = 0;
    if (leaves) {
      changed = holders[leaver].id;
      holders.erase(holders.begin() + static_cast<std::ptrdiff_t>(leaver));
    } else {
      join();
      changed = last_id;
    }
    const ExpertProblem problem = Shape(holders, 2, 4);
    placement = PlaceExperts(problem);
    ExpectWithinOffers(problem, placement);
    ASSERT_TRUE(placement.unplaced.empty());
    const Held after = HeldBy(placement);
    const auto of_changed = [&](const Held& all) {
      return std::count_if(all.begin(), all.end(), [&](const auto& e) { return e[0] == changed; });
    };
    const double share = static_cast<double>(leaves ? of_changed(held) : of_changed(after));
    const double ratio = static_cast<double>(Loads(held, after)) / share;
    sum += ratio;
    worst = std::max(worst, ratio);
    held = after;
    ++changes;
  }
  RecordProperty("mean", std::to_string(sum / changes));
  RecordProperty("worst", std::to_string(worst));
  EXPECT_LT(sum / changes, 1.2);
  EXPECT_LT(worst, 2);
}

}  // namespace
}  // namespace weft::planner
