#include "apps/predictor_training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "tensor/half.h"

namespace weft::apps {
namespace {

using testing::HasSubstr;

constexpr uint32_t kRowColumns = 32, kRowGroups = 8;

// Group g matters as far as column g of the row does: a constant order knows nothing of it.
PredictorRows RowsOf(uint64_t seed, size_t count, uint32_t layer = 2) {
  SeededRandom random(seed);
  PredictorRows rows{layer, layer - 1, kRowColumns, kRowGroups, {}, {}};
  for (size_t row = 0; row < count; ++row)
    for (uint32_t column = 0; column < kRowColumns; ++column) {
      const auto value = static_cast<float>(2 * random.Uniform() - 1);
      rows.inputs.push_back(F32ToF16(value));
      if (column < kRowGroups) rows.norms.push_back(3 * (1 + value));
    }
  return rows;
}

TrainingOptions Quick(uint32_t threads = 1, uint64_t seed = 1) {
  return {.hidden = 64, .epochs = 60, .threads = threads, .seed = seed};
}

std::vector<TrainedPredictor> Trained(const TrainingOptions& options) {
  const std::vector<PredictorRows> training = {RowsOf(1, 2000), RowsOf(2, 2000, 3)};
  const std::vector<PredictorRows> held_out = {RowsOf(3, 200), RowsOf(4, 200, 3)};
  auto trained = TrainPredictors(training, held_out, options, [](uint64_t, uint64_t) {});
  EXPECT_TRUE(trained.ok()) << trained.error().ToString();
  return std::move(*trained);
}

TEST(PredictorTraining, LearnsWhatAConstantOrderCannotKnow) {
  const std::vector<TrainedPredictor> trained = Trained(Quick());
  ASSERT_EQ(trained.size(), 2u);
  for (const TrainedPredictor& each : trained) {
    EXPECT_LT(each.predicted.loss, each.constant.loss / 4);
    EXPECT_GT(each.predicted.ranks, 0.8);
    EXPECT_LT(std::fabs(each.constant.ranks), 0.1);
    EXPECT_GT(each.predicted.recall, 0.75);
    // A quarter of the groups that is chosen anyhow has a quarter of the largest.
    EXPECT_NEAR(each.constant.recall, 0.25, 0.1);
    const auto predictor = package::DecodePredictor(each.blob);
    ASSERT_TRUE(predictor.ok()) << predictor.error().ToString();
    EXPECT_EQ(predictor->reads, each.layer - 1);
    EXPECT_EQ(predictor->groups, kRowGroups);
  }
}

TEST(PredictorTraining, ASeedGivesTheSameBlobsForAnyNumberOfThreads) {
  const auto one = Trained(Quick(1)), three = Trained(Quick(3)), other = Trained(Quick(1, 2));
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].blob, three[i].blob);
    EXPECT_NE(one[i].blob, other[i].blob);
  }
}

TEST(PredictorTraining, TellsEveryEpochAndRefusesToTrainOnNothing) {
  const std::vector<PredictorRows> rows = {RowsOf(1, 10)}, none = {RowsOf(1, 0)};
  std::vector<uint64_t> told;
  const auto note = [&told](uint64_t done, uint64_t all) {
    told.push_back(done);
    EXPECT_EQ(all, 60u);
  };
  ASSERT_TRUE(TrainPredictors(rows, rows, Quick(), note).ok());
  EXPECT_EQ(told.size(), 60u);
  EXPECT_EQ(told.back(), 60u);
  const auto untrained = TrainPredictors(none, rows, Quick(), note);
  ASSERT_FALSE(untrained.ok());
  EXPECT_THAT(untrained.error().message(), HasSubstr("no row to train on"));
  const auto unmeasured = TrainPredictors(rows, none, Quick(), note);
  ASSERT_FALSE(unmeasured.ok());
  EXPECT_THAT(unmeasured.error().message(), HasSubstr("no row to be measured on"));
}

TEST(PredictorQuality, IsWhatItsDefinitionSays) {
  // Row 0 in the opposite order, row 1 exactly. Squared errors 9 + 1 + 1 + 9 of 30 + 30.
  const std::vector<float> came = {1, 2, 3, 4, 4, 3, 2, 1};
  const std::vector<float> predicted = {4, 3, 2, 1, 4, 3, 2, 1};
  const PredictorQuality quality = QualityOf(predicted, came, 4);
  EXPECT_DOUBLE_EQ(quality.loss, 20.0 / 60);
  EXPECT_DOUBLE_EQ(quality.ranks, 0);  // of -1 and 1
  EXPECT_DOUBLE_EQ(quality.recall, 0.5);
}

TEST(PredictorCollector, PairsRowsWithTheNormsOneLayerAhead) {
  PredictorCollector collector(3);
  const std::vector<float> first = {1, 2, 3, 4}, second = {5, 6, 7, 8}, norms = {10, 20, 30, 40};
  const auto request = [](uint32_t layer, const std::vector<float>& in) {
    engine::SlotRequest each;
    each.layer = layer;
    each.row_count = in.size() / 2;
    each.columns = each.top_k = 2;
    each.in = in;
    return each;
  };
  for (int document = 0; document < 2; ++document) {
    EXPECT_FALSE(collector.IsFull());
    collector.BeginDocument();
    collector.Add(request(1, first), norms);
    collector.Add(request(4, second), norms);
  }
  EXPECT_TRUE(collector.IsFull());  // 3 of 4 rows
  ASSERT_EQ(collector.layers().size(), 2u);
  const PredictorRows &layer1 = collector.layers()[0], &layer4 = collector.layers()[1];
  EXPECT_EQ(layer1.layer, 1u);
  EXPECT_EQ(layer1.reads, 1u);
  EXPECT_EQ(layer4.layer, 4u);
  EXPECT_EQ(layer4.reads, 1u);
  EXPECT_EQ(layer4.count(), 3u);
  // Both learn from the rows of layer 1.
  EXPECT_EQ(layer4.inputs, layer1.inputs);
  EXPECT_EQ(F16ToF32(layer4.inputs[3]), 4);
  EXPECT_EQ(layer4.norms, (std::vector<float>{10, 20, 30, 40, 10, 20}));

  // Rows that a layer leaves out cannot be told apart: the layer learns nothing of them.
  PredictorCollector fewer(3);
  fewer.Add(request(1, first), norms);
  fewer.Add(request(4, {5, 6}), std::vector<float>{10, 20});
  EXPECT_EQ(fewer.layers()[1].count(), 0u);
}

}  // namespace
}  // namespace weft::apps
