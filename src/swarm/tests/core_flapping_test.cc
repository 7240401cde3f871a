// Devices that come and go before they have done anything, each time as a stranger.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "swarm/tests/core_testing.h"

namespace weft::swarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Nobody answers a step: whoever is sent one goes, and a stranger comes in its place.
TEST(Flapping, StrangersThatGoAtTheirFirstStepKillNoRequest) {
  TestSwarm swarm;
  swarm.BringUp(1, Silent());
  const RequestId request = swarm.Submit(Counting(100, 5), 4);
  WorkerId last = 1;
  for (int i = 0; i < 20; ++i) {
    ASSERT_GT(swarm.unanswered_steps(last), 0u) << "device " << i;
    swarm.Lose(last);
    last = swarm.Join(Silent());
    swarm.Advance(Milliseconds(200));
  }
  EXPECT_THAT(swarm.Ends(request), IsEmpty());
  swarm.AnswerSteps(last);
  EXPECT_EQ(swarm.Tokens(request), Counting(105, 4));
}

// A request that takes the same devices down again and again ends all the same.
TEST(Flapping, OneThatGoesTwiceOverARequestCounts) {
  TestSwarm swarm;
  swarm.BringUp(1, Silent());
  const RequestId request = swarm.Submit(Counting(100, 5), 4);
  int joins = 0;
  for (; swarm.Ends(request).empty() && joins < 20; ++joins) {
    const WorkerId last = swarm.picture().workers.back().id;
    ASSERT_GT(swarm.unanswered_steps(last), 0u) << joins;
    swarm.Lose(last);
    TestWorker same = Silent();
    same.device_id = "phone" + std::to_string(joins % 3);
    swarm.Join(same);
    swarm.Advance(Milliseconds(200));
  }
  ASSERT_THAT(swarm.Ends(request), SizeIs(1));
  EXPECT_THAT(swarm.Ends(request)[0].error->message(), HasSubstr("3 devices have gone"));
  EXPECT_LE(joins, 7);
}

// Two that stay hold a half each; four others, who hold all, are faster and go one after the other
// over the same position, each after it has answered a step.
class LastTryTest : public testing::Test {
 protected:
  explicit LastTryTest(bool hold_back = false) : hold_back_(hold_back) {
    TestWorker slow = Half();
    slow.run_us = 20'000;
    slow.compute_us = 100'000;
    for (WorkerId& id : stay_) id = swarm_.Join(slow);
    swarm_.Advance(Seconds(30));
    EXPECT_THAT(swarm_.Tokens(swarm_.Submit({1, 2}, 2)), ElementsAre(3, 4)) << "they serve";
    swarm_.Advance(Seconds(30));
    for (int i = 0; i < 4; ++i) swarm_.Join(Silent());
    swarm_.Advance(Seconds(30));
    request_ = swarm_.Submit(Counting(100, 24), 4);
  }
  // Each answers what it may have been fed when it stood by, and goes over the rows from 16 on.
  void LoseThree() {
    for (int i = 0; i < 3; ++i) {
      ASSERT_THAT(swarm_.Ends(request_), IsEmpty()) << i;
      ASSERT_THAT(swarm_.picture().stages, SizeIs(1)) << i;
      const WorkerId serves = swarm_.picture().stages[0].worker;
      do {
        swarm_.AnswerStep(serves);
        ASSERT_GT(swarm_.unanswered_steps(serves), 0u) << i;
      } while (swarm_.step(serves).runs[0].first_position != 16);
      if (i == 2 && hold_back_)
        for (const WorkerId id : stay_) swarm_.worker(id).answer_steps = false;
      swarm_.Lose(serves);
      swarm_.Advance(Milliseconds(500));
    }
  }
  TestSwarm swarm_;
  const bool hold_back_;
  WorkerId stay_[2] = {};
  RequestId request_;
};

