#include "planner/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "planner/draw_plan.h"
#include "planner/losses.h"
#include "planner/planner.h"

namespace weft::planner {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(FormatTest, PicksUnits) {
  EXPECT_EQ(FormatBytes(12), "12 B");
  EXPECT_EQ(FormatBytes(1500), "1.5 kB");
  EXPECT_EQ(FormatBytes(1.24e9), "1.2 GB");
  EXPECT_EQ(FormatMicroseconds(850), "850 us");
  EXPECT_EQ(FormatMicroseconds(12'345), "12.3 ms");
  EXPECT_EQ(FormatMicroseconds(4.2e6), "4.2 s");
}

// The words of the pages (web/packages/ui/src/swarm/layers.ts).
TEST(FormatTest, LayersAreCountedAsPeopleDo) {
  EXPECT_EQ(FormatLayers(3, 8, 10), "layers 3-7");
  EXPECT_EQ(FormatLayers(3, 4, 10), "layer 3");
  EXPECT_EQ(FormatLayers(0, 1, 10), "the embedding");
  EXPECT_EQ(FormatLayers(0, 2, 10), "the embedding and layer 1");
  EXPECT_EQ(FormatLayers(0, 9, 10), "the embedding and layers 1-8");
  EXPECT_EQ(FormatLayers(4, 10, 10), "layers 4-8 and the head");
  EXPECT_EQ(FormatLayers(9, 10, 10), "the head");
  EXPECT_EQ(FormatLayers(0, 10, 10), "the whole model");
  EXPECT_EQ(FormatLayers(0, 1, 1), "the embedding");
}

class ExplainPlanTest : public ::testing::Test {
 protected:
  ExplainPlanTest() : layers_(6), workers_(3) {
    for (LayerCost& layer : layers_) {
      layer.weight_bytes = 300'000'000;
      layer.compute_cost = 3e8;
      layer.input_bytes = layer.output_bytes = 2048;
    }
    const char* const names[] = {"laptop", "phone", "attic"};
    for (size_t i = 0; i < workers_.size(); ++i) {
      workers_[i].name = names[i];
      workers_[i].memory_bytes = 1'200'000'000;
      workers_[i].compute_speed = 20'000;
      workers_[i].bandwidth_down = workers_[i].bandwidth_up = 50;
      workers_[i].latency_us = 2000;
      workers_[i].cached_layers.assign(6, true);
    }
    workers_[2].latency_us = 90'000;
  }
  std::string Explain() { return ExplainPlan(layers_, workers_, FindPlan(layers_, workers_, {})); }

  std::vector<LayerCost> layers_;
  std::vector<WorkerMetrics> workers_;
};

TEST_F(ExplainPlanTest, ShowsStagesTimesAndWhoIsLeftOut) {
  const std::string text = Explain();
  EXPECT_THAT(text, HasSubstr("Plan: 2 stages for 6 layers."));
  EXPECT_THAT(text, HasSubstr("laptop"));
  EXPECT_THAT(text, HasSubstr("phone"));
  // 2 * (500 + 2000 + 2 * 2048 / 50) + 1.8e9 / 20000 = 95,164 us.
  EXPECT_THAT(text, HasSubstr("Predicted time per token: 95.2 ms (10.5 tokens/s)."));
  EXPECT_THAT(text, HasSubstr("1.2 GB of 1.2 GB"));
  EXPECT_THAT(text, HasSubstr("is full: one more layer does not fit."));
  EXPECT_THAT(text, HasSubstr("Exact search over 3 workers"));
  EXPECT_THAT(text, HasSubstr("attic: it would slow the swarm"));
  EXPECT_THAT(text, HasSubstr("No plan costs less: lower bound "));
  // 1e6 / (500 + 4 * 3e8 / 20000 + 2 * 2048 / 50): no latency.
  EXPECT_THAT(text, HasSubstr("Many conversations at once: up to 16.5 tokens/s."));
  EXPECT_EQ(text.back(), '\n');
}

TEST_F(ExplainPlanTest, DrawsWhoHasWhichLayersAndWhereTheTimeGoes) {
  Plan plan;
  plan.stages = {{1, 0, 2}, {0, 2, 6}};
  const auto evaluated = EvaluatePlan(layers_, workers_, {}, plan.stages);
  ASSERT_TRUE(evaluated);
  EXPECT_EQ(
      DrawPlan(layers_, workers_, *evaluated),
      "          embedding, layers 1-4, head           time per token: # compute, o overhead, "
      "~ network\n"
      "  phone   [==========]                          #############o~                32.6 ms\n"
      "  laptop              [======================]  ###########################~   62.6 ms\n"
      "                                                                               95.2 ms\n");
}

TEST_F(ExplainPlanTest, AManyLayeredPlanKeepsItsColumns) {
  layers_.assign(200, layers_[0]);
  for (WorkerMetrics& worker : workers_) worker.memory_bytes = 60'000'000'000;
  workers_[0].name = std::string(300, 'n');
  const auto plan = EvaluatePlan(layers_, workers_, {}, {{0, 0, 1}, {1, 1, 199}, {2, 199, 200}});
  ASSERT_TRUE(plan);
  std::istringstream lines(DrawPlan(layers_, workers_, *plan));
  std::string line;
  std::getline(lines, line);
  std::vector<std::string> stages;
  while (std::getline(lines, line)) stages.push_back(line);
  ASSERT_EQ(stages.size(), 4u);
  EXPECT_EQ(stages[0].find('|'), 44u);  // after the name of 40
  EXPECT_EQ(stages[2].find('|'), 44u + 35);
  for (const std::string& stage : stages) EXPECT_EQ(stage.size(), stages[0].size());
}

TEST_F(ExplainPlanTest, SaysWhatALossCosts) {
  const PlanOutcome outcome = FindPlan(layers_, workers_, {});
  ASSERT_TRUE(outcome.plan);
  const auto text = [&] {
    return DescribeLosses(workers_, 6, FindLosses(layers_, workers_, {}, *outcome.plan, 1000));
  };
  EXPECT_THAT(text(), HasSubstr("laptop  answers stand still for "));
  EXPECT_THAT(text(), HasSubstr(": attic runs "));
  EXPECT_THAT(text(), HasSubstr(" per token afterwards\n"));
  workers_[2].memory_bytes = 100'000'000;
  EXPECT_THAT(text(), HasSubstr("everything stops: 600.0 MB of memory would be missing\n"));
}

TEST_F(ExplainPlanTest, ALayerLargerThanAnyDeviceIsNamedWithWhatIsMissing) {
  // dynamic-graph-partitioning 7.2.1: a head that no device holds.
  layers_[5].weight_bytes = 1'500'000'000;
  workers_[1].memory_bytes = 1'300'000'000;
  const PlanOutcome outcome = FindPlan(layers_, workers_, {});
  EXPECT_FALSE(outcome.plan);
  ASSERT_EQ(outcome.oversized.size(), 1u);
  EXPECT_EQ(outcome.oversized[0].layer, 5);
  EXPECT_EQ(outcome.oversized[0].worker, 1);
  EXPECT_EQ(outcome.oversized[0].lacking_bytes, 200'000'000u);
  EXPECT_THAT(Explain(), HasSubstr("The head needs 1.5 GB on one device, since a layer is not "
                                   "divided, and no device offers that: phone lacks 200.0 MB."));
  EXPECT_EQ(outcome.missing_memory_bytes, 1'500'000'000u);
  layers_[2].weight_bytes = 1'400'000'000;
  EXPECT_THAT(Explain(), HasSubstr("lacks 200.0 MB, and another layer fits none either."));
  workers_[1].memory_bytes = 1'500'000'000;
  EXPECT_TRUE(FindPlan(layers_, workers_, {}).oversized.empty());
}

TEST_F(ExplainPlanTest, LayersThatAreKeptTogetherAreNamed) {
  for (const size_t layer : {1, 2, 3}) layers_[layer].with_previous = true;
  uint64_t bytes = 0;
  for (size_t layer = 0; layer < 4; ++layer) bytes += layers_[layer].weight_bytes;
  for (WorkerMetrics& worker : workers_) worker.memory_bytes = bytes - 50'000'000;
  const PlanOutcome outcome = FindPlan(layers_, workers_, {});
  EXPECT_FALSE(outcome.plan);
  ASSERT_EQ(outcome.oversized.size(), 1u);
  EXPECT_EQ(outcome.oversized[0].layer, 0);
  EXPECT_EQ(outcome.oversized[0].end_layer, 4);
  EXPECT_EQ(outcome.oversized[0].lacking_bytes, 50'000'000u);
  EXPECT_THAT(Explain(), HasSubstr("The embedding and layers 1-3 need "));
  EXPECT_THAT(Explain(), HasSubstr(" on one device, since they are kept together, and no device "
                                   "offers that: "));
  EXPECT_THAT(Explain(), HasSubstr(" lacks 50.0 MB."));
  workers_[0].memory_bytes = bytes;
  EXPECT_THAT(Explain(), HasSubstr("The embedding and layers 1-3 are kept together on one device"));
}

TEST_F(ExplainPlanTest, ShowsWhatIsMissingAndWhatFits) {
  workers_.resize(1);
  workers_[0].name.clear();
  const std::string text = Explain();
  EXPECT_THAT(text, HasSubstr("No plan. The model needs 600.0 MB more memory"));
  EXPECT_THAT(text, HasSubstr("What fits so far"));
  EXPECT_THAT(text, HasSubstr("worker 0"));
  EXPECT_THAT(text, HasSubstr("the embedding and layers 1-3 "));
  EXPECT_THAT(text, Not(HasSubstr("tokens/s")));
}

TEST_F(ExplainPlanTest, NamesFromStrangersAreShortenedAndHarmless) {
  workers_[0].name = "\x1b[2J%s%n";
  workers_[1].name = std::string(39, 'x') + "\u00e9" + std::string(5000, 'x');
  const std::string text = Explain();
  EXPECT_THAT(text, HasSubstr("?[2J%s%n "));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\u00e9")));
  EXPECT_THAT(text, Not(HasSubstr("\xc3")));
  EXPECT_LT(text.size(), 3000u);
}

}  // namespace
}  // namespace weft::planner
