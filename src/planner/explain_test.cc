#include "planner/explain.h"
#include "planner/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  EXPECT_EQ(text.back(), '\n');
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
  EXPECT_LT(text.size(), 2000u);
}

}  // namespace
}  // namespace weft::planner
