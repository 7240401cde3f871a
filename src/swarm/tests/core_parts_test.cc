// Conversations that decode together: in how many parts they go round (flow/micro_batches.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "swarm/tests/core_testing.h"

namespace weft::swarm {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

constexpr uint32_t kSessions = 16;

// Two workers of half the layers each, both as a GPU is: a step takes 3.5 ms, and each row of it
// 60 us more. A worker computes one step after another, beside the other worker.
class RoundsOfTwo {
 public:
  RoundsOfTwo() : RoundsOfTwo(Gpu(), Gpu()) {}
  RoundsOfTwo(const TestWorker& first, const TestWorker& second, Duration replan = Seconds(15))
      : swarm_(Options(replan)) {
    swarm_.Join(first);
    swarm_.Join(second);
    swarm_.Advance(Seconds(1));
  }
  static TestWorker Gpu() {
    TestWorker half = Half();
    half.compute_us = 3500;
    half.row_us = 60;
    half.answer_steps = false;
    return half;
  }

  TestSwarm& swarm() { return swarm_; }
  RequestId Ask(uint32_t tokens) {
    requests_.push_back(swarm_.Submit({static_cast<int32_t>(requests_.size())}, tokens));
    return requests_.back();
  }
  uint32_t tokens() const {
    uint32_t count = 0;
    for (const RequestId id : requests_) count += static_cast<uint32_t>(swarm_.Tokens(id).size());
    return count;
  }
  // Runs of the frames that the first stage has computed, in order.
  std::vector<size_t> frames;

  // Answers steps when their workers have computed them, until nothing is asked of them or so much
  // time has passed. Time passes in the test alone: the core is told of it by its timers.
  void Run(Duration limit) {
    const Instant end = swarm_.now() + limit;
    while (swarm_.now() < end) {
      for (WorkerId id = 1; id <= 2; ++id)
        if (swarm_.unanswered_steps(id) > 0 && !due_.contains(id))
          due_[id] =
              swarm_.now() + Microseconds(swarm_.worker(id).compute_us +
                                          swarm_.worker(id).row_us * swarm_.step(id).header.rows);
      if (due_.empty()) return;
      const auto next =
          std::ranges::min_element(due_, {}, [](const auto& each) { return each.second; });
      const auto [id, at] = *next;
      due_.erase(next);
      if (at > swarm_.now()) swarm_.Advance(at - swarm_.now());
      if (id == swarm_.picture().stages[0].worker) frames.push_back(swarm_.step(id).runs.size());
      swarm_.AnswerStep(id);
    }
  }

