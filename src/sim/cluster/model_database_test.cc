// The model of a database keeps what a real one promises, or misses it where a rule is taken out.
#include "sim/cluster/model_database.h"

#include <gtest/gtest.h>

namespace weft::sim {
namespace {

using cluster::Holder;
using cluster::Incarnation;
using cluster::Take;

constexpr cluster::CellId kCell = 1;
constexpr Holder kFirst{1, 10}, kSecond{2, 20};
constexpr Instant kStart{50'000'000};

struct Database {
  explicit Database(ModelDatabase::Rules rules = {}) : model(rules, Seconds(3)) {
    model.AddCell(kCell);
  }
  std::optional<Incarnation> TakeBy(Holder holder, Instant now, bool has_evidence = true) {
    const Incarnation seen = model.row(kCell, now).incarnation;
    return model.TakeCell(Take{1, kCell, seen, has_evidence, {}}, holder, now);
  }
  ModelDatabase model;
};

TEST(ModelDatabase, OneOfTwoTakesOfTheSameRowSucceeds) {
  Database database;
  const Take take{1, kCell, 0, true, {}};
  EXPECT_TRUE(database.model.TakeCell(take, kFirst, kStart));
  EXPECT_FALSE(database.model.TakeCell(take, kSecond, kStart));
  EXPECT_EQ(database.model.row(kCell, kStart).holder, kFirst);
}

TEST(ModelDatabase, WithoutEvidenceARowHasToHaveExpired) {
  Database database;
  ASSERT_TRUE(database.TakeBy(kFirst, kStart));
  EXPECT_FALSE(database.TakeBy(kSecond, kStart + Seconds(3), false));
  EXPECT_TRUE(database.TakeBy(kSecond, kStart + Milliseconds(3001), false));
}

TEST(ModelDatabase, ARenewalIsForTheHolderAlone) {
  Database database;
  const Incarnation first = *database.TakeBy(kFirst, kStart);
  const std::vector<cluster::Renew::Cell> cells = {{kCell, first, true}};
  EXPECT_EQ(database.model.RenewCells(cells, kFirst, kStart + Seconds(2)).size(), 1u);
  EXPECT_FALSE(database.model.row(kCell, kStart + Seconds(5)).has_expired);
  EXPECT_TRUE(database.model.RenewCells(cells, kSecond, kStart).empty());
  ASSERT_TRUE(database.TakeBy(kSecond, kStart));
  EXPECT_TRUE(database.model.RenewCells(cells, kFirst, kStart).empty());
}

TEST(ModelDatabase, TheFenceStopsWhoWasDeposedOrHasGivenItAway) {
  Database database;
  const Incarnation first = *database.TakeBy(kFirst, kStart);
  const auto placement = std::make_shared<const swarm::Placement>();
  EXPECT_TRUE(database.model.Write(kCell, first, kFirst, placement));
  ASSERT_TRUE(database.model.Give(kCell, first, kFirst, kSecond, kStart));
  EXPECT_FALSE(database.model.Write(kCell, first, kFirst, nullptr));
  EXPECT_EQ(database.model.placement(kCell), placement);
  EXPECT_FALSE(database.model.problem());

  Database open({.fences_writes = false});
  const Incarnation deposed = *open.TakeBy(kFirst, kStart);
  ASSERT_TRUE(open.TakeBy(kSecond, kStart));
  EXPECT_TRUE(open.model.Write(kCell, deposed, kFirst, placement));
  EXPECT_TRUE(open.model.problem());
}

TEST(ModelDatabase, AnIncarnationIsGivenOnceThoughTakesAreLost) {
  Database database;
  const Incarnation first = *database.TakeBy(kFirst, kStart);
  database.model.GoBack(1, {});
  EXPECT_EQ(database.model.row(kCell, kStart).incarnation, Incarnation(0));
  EXPECT_GT(*database.TakeBy(kSecond, kStart + Seconds(1)), first);
  EXPECT_FALSE(database.model.problem());

  Database counting({.counts_by_clock = false});
  ASSERT_TRUE(counting.TakeBy(kFirst, kStart));
  counting.model.GoBack(1, {});
  ASSERT_TRUE(counting.TakeBy(kSecond, kStart + Seconds(1)));
  EXPECT_TRUE(counting.model.problem());
}

}  // namespace
}  // namespace weft::sim
