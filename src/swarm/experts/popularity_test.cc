// Which experts count as hot, by what hubs tell of routes.
#include "swarm/experts/popularity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace weft::swarm {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr uint32_t kChoices = 8;

// Layer 1 has eight experts of which a row chooses two, layer 2 neuron groups.
ModelInfo MixtureModel() {
  ModelInfo model;
  model.layers.resize(4);
  model.layers[1].expert_count = model.layers[2].expert_count = kChoices;
  model.layers[1].experts_per_token = 2;
  model.layers[2].experts_per_token = kChoices;
  model.layers[2].groups = true;
  return model;
}

class PopularityTest : public testing::Test {
 protected:
  // So many rows, of which each chooses expert 3 with this many times the mean, and others alike.
  void Rows(double rows, double share) {
    const double mean = rows * 2 / kChoices;
    std::vector<uint32_t> times(
        kChoices, static_cast<uint32_t>(std::lround(mean * (kChoices - share) / (kChoices - 1))));
    times[3] = static_cast<uint32_t>(std::lround(mean * share));
    popularity_.Note(1, times);
  }
  bool Later() {
    now_ = now_ + Popularity::kInterval;
    return popularity_.Review(now_);
  }

  const ModelInfo model_ = MixtureModel();
  Popularity popularity_{model_, {}};
  Instant now_{1'000'000};
};

TEST_F(PopularityTest, WhatIsChosenTwiceAsOftenIsHotUntilItIsHardlyMore) {
  EXPECT_FALSE(popularity_.Review(now_));
  Rows(100'000, 1.9);
  EXPECT_FALSE(Later());
  Rows(100'000, 2.1);
  EXPECT_TRUE(Later());
  for (uint32_t expert = 0; expert < kChoices; ++expert)
    EXPECT_EQ(popularity_.IsHot(1, expert), expert == 3) << expert;
  EXPECT_NEAR(popularity_.Share(1, 3), 2.1, 0.01);
  Rows(100'000, 1.4);
  EXPECT_FALSE(Later()) << "between the two nothing changes";
  EXPECT_TRUE(popularity_.IsHot(1, 3));
  EXPECT_NEAR(popularity_.Share(1, 3), 2.1, 0.01) << "as it was placed";
  Rows(100'000, 1.2);
  EXPECT_TRUE(Later());
  EXPECT_FALSE(popularity_.IsHot(1, 3));
}

TEST_F(PopularityTest, ItIsLookedAtRarely) {
  EXPECT_FALSE(popularity_.Review(now_));
  Rows(100'000, 3);
  EXPECT_FALSE(popularity_.Review(now_ + Popularity::kInterval - Milliseconds(1)));
  EXPECT_TRUE(popularity_.Review(now_ + Popularity::kInterval));
}

TEST_F(PopularityTest, AFewRowsSayNothing) {
  EXPECT_FALSE(popularity_.Review(now_));
  Rows(1000, 3);
  EXPECT_FALSE(Later());
  Rows(100, 3);
  EXPECT_TRUE(Later());
}

// Half as much counts what is kHalfLifeRows rows old: two thirds of all are then of late.
TEST_F(PopularityTest, OldRowsFadeWithNewOnes) {
  Rows(Popularity::kHalfLifeRows, 3);
  Rows(Popularity::kHalfLifeRows, 0);
  ASSERT_THAT(popularity_.Placed(), SizeIs(1));
  const std::vector<float> counts = popularity_.Placed()[0].counts;
  double sum = 0;
  for (const float count : counts) sum += count;
  EXPECT_NEAR(counts[3] * kChoices / sum, 3.0 / 3, 0.01);
  EXPECT_NEAR(sum, 2 * Popularity::kHalfLifeRows * 1.5, 10);
}

// Of a hundred layers one expert of one becomes hot: less than a hundredth of the traffic.
TEST_F(PopularityTest, WhatIsHardlyAnyTrafficMovesNothing) {
  ModelInfo model;
  model.layers.assign(100, model_.layers[1]);
  Popularity popularity(model, {});
  EXPECT_FALSE(popularity.Review(now_));
  const std::vector<uint32_t> even(kChoices, 1000);
  for (uint32_t layer = 1; layer < 100; ++layer) popularity.Note(layer, even);
  const std::vector<uint32_t> uneven = {800, 800, 800, 2400, 800, 800, 800, 800};
  popularity.Note(0, uneven);
  EXPECT_FALSE(popularity.Review(now_ + Popularity::kInterval));
  EXPECT_FALSE(popularity.IsHot(0, 3));
}

TEST_F(PopularityTest, IsKnownToALaterStart) {
  Rows(100'000, 3);
  const std::vector<PlacedPopularity> placed = popularity_.Placed();
  EXPECT_TRUE(Popularity(model_, placed).IsHot(1, 3));
  std::vector<PlacedPopularity> wrong = {{1, {1, 2}}, {2, placed[0].counts}, {9, placed[0].counts}};
  wrong.push_back(placed[0]);
  wrong.back().counts[0] = NAN;
  EXPECT_THAT(Popularity(model_, wrong).Placed(), IsEmpty());
}

TEST_F(PopularityTest, NeuronGroupsHaveNone) {
  EXPECT_TRUE(popularity_.Has(1));
  for (const uint32_t layer : {0, 2, 3, 4}) EXPECT_FALSE(popularity_.Has(layer)) << layer;
  EXPECT_FALSE(popularity_.IsHot(2, 0));
  EXPECT_EQ(popularity_.Share(2, 0), 1);
}

}  // namespace
}  // namespace weft::swarm