 private:
  static CoreOptions Options(Duration replan) {
    CoreOptions options = TestOptions();
    options.timeouts.replan_interval = replan;
    options.session_count = kSessions;
    options.queue_limit = kSessions;
    options.context_length = 8192;
    return options;
  }
  TestSwarm swarm_;
  std::vector<RequestId> requests_;
  std::map<WorkerId, Instant> due_;  // when the oldest step of each is computed
};

// Two parts of eight take 4 ms at each stage: sixteen tokens every 8 ms. As many parts as there are
// frames on their way, of two or three rows each, would take 22.
TEST(Parts, SixteenConversationsGoRoundInTwo) {
  RoundsOfTwo two;
  for (uint32_t i = 0; i < kSessions; ++i) two.Ask(1000);
  two.Run(Seconds(1));
  two.frames.clear();
  const uint32_t before = two.tokens();
  two.Run(Seconds(2));
  EXPECT_GE(two.tokens() - before, 0.95 * 2000 / 8 * kSessions);
  EXPECT_THAT(std::vector(two.frames.end() - 4, two.frames.end()), ElementsAre(8, 8, 8, 8));
}

TEST(Parts, AreDividedAnewWhenSomeOfTheirConversationsEnd) {
  RoundsOfTwo two;
  std::vector<RequestId> requests;
  for (uint32_t i = 0; i < kSessions; ++i) requests.push_back(two.Ask(1000));
  two.Run(Seconds(1));
  for (const uint32_t i : {0u, 1u, 2u, 3u, 4u, 5u}) two.swarm().Cancel(requests[i]);
  two.Run(Milliseconds(200));
  EXPECT_THAT(std::vector(two.frames.end() - 4, two.frames.end()), ElementsAre(5, 5, 5, 5));
  for (const uint32_t i : {6u, 7u, 8u, 9u, 10u, 11u, 12u, 13u, 14u})
    two.swarm().Cancel(requests[i]);
  const uint32_t before = two.tokens();
  two.Run(Milliseconds(400));
  // The last one waits for nobody.
  EXPECT_GE(two.tokens() - before, 400 / 7.2);
  EXPECT_EQ(two.frames.back(), 1u);
}

// A device was timed as slow while it compiled its kernels, and has one layer of six. In answers it
// takes no longer for a layer than the other one.
class Uneven : public testing::Test {
 protected:
  static TestWorker Fast() {
    TestWorker worker = RoundsOfTwo::Gpu();
    worker.memory_bytes = 5'500'000;
    worker.run_us = 500;
    worker.compute_us = 2500;
    worker.row_us = 0;
    return worker;
  }
  static TestWorker Slow() {
    TestWorker worker = Fast();
    worker.run_us = 5000;
    worker.compute_us = 500;
    return worker;
  }
  uint32_t Layers(WorkerId id) {
    for (const StageSnapshot& stage : two_.swarm().picture().stages)
      if (stage.worker == id) return stage.end_layer - stage.first_layer;
    return 0;
  }
  void ExpectEvenAfter(const std::function<void()>& second) {
    for (int i = 0; i < 40 && Layers(1) > 3; ++i) second();
    EXPECT_EQ(Layers(1), 3u);
    EXPECT_EQ(Layers(2), 3u);
  }
  RoundsOfTwo two_{Fast(), Slow()};
};

TEST_F(Uneven, APlanIsEvenedOutWhileSeveralConversationsDecode) {
  ASSERT_EQ(Layers(1), 5u);
  two_.Ask(8000);
  two_.Run(Seconds(2));
  EXPECT_EQ(Layers(1), 5u) << "one conversation gains nothing";
  two_.Ask(8000);
  ExpectEvenAfter([this] { two_.Run(Seconds(1)); });
}

// One row alone takes a layer of the second one longer than four of the first one, but many rows
// hardly take it longer: by what many take, another layer is worth it.
TEST(Parts, APlanIsEvenedOutByWhatManyRowsTake) {
  TestWorker first = RoundsOfTwo::Gpu();
  first.memory_bytes = 5'500'000;
  first.run_us = 500;
  first.compute_us = 2500;
  first.row_us = 400;
  TestWorker second = first;
  second.run_us = 5000;
  second.compute_us = 2000;
  second.row_us = 50;
  RoundsOfTwo two(first, second, Milliseconds(200));
  const auto layers = [&](WorkerId id) {
    for (const StageSnapshot& stage : two.swarm().picture().stages)
      if (stage.worker == id) return stage.end_layer - stage.first_layer;
    return 0u;
  };
  two.Ask(8000);
  two.Ask(8000);
  two.Run(Seconds(2));
  ASSERT_EQ(layers(1), 5u) << "two rows are too few";
  for (uint32_t i = 2; i < kSessions; ++i) two.Ask(8000);
  for (int i = 0; i < 40 && layers(1) == 5; ++i) two.Run(Milliseconds(50));
  EXPECT_EQ(layers(1), 4u);
  EXPECT_EQ(layers(2), 2u);
}

TEST_F(Uneven, APlanIsEvenedOutWhileNobodyAsks) {
  const RequestId request = two_.Ask(8000);
  two_.Run(Seconds(2));
  ASSERT_EQ(Layers(1), 5u);
  two_.swarm().Cancel(request);
  two_.Run(Seconds(1));  // what was under way
  ExpectEvenAfter([this] { two_.swarm().Advance(Seconds(1)); });
}

// What goes round with others is lost with them, and all of it is made up for.
TEST(Parts, OneThatFailsIsTriedAgainAndNobodyWaitsForEver) {
  RoundsOfTwo two;
  std::vector<RequestId> requests;
  for (uint32_t i = 0; i < kSessions; ++i) requests.push_back(two.Ask(20));
  two.Run(Milliseconds(40));
  two.swarm().FailStep(two.swarm().picture().stages[1].worker, ErrorCode::kInvalidData, "lost");
  two.Run(Seconds(5));
  for (uint32_t i = 0; i < kSessions; ++i) {
    EXPECT_EQ(two.swarm().Tokens(requests[i]), Counting(static_cast<int32_t>(i) + 1, 20)) << i;
    EXPECT_THAT(two.swarm().Ends(requests[i]), SizeIs(1)) << i;
  }
}

}  // namespace
}  // namespace weft::swarm
