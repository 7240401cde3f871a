// Prefixes that are kept by name: computed once, there whatever comes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "swarm/tests/core_testing.h"

namespace weft::swarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

CoreOptions KeepOptions(uint32_t sessions) {
  CoreOptions options = TestOptions();
  options.session_count = sessions;
  return options;
}

std::vector<int32_t> KeptChat(int32_t message) {
  std::vector<int32_t> prompt = Counting(0, 40);
  for (int32_t i = 0; i < 10; ++i) prompt.push_back(message + i);
  return prompt;
}

class Keep : public testing::TestWithParam<int> {
 protected:
  Keep() : swarm_(KeepOptions(2)) {
    swarm_.BringUp(GetParam(), GetParam() == 1 ? TestWorker{} : Third());
  }
  RequestId Ask(std::string name, std::vector<int32_t> prefix, std::string salt = "") {
    const RequestId id = next_++;
    Request request;
    request.id = id;
    request.keep = std::move(name);
    request.salt = std::move(salt);
    request.prompt_ids = std::move(prefix);
    swarm_.Submit(std::move(request));
    return id;
  }
  uint32_t CachedOf(int32_t message) {
    const RequestId chat = swarm_.Submit(KeptChat(message), 4);
    EXPECT_EQ(swarm_.Tokens(chat), Counting(message + 10, 4));
    return swarm_.Ends(chat).at(0).cached_prompt_tokens;
  }
  TestSwarm swarm_;
  RequestId next_ = 1000;
};

TEST_P(Keep, EndsWithoutATokenAndIsThereForEveryChat) {
  const RequestId kept = Ask("support", Counting(0, 40));
  ASSERT_EQ(swarm_.Ends(kept).size(), 1u);
  EXPECT_EQ(swarm_.Ends(kept)[0].reason, FinishReason::kStop);
  EXPECT_EQ(swarm_.Ends(kept)[0].generated_tokens, 0u);
  EXPECT_THAT(swarm_.Tokens(kept), IsEmpty());
  EXPECT_EQ(swarm_.picture().kept_prefixes, 1u);
  EXPECT_EQ(swarm_.picture().computed_positions, 40u);
  // There is room for one conversation beside it: each takes the place of the one before.
  for (const int32_t message : {100, 200, 300, 400}) EXPECT_EQ(CachedOf(message), 40u);
  EXPECT_EQ(swarm_.picture().computed_positions, 40u + 4 * 13);
}

TEST_P(Keep, SurvivesTheLossOfEveryDevice) {
  Ask("support", Counting(0, 40));
  std::vector<WorkerId> workers;
  for (const auto& stage : swarm_.picture().stages) workers.push_back(stage.worker);
  for (const WorkerId worker : workers) swarm_.Lose(worker);
  EXPECT_EQ(swarm_.picture().kept_prefixes, 1u);
  for (size_t i = 0; i < workers.size(); ++i) swarm_.Join(GetParam() == 1 ? TestWorker{} : Third());
  swarm_.Advance(Seconds(5));
  // It was computed again while nobody waited.
  EXPECT_EQ(CachedOf(100), 40u);
}

TEST_P(Keep, ANameHasOnePrefixAndIsForgotten) {
  Ask("support", Counting(0, 40));
  Ask("support", Counting(500, 40));
  EXPECT_EQ(swarm_.picture().kept_prefixes, 1u);
  EXPECT_EQ(CachedOf(100), 40u) << "the first one is there as others are";
  std::vector<int32_t> other = Counting(700, 30);
  swarm_.Submit(other, 4);
  EXPECT_EQ(CachedOf(200), 0u) << "and gave way";
  swarm_.Feed(PrefixForgotten{"somebody", "support"});
  swarm_.Feed(PrefixForgotten{"", "sales"});
  EXPECT_EQ(swarm_.picture().kept_prefixes, 1u);
  swarm_.Feed(PrefixForgotten{"", "support"});
  EXPECT_EQ(swarm_.picture().kept_prefixes, 0u);
  Ask("support", Counting(0, 40));
  EXPECT_EQ(CachedOf(100), 40u);
}

