// Conversations that begin alike: what they share is computed once, at every stage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "swarm/tests/core_testing.h"

namespace weft::swarm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// A system prompt of 40 tokens and a message of 10.
std::vector<int32_t> Chat(int32_t message) {
  std::vector<int32_t> prompt = Counting(0, 40);
  for (int32_t i = 0; i < 10; ++i) prompt.push_back(message + i);
  return prompt;
}

CoreOptions Options(uint32_t sessions = 4) {
  CoreOptions options = TestOptions();
  options.session_count = sessions;
  return options;
}

// Rows that a worker got, of all sessions.
uint32_t RowsOf(const TestSwarm& swarm, WorkerId worker) {
  uint32_t rows = 0;
  for (const TestRun& run : swarm.runs())
    if (run.worker == worker) rows += run.run.count;
  return rows;
}

class Forks : public testing::TestWithParam<int> {
 protected:
  explicit Forks() : swarm_(Options()) {
    swarm_.BringUp(GetParam(), GetParam() == 1 ? TestWorker{} : Third());
    for (const auto& stage : swarm_.picture().stages) stages_.push_back(stage.worker);
  }
  TestSwarm swarm_;
  std::vector<WorkerId> stages_;
};

TEST_P(Forks, ANewChatSharesTheSystemPromptOfAnother) {
  const RequestId first = swarm_.Submit(Chat(100), 4);
  EXPECT_EQ(swarm_.Tokens(first), Counting(110, 4));
  swarm_.ClearLog();
  const RequestId second = swarm_.Submit(Chat(200), 4);
  EXPECT_EQ(swarm_.Tokens(second), Counting(210, 4));
  EXPECT_EQ(swarm_.Ends(second)[0].cached_prompt_tokens, 40u);
  for (const WorkerId worker : stages_) {
    EXPECT_THAT(swarm_.forks(worker), ElementsAre("1 into 2 at 40"));
    EXPECT_EQ(RowsOf(swarm_, worker), 13u) << "ten of its message, three of its answer";
  }
  // The first one's next turn finds everything that it had.
  std::vector<int32_t> turn = Chat(100);
  for (int32_t i = 0; i < 8; ++i) turn.push_back(110 + i);
  const RequestId third = swarm_.Submit(turn, 2);
  EXPECT_EQ(swarm_.Ends(third)[0].cached_prompt_tokens, 53u);
  EXPECT_EQ(swarm_.Tokens(third), Counting(118, 2));
}

TEST_P(Forks, ChatsThatArriveTogetherComputeItOnce) {
  for (const WorkerId worker : stages_) swarm_.worker(worker).answer_steps = false;
  const RequestId first = swarm_.Submit(Chat(100), 4), second = swarm_.Submit(Chat(200), 4),
                  third = swarm_.Submit(Chat(300), 4);
  for (const WorkerId worker : stages_) swarm_.AnswerSteps(worker);
  EXPECT_EQ(swarm_.Tokens(first), Counting(110, 4));
  EXPECT_EQ(swarm_.Tokens(second), Counting(210, 4));
  EXPECT_EQ(swarm_.Tokens(third), Counting(310, 4));
  EXPECT_EQ(swarm_.Ends(first)[0].cached_prompt_tokens, 0u);
  EXPECT_EQ(swarm_.Ends(third)[0].cached_prompt_tokens, 40u);
  for (const WorkerId worker : stages_) EXPECT_EQ(RowsOf(swarm_, worker), 40u + 3 * 13);
  const Snapshot picture = swarm_.picture();
  EXPECT_EQ(picture.prompt_tokens, 150u);
  EXPECT_EQ(picture.cached_prompt_tokens, 80u);
  EXPECT_EQ(picture.computed_positions, 40u + 3 * 13);
}

TEST_P(Forks, ChatsOfDifferentSaltsShareNothing) {
  const auto ask = [&](RequestId id, const std::string& salt, int32_t message) {
    Request request;
    request.id = id;
    request.salt = salt;
    request.prompt_ids = Chat(message);
    request.max_tokens = 4;
    request.sampling.temperature = 0;
    swarm_.Submit(std::move(request));
    return swarm_.Ends(id).at(0).cached_prompt_tokens;
  };
  EXPECT_EQ(ask(101, "one", 100), 0u);
  EXPECT_EQ(ask(102, "two", 200), 0u);
  EXPECT_EQ(ask(103, "two", 300), 40u);
  EXPECT_EQ(ask(104, "three", 100), 0u) << "not even the same prompt";
  EXPECT_EQ(ask(105, "one", 100), 49u);
}

