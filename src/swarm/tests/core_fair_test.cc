// Several clients at once: how long each of them waits, and how much of the queue it may take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "swarm/flow/fair_queue.h"
#include "swarm/tests/core_testing.h"

namespace weft::swarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;

CoreOptions FairOptions(uint32_t sessions, uint32_t queue_limit) {
  CoreOptions options = TestOptions();
  options.session_count = sessions;
  options.queue_limit = queue_limit;
  options.turn_rows = 8;
  return options;
}

// One worker, whose steps a test answers.
struct FairSwarm : TestSwarm {
  explicit FairSwarm(uint32_t sessions = 2, uint32_t queue_limit = 200)
      : TestSwarm(FairOptions(sessions, queue_limit)) {
    BringUp(1, Silent());
  }
};

RequestId SubmitFor(TestSwarm& swarm, const std::string& client, std::vector<int32_t> prompt,
                    uint32_t max_tokens) {
  static RequestId next = 1;
  Request request;
  request.id = next++;
  request.client = client;
  request.prompt_ids = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  const RequestId id = request.id;
  swarm.Submit(std::move(request));
  return id;
}

std::vector<RequestId> SubmitMany(TestSwarm& swarm, const std::string& client, int count,
                                  uint32_t max_tokens) {
  std::vector<RequestId> ids;
  for (int i = 0; i < count; ++i)
    ids.push_back(SubmitFor(swarm, client, Counting(10 * i, 3), max_tokens));
  return ids;
}

// Steps of the one worker until the request is over.
int StepsUntilEnd(TestSwarm& swarm, RequestId id) {
  int steps = 0;
  for (; swarm.Ends(id).empty() && swarm.unanswered_steps(1) > 0; ++steps) swarm.AnswerStep(1);
  EXPECT_THAT(swarm.Ends(id), SizeIs(1));
  return steps;
}

void AnswerAll(TestSwarm& swarm) {
  while (swarm.unanswered_steps(1) > 0) swarm.AnswerStep(1);
}

// First come first served made it wait for sixty of the other's.
TEST(Fairness, APoliteClientDoesNotWaitForAnothersQueue) {
  FairSwarm swarm;
  const auto many = SubmitMany(swarm, "greedy", 62, 50);
  const RequestId polite = SubmitFor(swarm, "polite", Counting(700, 3), 2);
  EXPECT_LE(StepsUntilEnd(swarm, polite), 6);
  EXPECT_EQ(swarm.Tokens(polite), Counting(703, 2));
}

TEST(Fairness, WhoMadeRoomGoesOnWithTheSameAnswer) {
  FairSwarm swarm;
  const auto many = SubmitMany(swarm, "greedy", 2, 30);
  for (int i = 0; i < 10; ++i) swarm.AnswerStep(1);
  EXPECT_THAT(swarm.Tokens(many[1]), testing::Not(IsEmpty()));
  const RequestId polite = SubmitFor(swarm, "polite", Counting(700, 3), 5);
  EXPECT_EQ(swarm.picture().active_requests, 2u);
  EXPECT_EQ(swarm.picture().queued_requests, 1u);
  AnswerAll(swarm);
  for (int i = 0; i < 2; ++i) {
    const RequestId id = many[static_cast<size_t>(i)];
    EXPECT_EQ(swarm.Tokens(id), Counting(10 * i + 3, 30));
    ASSERT_THAT(swarm.Ends(id), SizeIs(1));
    EXPECT_EQ(swarm.Ends(id)[0].generated_tokens, 30u);
    EXPECT_EQ(swarm.Ends(id)[0].reason, FinishReason::kLength);
    EXPECT_LE(swarm.Ends(id)[0].cached_prompt_tokens, 3u);
  }
  EXPECT_EQ(swarm.Tokens(polite), Counting(703, 5));
}

TEST(Fairness, WhoMadeRoomCanBeCancelled) {
  FairSwarm swarm;
  const auto many = SubmitMany(swarm, "greedy", 2, 30);
  for (int i = 0; i < 10; ++i) swarm.AnswerStep(1);
  SubmitFor(swarm, "polite", Counting(700, 3), 5);
  ASSERT_EQ(swarm.picture().queued_requests, 1u);
  for (const RequestId id : many) swarm.Cancel(id);
  for (const RequestId id : many) {
    ASSERT_THAT(swarm.Ends(id), SizeIs(1));
    EXPECT_EQ(swarm.Ends(id)[0].reason, FinishReason::kCancelled);
  }
  EXPECT_EQ(swarm.picture().queued_requests, 0u);
  AnswerAll(swarm);
  EXPECT_EQ(swarm.core().sizes().waiting_requests, 0u);
}

// More clients than sessions, all with long answers: each has its turn before any has a second.
TEST(Fairness, TheWaitForTheFirstTokenGrowsWithTheClientsAlone) {
  for (const int clients : {4, 8}) {
    for (const int requests : {1, 10}) {
      FairSwarm swarm(1);
      for (int client = 0; client < clients; ++client)
        SubmitMany(swarm, "client " + std::to_string(client), requests, 50);
      const RequestId last = SubmitFor(swarm, "polite", Counting(700, 3), 1);
      // A turn is 8 rows, or as many as would be computed again: at most twice as much.
      EXPECT_LE(StepsUntilEnd(swarm, last), clients * 16);
    }
  }
}