TEST_P(Keep, LeavesRoomForAnswers) {
  Ask("support", Counting(0, 40));
  const RequestId refused = Ask("sales", Counting(500, 40));
  ASSERT_EQ(swarm_.Ends(refused)[0].reason, FinishReason::kError);
  EXPECT_EQ(swarm_.Ends(refused)[0].error->code(), ErrorCode::kOutOfMemory);
  EXPECT_THAT(swarm_.Ends(refused)[0].error->message(), HasSubstr("1 prefixes are, of the 2"));
  const RequestId another = Ask("support", Counting(500, 40), "another client");
  EXPECT_EQ(swarm_.Ends(another)[0].reason, FinishReason::kError) << "that is another prefix";
  EXPECT_EQ(CachedOf(100), 40u);
}

// It waits for its turn like an answer, and can be cancelled.
TEST_P(Keep, IsGivenUpByWhoeverAskedForIt) {
  for (const auto& stage : swarm_.picture().stages)
    swarm_.worker(stage.worker).answer_steps = false;
  const RequestId kept = Ask("support", Counting(0, 40));
  EXPECT_THAT(swarm_.Ends(kept), IsEmpty());
  EXPECT_EQ(swarm_.picture().active_requests, 1u);
  swarm_.Cancel(kept);
  for (const auto& stage : swarm_.picture().stages) swarm_.AnswerSteps(stage.worker);
  EXPECT_EQ(swarm_.Ends(kept)[0].reason, FinishReason::kCancelled);
  EXPECT_EQ(swarm_.picture().kept_prefixes, 0u);
}

// A chat that came right behind it waits for it, and computes its own message alone.
TEST_P(Keep, AChatThatComesMeanwhileSharesIt) {
  for (const auto& stage : swarm_.picture().stages)
    swarm_.worker(stage.worker).answer_steps = false;
  Ask("support", Counting(0, 40));
  const RequestId chat = swarm_.Submit(KeptChat(100), 4);
  for (const auto& stage : swarm_.picture().stages) swarm_.AnswerSteps(stage.worker);
  EXPECT_EQ(swarm_.Tokens(chat), Counting(110, 4));
  EXPECT_EQ(swarm_.Ends(chat)[0].cached_prompt_tokens, 40u);
  EXPECT_EQ(swarm_.picture().computed_positions, 40u + 13);
}

INSTANTIATE_TEST_SUITE_P(Stages, Keep, testing::Values(1, 3));

TEST(KeepWhole, ADeviceThatMakesTokensKeepsPrefixesToo) {
  TestSwarm swarm(KeepOptions(2));
  TestWorker tab;
  tab.kind = "web";
  tab.makes_tokens = 1;
  tab.answer_steps = false;
  swarm.BringUp(1, tab);
  Request request;
  request.id = 1000;
  request.keep = "support";
  request.prompt_ids = Counting(0, 40);
  swarm.Submit(std::move(request));
  while (swarm.unanswered_steps(1) > 0) swarm.AnswerStep(1);
  EXPECT_THAT(swarm.generates(1), IsEmpty());
  EXPECT_EQ(swarm.picture().kept_prefixes, 1u);
  // All but the last token of this prompt is there: the device makes tokens at once.
  std::vector<int32_t> prompt = Counting(0, 40);
  prompt.push_back(100);
  const RequestId chat = swarm.Submit(prompt, 4);
  EXPECT_EQ(swarm.unanswered_steps(1), 0u);
  ASSERT_EQ(swarm.generates(1).size(), 1u);
  EXPECT_EQ(swarm.generates(1).front().position, 40u);
  swarm.TellTokens(1, 4);
  EXPECT_EQ(swarm.Tokens(chat), Counting(101, 4));
  EXPECT_EQ(swarm.Ends(chat)[0].cached_prompt_tokens, 40u);
  EXPECT_THAT(swarm.forks(1), ElementsAre("1 into 2 at 40"));
}

}  // namespace
}  // namespace weft::swarm