// Whoever waits for another one's prefix goes on by itself when that one is gone.
TEST_P(Forks, AChatWhoseDonorIsCancelledGoesOn) {
  for (const WorkerId worker : stages_) swarm_.worker(worker).answer_steps = false;
  const RequestId first = swarm_.Submit(Chat(100), 4), second = swarm_.Submit(Chat(200), 4);
  swarm_.Cancel(first);
  for (const WorkerId worker : stages_) swarm_.AnswerSteps(worker);
  EXPECT_THAT(swarm_.Tokens(first), IsEmpty());
  EXPECT_EQ(swarm_.Tokens(second), Counting(210, 4));
  EXPECT_EQ(swarm_.Ends(second)[0].cached_prompt_tokens, 0u);
}

// One device has read the beginning of the first chat when a plan is cut at layer 3, and is its
// last stage. The first stage holds both chats, since it was fed while it was being loaded, and has
// given no rows for them. It gives those of the second chat behind what the two share, which wait
// there for the first chat's, and has to give that one's from the beginning.
TEST(ForksAfterACut, WhoWaitsForAnotherTakesNoRoomFromIt) {
  CoreOptions options = Options();
  options.context_length = 200;
  TestSwarm swarm(options);
  swarm.BringUp(1, Silent());
  swarm.hold_plans = true;
  const WorkerId front = swarm.JoinTimed(Half());
  const auto chat = [](int32_t message) {
    std::vector<int32_t> prompt = Counting(0, 60);
    for (int32_t i = 0; i < 40; ++i) prompt.push_back(message + i);
    return prompt;
  };
  const RequestId first = swarm.Submit(chat(100), 4), second = swarm.Submit(chat(300), 4);
  swarm.worker(1).answer_prepare = false;
  swarm.worker(front).answer_steps = false;
  swarm.AnswerPlan({{front, {0, 3}}, {1, {3, 6}}});
  while (swarm.forks(front).empty() && swarm.unanswered_steps(front) > 0) swarm.AnswerStep(front);
  ASSERT_THAT(swarm.forks(front), ElementsAre("1 into 2 at 60"));
  swarm.AnswerPrepares(1);
  ASSERT_THAT(swarm.picture().stages, SizeIs(2));
  swarm.AnswerSteps(front);
  swarm.AnswerSteps(1);
  EXPECT_EQ(swarm.Tokens(first), Counting(140, 4));
  EXPECT_EQ(swarm.Tokens(second), Counting(340, 4));
}

// A client that was served much reads a prompt that one waits for who was served nothing: it takes
// that one's turns, beside a third one's long prompt.
TEST(ForksAndTurns, WhoIsWaitedForTakesTheTurnsOfWhoWaits) {
  TestSwarm swarm(Options());
  swarm.BringUp(1);
  const WorkerId worker = swarm.picture().stages[0].worker;
  RequestId next = 500;
  const auto ask = [&](const char* client, std::vector<int32_t> prompt) {
    Request request;
    request.id = ++next;
    request.client = client;
    request.prompt_ids = std::move(prompt);
    request.max_tokens = 2;
    request.sampling.temperature = 0;
    swarm.Submit(std::move(request));
    return next;
  };
  swarm.worker(worker).answer_steps = false;
  const RequestId talk = ask("much", Counting(700, 48));  // goes on, so that what it had counts
  for (int step = 0; step < 5; ++step) swarm.AnswerStep(worker);
  ask("much", Chat(100));
  ask("third", Counting(800, 60));
  const RequestId waits = ask("none", Chat(200));
  swarm.ClearLog();
  const auto rows_of = [&](uint32_t session) {
    uint32_t rows = 0;
    for (const TestRun& run : swarm.runs())
      if (run.run.session == session) rows += run.run.count;
    return rows;
  };
  while (swarm.Tokens(waits).empty()) swarm.AnswerStep(worker);
  EXPECT_LT(rows_of(3), 60u) << "the third one's prompt was read in turns with it";
  EXPECT_GE(rows_of(3), 24u);
  EXPECT_EQ(swarm.Ends(waits).size(), 0u);
  swarm.AnswerSteps(worker);
  EXPECT_EQ(swarm.Tokens(talk), Counting(748, 2));
  EXPECT_EQ(swarm.Ends(waits)[0].cached_prompt_tokens, 40u);
}

INSTANTIATE_TEST_SUITE_P(Stages, Forks, testing::Values(1, 3));

