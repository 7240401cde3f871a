// What choosing a token costs: a kernel set that counts its calls. What the kernels compute is
// tested beside them, what a whole step gives in engine_test.cc.
#include "engine/select.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft::engine {
namespace {

// Passes over the vocabulary that take an exponential of every logit.
int exponential_passes = 0;

kernels::KernelSet Counting() {
  kernels::KernelSet set;
  set.top_k = [](const kernels::TopKArgs& args) {
    ++exponential_passes;
    return kernels::TopKReference(args);
  };
  set.scaled_sum = [](const kernels::ScaledSumArgs& args) {
    ++exponential_passes;
    return kernels::ScaledSumReference(args);
  };
  return set;
}

class Select : public testing::Test {
 protected:
  Selection Row(const Output& wanted) {
    exponential_passes = 0;
    logits_ = {0.5f, 3, -1, 3, 2.5f};
    return SelectRow(set_, wanted, logits_);
  }

  const kernels::KernelSet set_ = Counting();
  std::vector<float> logits_;
};

TEST_F(Select, AGreedyTokenTakesNoExponential) {
  const Selection selection = Row({OutputKind::kArgmax});
  EXPECT_EQ(exponential_passes, 0);
  ASSERT_EQ(selection.candidates.size(), 2u);
  EXPECT_EQ(selection.candidates[0].token_id, 1);  // equal logits: the lower id
  EXPECT_EQ(selection.candidates[1].token_id, 3);
  EXPECT_EQ(selection.candidates[1].logit, 3.0f);
}

TEST_F(Select, AVocabularyOfOneTokenHasNoRunnerUp) {
  std::vector<float> one = {-7};
  const Selection selection = SelectRow(set_, {OutputKind::kArgmax}, one);
  ASSERT_EQ(selection.candidates.size(), 1u);
  EXPECT_EQ(selection.candidates[0].logit, -7.0f);
}

TEST_F(Select, GreedyCandidatesAreNotSummedAtATemperature) {
  Sampling greedy;
  greedy.parameters.temperature = 0;
  const Selection selection = Row({OutputKind::kCandidates, 3, &greedy});
  EXPECT_EQ(exponential_passes, 1);  // log probabilities
  EXPECT_EQ(selection.scaled_sum, 1.0f);
  ASSERT_EQ(selection.candidates.size(), 3u);
  EXPECT_EQ(selection.candidates[2].token_id, 4);
  Sampling warm;
  warm.parameters.temperature = 2;
  EXPECT_GT(Row({OutputKind::kCandidates, 3, &warm}).scaled_sum, 2.0f);
  EXPECT_EQ(exponential_passes, 2);
}

}  // namespace
}  // namespace weft::engine
