#include "dispatch/share_cost.h"

#include <gtest/gtest.h>

namespace weft::dispatch {
namespace {

TEST(ShareCost, TheWayIsWhatTheQuickerAnswersTookForIt) {
  ShareCost cost;
  EXPECT_FALSE(cost.is_known());
  // Of 4 experts for 160 us; three in four of the answers are looked at late.
  for (int i = 0; i < 32; ++i)
    cost.Note(Microseconds(i % 4 == 0 ? 240 : 700), Microseconds(160), 4);
  EXPECT_NEAR(cost.Us(1), 80 + 40, 1);
  EXPECT_NEAR(cost.Us(5), 80 + 200, 1);
}

TEST(ShareCost, WithoutATimeAllOfARoundTripIsForTheExperts) {
  ShareCost cost;
  cost.Note(Microseconds(400), std::nullopt, 4);
  EXPECT_NEAR(cost.Us(2), 200, 1e-9);
}

TEST(ShareCost, AnAnswerOfOneExpertDoesNotMakeTheOthersDear) {
  ShareCost cost;
  cost.Note(Microseconds(160), Microseconds(160), 4);
  for (int i = 0; i < 20; ++i) cost.Note(Microseconds(100), Microseconds(100), 1);
  EXPECT_NEAR(cost.Us(1), 40, 1);
  for (int i = 0; i < 20; ++i) cost.Note(Microseconds(10), Microseconds(10), 1);
  EXPECT_NEAR(cost.Us(1), 10, 1);
}

TEST(ShareCost, TheWayOfLongAnswersGrowsWithTheirNumber) {
  ShareCost cost;
  for (int i = 0; i < 40; ++i) cost.NoteLongAnswers(Microseconds(900), Microseconds(600), 3);
  EXPECT_NEAR(cost.Us(1), 300, 1);
  EXPECT_NEAR(cost.Us(10), 3000, 10);
}

TEST(ShareCost, WhoIsNotAskedLooksFasterUntilItIs) {
  ShareCost cost;
  cost.Note(Microseconds(400), std::nullopt, 4);
  for (int i = 0; i < 500; ++i) cost.Forget();
  EXPECT_LT(cost.Us(4), 200);
  cost.Note(Microseconds(400), std::nullopt, 4);
  EXPECT_NEAR(cost.Us(4), 400, 1e-9);
}

}  // namespace
}  // namespace weft::dispatch
