// Orders of servers, counted over many cells against what chance would give.
#include "cluster/rendezvous.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

namespace weft::cluster {
namespace {

constexpr uint32_t kCells = 30'000;

std::vector<ServerId> Servers(uint64_t count) {
  std::vector<ServerId> servers;
  for (uint64_t i = 1; i <= count; ++i) servers.push_back(ServerId(i));
  return servers;
}

// A count of a binomial distribution is further off than five standard deviations once in a million
// times.
void ExpectByChance(double count, double of, double share) {
  const double deviation = std::sqrt(of * share * (1 - share));
  EXPECT_NEAR(count, of * share, 5 * deviation);
}

TEST(Rendezvous, EveryServerIsFirstAndSecondEquallyOften) {
  std::map<ServerId, int> first;
  std::map<std::pair<ServerId, ServerId>, int> pairs;
  for (uint32_t cell = 1; cell <= kCells; ++cell) {
    const auto order = RendezvousOrder(CellId(cell), Servers(5));
    ++first[order[0]];
    ++pairs[{order[0], order[1]}];
  }
  ASSERT_EQ(first.size(), 5u);
  ASSERT_EQ(pairs.size(), 20u);
  for (const auto& [server, count] : first) ExpectByChance(count, kCells, 1.0 / 5);
  for (const auto& [pair, count] : pairs) ExpectByChance(count, kCells, 1.0 / 20);
}

TEST(Rendezvous, AServerThatGoesMovesItsOwnCellsAlone) {
  const ServerId gone = 3;
  int moved = 0;
  std::map<ServerId, int> heirs;
  for (uint32_t cell = 1; cell <= kCells; ++cell) {
    auto before = RendezvousOrder(CellId(cell), Servers(5));
    auto rest = Servers(5);
    std::erase(rest, gone);
    const auto after = RendezvousOrder(CellId(cell), rest);
    if (before[0] == gone) {
      ++moved;
      ++heirs[after[0]];
    }
    std::erase(before, gone);
    ASSERT_EQ(before, after);
  }
  ExpectByChance(moved, kCells, 1.0 / 5);
  ASSERT_EQ(heirs.size(), 4u);
  for (const auto& [server, count] : heirs) ExpectByChance(count, moved, 1.0 / 4);
}

TEST(Rendezvous, AServerThatComesTakesItsShareAndNoMore) {
  const ServerId fresh = 6;
  int taken = 0;
  for (uint32_t cell = 1; cell <= kCells; ++cell) {
    auto order = RendezvousOrder(CellId(cell), Servers(6));
    taken += order[0] == fresh ? 1 : 0;
    std::erase(order, fresh);
    ASSERT_EQ(order, RendezvousOrder(CellId(cell), Servers(5)));
  }
  ExpectByChance(taken, kCells, 1.0 / 6);
}

TEST(Rendezvous, TheOrderOfTheInputDoesNotMatter) {
  auto servers = Servers(4);
  const auto order = RendezvousOrder(7, servers);
  do {
    EXPECT_EQ(RendezvousOrder(7, servers), order);
  } while (std::ranges::next_permutation(servers).found);
  EXPECT_TRUE(RendezvousOrder(7, {}).empty());
}

}  // namespace
}  // namespace weft::cluster