TEST_F(LastTryTest, AtTheLimitThoseComputeItThatStay) {
  LoseThree();
  swarm_.Advance(Seconds(5));
  EXPECT_EQ(swarm_.Tokens(request_), Counting(124, 4));
  ASSERT_THAT(swarm_.Ends(request_), SizeIs(1));
  EXPECT_EQ(swarm_.Ends(request_)[0].reason, FinishReason::kLength);
}

class LastTryInVainTest : public LastTryTest {
 protected:
  LastTryInVainTest() : LastTryTest(true) {}
};

TEST_F(LastTryInVainTest, ItIsTheLast) {
  LoseThree();
  ASSERT_THAT(swarm_.Ends(request_), IsEmpty());
  ASSERT_THAT(swarm_.picture().stages, SizeIs(2));
  const WorkerId front = swarm_.picture().stages[0].worker;
  EXPECT_TRUE(front == stay_[0] || front == stay_[1]);
  ASSERT_GT(swarm_.unanswered_steps(front), 0u);
  while (swarm_.step(front).runs[0].first_position != 16) {
    swarm_.AnswerStep(front);
    ASSERT_GT(swarm_.unanswered_steps(front), 0u);
  }
  swarm_.Lose(front);
  ASSERT_THAT(swarm_.Ends(request_), SizeIs(1));
  EXPECT_THAT(swarm_.Ends(request_)[0].error->message(), HasSubstr("devices have gone"));
}

// Faster by far than who serves, and still it stands by until it has computed something.
TEST(Flapping, NewcomersStandByWhileAPlanServes) {
  CoreOptions options = TestOptions();
  options.timeouts.newcomer = Seconds(3);
  TestSwarm swarm(options);
  TestWorker slow;
  slow.run_us = 20'000;
  slow.compute_us = 100'000;
  swarm.BringUp(1, slow);
  const WorkerId fast = swarm.Join();
  swarm.Advance(Milliseconds(2500));
  EXPECT_EQ(swarm.picture().stages[0].worker, WorkerId(1));
  ASSERT_THAT(swarm.bindings(fast), SizeIs(1));
  EXPECT_TRUE(swarm.bindings(fast)[0].standby);
  swarm.Advance(Seconds(2));
  EXPECT_EQ(swarm.picture().stages[0].worker, fast) << "it has stayed for long enough";
}

TEST(Flapping, NewcomersAreUsedAtOnceWhereNothingServes) {
  CoreOptions options = TestOptions();
  options.timeouts.newcomer = Seconds(3);
  TestSwarm swarm(options);
  swarm.BringUp(2, Half());
  swarm.Lose(2);
  const RequestId request = swarm.Submit(Counting(100, 5), 4);
  swarm.Join(Half());
  swarm.Advance(Milliseconds(200));
  EXPECT_EQ(swarm.Tokens(request), Counting(105, 4));
}

TEST(Joins, OfOneNetworkAreLimitedAndAClassIsLetIn) {
  TestSwarm swarm;
  TestWorker tab;
  tab.network = "203.0.113.7";
  for (int i = 0; i < 80; ++i) EXPECT_THAT(swarm.CloseReasons(swarm.Join(tab)), IsEmpty()) << i;
  const WorkerId refused = swarm.Join(tab);
  EXPECT_EQ(swarm.Last(refused, wire::pb::ServerMessage::kRefused).refused().code(), "unavailable");
  EXPECT_THAT(swarm.CloseReasons(refused), ElementsAre(HasSubstr("More than 80 devices")));
  TestWorker other = tab;
  other.network = "2001:db8::/64";
  EXPECT_THAT(swarm.CloseReasons(swarm.Join(other)), IsEmpty());
  // One whose line broke is no newcomer.
  swarm.Lose(2);
  EXPECT_THAT(swarm.CloseReasons(swarm.Return(2)), IsEmpty());
  swarm.Advance(Seconds(1));
  EXPECT_THAT(swarm.CloseReasons(swarm.Join(tab)), IsEmpty());
}

}  // namespace
}  // namespace weft::swarm