// A stage goes, with everything: its replacement is sent the common rows once, whoever is first,
// and the others are forks there, too.
TEST(ForksAndLosses, AReplacementIsSentCommonRowsOnce) {
  TestSwarm swarm(Options());
  swarm.BringUp(3, Third());
  swarm.Submit(Chat(100), 4);
  swarm.Submit(Chat(200), 4);
  swarm.Lose(swarm.picture().stages[1].worker);
  const WorkerId late = swarm.Join(Third());
  swarm.ClearLog();
  const RequestId third = swarm.Submit(Chat(300), 4);
  swarm.Advance(Seconds(5));
  EXPECT_EQ(swarm.Tokens(third), Counting(310, 4));
  EXPECT_THAT(swarm.forks(late), SizeIs(2));
  EXPECT_EQ(RowsOf(swarm, late), 40u + 3 * 13);
  // All three go on where they were.
  for (const int32_t message : {100, 200, 300}) {
    std::vector<int32_t> turn = Chat(message);
    for (int32_t i = 0; i < 6; ++i) turn.push_back(message + 10 + i);
    const RequestId next = swarm.Submit(turn, 2);
    EXPECT_EQ(swarm.Ends(next)[0].cached_prompt_tokens, 53u);
    EXPECT_EQ(swarm.Tokens(next), Counting(message + 16, 2));
  }
}

// The step behind a fork that could not be made fails; the session begins by itself, and the device
// is not blamed.
TEST(ForksAndLosses, AForkThatCannotBeMadeCostsAStep) {
  TestSwarm swarm(Options());
  swarm.BringUp(1);
  const WorkerId worker = swarm.picture().stages[0].worker;
  swarm.Submit(Chat(100), 4);
  swarm.worker(worker).answer_steps = false;
  const RequestId second = swarm.Submit(Chat(200), 4);
  ASSERT_EQ(swarm.unanswered_steps(worker), 2u);
  EXPECT_EQ(swarm.step(worker).runs[0].first_position, 40u);
  swarm.FailStep(worker, ErrorCode::kInvalidArgument, "Session 2 is unknown.");
  swarm.AnswerSteps(worker);
  EXPECT_EQ(swarm.Tokens(second), Counting(210, 4));
  EXPECT_EQ(swarm.Ends(second)[0].cached_prompt_tokens, 0u);
  EXPECT_THAT(swarm.forks(worker), SizeIs(1)) << "not asked again";
  EXPECT_EQ(swarm.picture().workers[0].problem, "");
}

TEST(ForksAndLosses, RecurrentModelsAreForkedAtMarks) {
  CoreOptions options = Options();
  options.context_length = 512;
  options.marks = 3;
  for (ModelLayer& layer : options.model.layers) layer.state_bytes = 64;
  TestWorker third = Third();
  third.keeps_state = true;
  TestSwarm swarm(options);
  swarm.BringUp(3, third);
  const auto ask = [&](RequestId id, int32_t message) {
    Request request;
    request.id = id;
    request.prompt_ids = Chat(message);
    request.marks = {36, 49};
    request.max_tokens = 4;
    request.sampling.temperature = 0;
    swarm.Submit(std::move(request));
  };
  for (const auto& stage : swarm.picture().stages) swarm.worker(stage.worker).answer_steps = false;
  ask(101, 100);
  ask(102, 200);
  for (const auto& stage : swarm.picture().stages) swarm.AnswerSteps(stage.worker);
  ask(103, 300);
  EXPECT_EQ(swarm.Tokens(101), Counting(110, 4));
  EXPECT_EQ(swarm.Tokens(102), Counting(210, 4));
  EXPECT_EQ(swarm.Tokens(103), Counting(310, 4));
  for (const auto& stage : swarm.picture().stages) {
    EXPECT_THAT(swarm.forks(stage.worker), ElementsAre("1 into 2 at 36", "1 into 3 at 36"));
    EXPECT_EQ(RowsOf(swarm, stage.worker), 36u + 3 * 17);
  }
  EXPECT_EQ(swarm.Ends(103)[0].cached_prompt_tokens, 36u);
}

// With no room left an idle conversation has to go, or to be cut back: whatever loses less.
TEST(ForksAndRoom, WhatLosesLessGivesWay) {
  TestSwarm swarm(Options(2));
  swarm.BringUp(1);
  const RequestId chat = swarm.Submit(Chat(100), 4);
  EXPECT_EQ(swarm.Tokens(chat), Counting(110, 4));
  swarm.Submit(Counting(500, 20), 2);  // idle, and used later
  const RequestId other = swarm.Submit(Chat(200), 4);
  EXPECT_EQ(swarm.Ends(other)[0].cached_prompt_tokens, 40u) << "the first one is the oldest";
  const RequestId again = swarm.Submit(Counting(500, 20), 2);
  EXPECT_EQ(swarm.Ends(again)[0].cached_prompt_tokens, 19u);
}

// Rows that several conversations have in common are kept, and counted, once.
TEST(ForksAndRoom, CommonHistoryCountsOnce) {
  TestSwarm swarm(Options());
  swarm.BringUp(3, Third());
  swarm.Submit(Chat(100), 4);
  const uint64_t one = swarm.picture().history_bytes;
  swarm.Submit(Chat(200), 4);
  const uint64_t two = swarm.picture().history_bytes;
  EXPECT_EQ((two - one) * 53, one * 13);
}

}  // namespace
}  // namespace weft::swarm
