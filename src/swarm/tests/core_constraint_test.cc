// Answers that have to be something: tokens are drawn, checked, and drawn again from those that are
// allowed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "swarm/tests/core_testing.h"

namespace weft::swarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Output = wire::OutputKind;

// Tokens that `is_allowed` says of, until there are `count` of them.
class Some : public sampling::Constraint {
 public:
  Some(std::function<bool(int32_t)> is_allowed, size_t count, bool forces = false)
      : is_allowed_(std::move(is_allowed)), count_(count), forces_(forces) {}

  std::unique_ptr<sampling::AnswerState> Begin() const override {
    class SomeState : public sampling::AnswerState {
     public:
      explicit SomeState(const Some& some) : some_(some) {}
      bool Allows(int32_t id) const override { return some_.is_allowed_(id); }
      std::vector<int32_t> Allowed() override {
        std::vector<int32_t> ids;
        for (int32_t id = 0; id < 100'000; ++id)
          if (Allows(id)) ids.push_back(id);
        return ids;
      }
      bool Advance(int32_t id) override {
        ++length_;
        last_ = id;
        return Allows(id);
      }
      bool IsOver() const override { return length_ >= some_.count_; }
      // Behind 10 come 7 and 8.
      std::vector<int32_t> Forced() const override {
        return some_.forces_ && last_ == 10 ? std::vector<int32_t>{7, 8} : std::vector<int32_t>();
      }

     private:
      const Some& some_;
      size_t length_ = 0;
      int32_t last_ = 0;
    };
    return std::make_unique<SomeState>(*this);
  }

 private:
  const std::function<bool(int32_t)> is_allowed_;
  const size_t count_;
  const bool forces_;
};

Request Constrained(std::function<bool(int32_t)> is_allowed, size_t count) {
  Request request;
  request.id = 1;
  request.prompt_ids = {4, 5};
  request.max_tokens = 20;
  request.sampling.temperature = 0;
  request.constraint = std::make_shared<Some>(std::move(is_allowed), count);
  return request;
}

bool IsRound(int32_t id) {
  return id % 10 == 0;
}

// What each step asked of the last stage until the request is over.
std::vector<Output> KindsUntilItEnds(TestSwarm& swarm) {
  std::vector<Output> kinds;
  while (swarm.Ends(1).empty()) {
    const wire::Run run = swarm.step(1).runs[0];
    kinds.push_back(run.output);
    EXPECT_TRUE(run.output != Output::kLogits || run.count == 1);
    swarm.AnswerStep(1);
  }
  return kinds;
}

TEST(Constraint, TheBestAllowedCandidateIsChosenAndTheAnswerEnds) {
  TestSwarm swarm;
  swarm.BringUp(1, Silent());
  swarm.Submit(Constrained(IsRound, 3));
  EXPECT_THAT(KindsUntilItEnds(swarm),
              ElementsAre(Output::kCandidates, Output::kCandidates, Output::kCandidates));
  EXPECT_THAT(swarm.Tokens(1), ElementsAre(10, 20, 30));
  EXPECT_EQ(swarm.Ends(1)[0].reason, FinishReason::kStop);
}

TEST(Constraint, AnswersEndAtTheirLengthToo) {
  TestSwarm swarm;
  swarm.BringUp(1, Silent());
  Request request = Constrained(IsRound, 3);
  request.max_tokens = 2;
  swarm.Submit(request);
  KindsUntilItEnds(swarm);
  EXPECT_THAT(swarm.Tokens(1), ElementsAre(10, 20));
  EXPECT_EQ(swarm.Ends(1)[0].reason, FinishReason::kLength);
}

TEST(Constraint, AnswersGoOnBehindTheirTokens) {
  TestSwarm swarm;
  swarm.BringUp(1, Silent());
  Request request = Constrained(IsRound, 3);
  request.answer_ids = {10, 20};
  swarm.Submit(request);
  KindsUntilItEnds(swarm);
  EXPECT_THAT(swarm.Tokens(1), ElementsAre(30));
  EXPECT_EQ(swarm.Ends(1)[0].reason, FinishReason::kStop);
  EXPECT_EQ(swarm.Ends(1)[0].generated_tokens, 3u);

  request.id = 2;
  request.answer_ids = {10, 20, 30};
  swarm.Submit(request);
  EXPECT_THAT(swarm.Tokens(2), IsEmpty());
  ASSERT_EQ(swarm.Ends(2).size(), 1u) << "its last token was told, its end was not";
  EXPECT_EQ(swarm.Ends(2)[0].reason, FinishReason::kStop);

  request.id = 3;
  request.answer_ids = {10, 21};
  swarm.Submit(request);
  EXPECT_THAT(swarm.Ends(3)[0].error->message(), HasSubstr("holds token 21, which its constraint"));
}

// Whatever is drawn is allowed, and the same in every run.
TEST(Constraint, DrawsAreAllowedAndComeAgain) {
  std::vector<int32_t> before;
  for (int run = 0; run < 2; ++run) {
    TestSwarm swarm;
    swarm.BringUp(1, Silent());
    Request request = Constrained([](int32_t id) { return id % 2 == 0; }, 12);
    request.sampling.temperature = 2;
    request.sampling.seed = 77;
    swarm.Submit(request);
    KindsUntilItEnds(swarm);
    const std::vector<int32_t> tokens = swarm.Tokens(1);
    EXPECT_EQ(tokens.size(), 12u);
    for (const int32_t id : tokens) EXPECT_EQ(id % 2, 0);
    EXPECT_TRUE(run == 0 || tokens == before);
    before = tokens;
  }
}

TEST(Constraint, AllLogitsAreAskedForWhereNoCandidateIsAllowed) {
  TestSwarm swarm;
  swarm.BringUp(1, Silent());
  // Behind 5 the candidates begin with 6, and there are fewer than the vocabulary has.
  swarm.Submit(Constrained([](int32_t id) { return id == 3; }, 2));
  const std::vector<Output> kinds = KindsUntilItEnds(swarm);
  ASSERT_GE(TestOptions().model.vocabulary, 100u);
  EXPECT_THAT(kinds, ElementsAre(Output::kCandidates, Output::kLogits, Output::kCandidates,
                                 Output::kLogits));
  EXPECT_THAT(swarm.Tokens(1), ElementsAre(3, 3));
}

// The stage would draw what nobody has checked.
TEST(Constraint, AllLogitsAreAskedForWhereTheStageWouldDraw) {
  TestSwarm swarm;
  swarm.BringUp(1, Silent());
  Request request = Constrained(IsRound, 2);
  request.sampling.presence_penalty = 0.5f;
  swarm.Submit(request);
  const std::vector<Output> kinds = KindsUntilItEnds(swarm);
  EXPECT_THAT(kinds, ElementsAre(Output::kNone, Output::kLogits, Output::kLogits));
  EXPECT_THAT(swarm.Tokens(1), testing::Each(testing::Truly(IsRound)));
}

TEST(Constraint, ADeviceThatMakesTokensIsAskedForSteps) {
  TestSwarm swarm;
  TestWorker worker;
  worker.makes_tokens = 1;
  swarm.BringUp(1, worker);
  swarm.Submit(Constrained(IsRound, 3));
  EXPECT_THAT(swarm.Tokens(1), ElementsAre(10, 20, 30));
  // What it makes by itself is of requests without one.
  const RequestId free = swarm.Submit(std::vector<int32_t>{4, 5}, 2);
  EXPECT_THAT(swarm.Tokens(free), ElementsAre(6, 7));
}

TEST(Constraint, WhereNothingIsAllowedTheRequestFails) {
  TestSwarm swarm;
  swarm.BringUp(1, TestWorker{});
  swarm.Submit(Constrained([](int32_t) { return false; }, 3));
  ASSERT_EQ(swarm.Ends(1).size(), 1u);
  ASSERT_EQ(swarm.Ends(1)[0].reason, FinishReason::kError);
  EXPECT_THAT(swarm.Ends(1)[0].error->message(), HasSubstr("no token of the model's vocabulary"));
  EXPECT_THAT(swarm.Tokens(1), IsEmpty());
}

// Of 10, 7, 8, 9 the two in the middle are drawn by nobody and computed in one step.
Request WithForced(size_t count) {
  Request request = Constrained(nullptr, count);
  const auto fits = [](int32_t id) { return id >= 7 && id <= 10; };
  request.constraint = std::make_shared<Some>(fits, count, /*forces=*/true);
  request.prompt_ids = {4, 9};
  return request;
}

TEST(Constraint, TokensThatMustComeAreComputedTogether) {
  TestSwarm swarm;
  swarm.BringUp(1, Silent());
  swarm.Submit(WithForced(5));
  std::vector<uint32_t> rows;
  while (swarm.Ends(1).empty()) {
    rows.push_back(swarm.step(1).runs[0].count);
    swarm.AnswerStep(1);
  }
  // A step of this model says the number that follows.
  EXPECT_THAT(swarm.Tokens(1), ElementsAre(10, 7, 8, 9, 10));
  EXPECT_THAT(rows, ElementsAre(2, 3, 1));
}

TEST(Constraint, TokensThatMustComeCountForTheLength) {
  TestSwarm swarm;
  swarm.BringUp(1, TestWorker{});
  Request request = WithForced(9);
  request.max_tokens = 2;
  swarm.Submit(request);
  EXPECT_THAT(swarm.Tokens(1), ElementsAre(10, 7));
  EXPECT_EQ(swarm.Ends(1)[0].reason, FinishReason::kLength);
}

// How likely each token was is said only of those that were drawn: then all are.
TEST(Constraint, WithLogprobsEveryTokenIsDrawn) {
  TestSwarm swarm;
  swarm.BringUp(1, TestWorker{});
  Request request = WithForced(4);
  request.want_logprobs = true;
  swarm.Submit(request);
  EXPECT_EQ(swarm.Tokens(1).size(), 4u);
  EXPECT_EQ(swarm.picture().forced_tokens, 0u);
}

TEST(Constraint, ASplitModelAnswersAlike) {
  TestSwarm swarm;
  swarm.BringUp(2, Half());
  swarm.Submit(Constrained(IsRound, 4));
  EXPECT_THAT(swarm.Tokens(1), ElementsAre(10, 20, 30, 40));
}

}  // namespace
}  // namespace weft::swarm