TEST(Fairness, TurnsEndWithEveryAnswerWhole) {
  FairSwarm swarm(1);
  std::vector<std::vector<RequestId>> all;
  for (int client = 0; client < 3; ++client)
    all.push_back(SubmitMany(swarm, "client " + std::to_string(client), 2, 40));
  AnswerAll(swarm);
  for (const auto& ids : all)
    for (size_t i = 0; i < ids.size(); ++i)
      EXPECT_EQ(swarm.Tokens(ids[i]), Counting(static_cast<int32_t>(10 * i) + 3, 40));
}

// One alone never makes room for itself.
TEST(Fairness, OneClientKeepsItsOrder) {
  FairSwarm swarm(1);
  const auto ids = SubmitMany(swarm, "alone", 3, 20);
  AnswerAll(swarm);
  std::vector<RequestId> ended;
  for (const Action& action : swarm.log())
    if (const auto* end = std::get_if<FinishRequest>(&action)) ended.push_back(end->request);
  EXPECT_EQ(ended, ids);
}

// Rows of prompts that were sent until the polite one's was read.
TEST(Fairness, PromptsShareTheStagesByClient) {
  FairSwarm swarm(8);
  for (int i = 0; i < 7; ++i) SubmitFor(swarm, "greedy", Counting(60 * i, 60), 1);
  const RequestId polite = SubmitFor(swarm, "polite", Counting(600, 32), 1);
  // Frames of 8 rows: four of its own, as many of the other's, and what was on its way.
  EXPECT_LE(StepsUntilEnd(swarm, polite), 12);
}

TEST(Fairness, AClientHasAShareOfTheQueue) {
  FairSwarm swarm(2, 6);
  const auto greedy = SubmitMany(swarm, "greedy", 6, 5);
  ASSERT_THAT(swarm.Ends(greedy[5]), SizeIs(1));
  EXPECT_TRUE(swarm.Ends(greedy[5])[0].over_share);
  EXPECT_THAT(swarm.Ends(greedy[5])[0].error->message(), HasSubstr("3 requests waiting already"));
  EXPECT_THAT(swarm.Ends(greedy[4]), IsEmpty());
  // Others of its kind fill the queue; whoever has nothing there still gets in.
  SubmitMany(swarm, "second", 5, 5);
  EXPECT_EQ(swarm.picture().queued_requests, 6u);
  const auto polite = SubmitMany(swarm, "polite", 2, 5);
  EXPECT_THAT(swarm.Ends(polite[0]), IsEmpty());
  ASSERT_THAT(swarm.Ends(polite[1]), SizeIs(1));
  EXPECT_FALSE(swarm.Ends(polite[1])[0].over_share);
  EXPECT_THAT(swarm.Ends(polite[1])[0].error->message(), HasSubstr("The queue is full"));
  AnswerAll(swarm);
  EXPECT_THAT(swarm.Tokens(polite[0]), SizeIs(5));
}

TEST(Fairness, TheQueueHasAnEndForAllTogether) {
  FairSwarm swarm(2, 3);
  for (int i = 0; i < 100; ++i) SubmitFor(swarm, "client " + std::to_string(i), Counting(i, 3), 5);
  EXPECT_EQ(swarm.core().sizes().waiting_requests, 6u);
}

TEST(Fairness, ProgressTellsTheTurnNotTheOrderOfArrival) {
  FairSwarm swarm(1);
  const auto many = SubmitMany(swarm, "greedy", 5, 50);
  swarm.AnswerStep(1);
  const RequestId polite = SubmitFor(swarm, "polite", Counting(700, 3), 1);
  EXPECT_EQ(swarm.core().progress(polite)->requests_ahead, 0u);
  EXPECT_EQ(swarm.core().progress(many[1])->requests_ahead, 1u);
  EXPECT_EQ(swarm.core().progress(many[4])->requests_ahead, 4u);
}

// ---- the queue by itself ----

TEST(FairQueue, TimeWithoutRequestsIsNoCredit) {
  FairQueue queue;
  const auto busy = queue.Enter("busy");
  busy->served = 1000;
  const auto late = queue.Enter("late");
  EXPECT_EQ(late->served, 1000u);
  // Nor does going away wipe out what was had.
  late->served = 5000;
  queue.Leave(*late);
  EXPECT_EQ(queue.Enter("late")->served, 5000u);
}

TEST(FairQueue, RemembersABoundedNumberOfClients) {
  FairQueue queue;
  const auto busy = queue.Enter("busy");
  for (int i = 0; i < 5000; ++i) queue.Leave(*queue.Enter("client " + std::to_string(i)));
  EXPECT_THAT(queue.client_count(), Le(1025u));
  queue.Leave(*busy);
  EXPECT_EQ(queue.client_count(), 0u);
}

}  // namespace
}  // namespace weft::swarm
