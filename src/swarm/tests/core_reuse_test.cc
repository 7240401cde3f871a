// Sessions that outlive their requests: what a later one need not compute again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "swarm/tests/core_testing.h"

namespace weft::swarm {
namespace {

using testing::ElementsAre;
using wire::pb::ServerMessage;

TEST(PrefixReuse, TheNextTurnContinuesTheKeptSession) {
  TestSwarm swarm;
  swarm.BringUp(1);
  const RequestId first = swarm.Submit(Counting(0, 20), 5);
  ASSERT_EQ(swarm.Tokens(first), Counting(20, 5));
  // The next turn repeats prompt and answer and adds to them. The answer's last token was never
  // computed on.
  const RequestId second = swarm.Submit(Counting(0, 40), 3);
  EXPECT_EQ(swarm.Ends(second)[0].cached_prompt_tokens, 24u);
  EXPECT_EQ(swarm.Tokens(second), Counting(40, 3));
  // The same prompt again: all but its last token.
  const RequestId third = swarm.Submit(Counting(0, 40), 3);
  EXPECT_EQ(swarm.Ends(third)[0].cached_prompt_tokens, 39u);
  EXPECT_EQ(swarm.Tokens(third), Counting(40, 3));
}

// Three stages of recurrent layers. What a later request shares with an earlier one is computed
// again only from the last mark that it shares.
TEST(PrefixReuse, ARecurrentModelGoesOnFromItsMarks) {
  CoreOptions options = TestOptions();
  options.context_length = 512;
  options.marks = 3;
  for (ModelLayer& layer : options.model.layers) layer.state_bytes = 64;
  TestWorker third = Third();
  third.keeps_state = true;
  TestSwarm swarm(options);
  swarm.BringUp(3, third);
  RequestId next = 100;
  const auto ask = [&](std::vector<int32_t> prompt, std::vector<uint32_t> marks) {
    Request request;
    request.prompt_ids = std::move(prompt);
    request.marks = std::move(marks);
    request.max_tokens = 4;
    request.sampling.temperature = 0;
    request.id = ++next;
    swarm.ClearLog();
    swarm.Submit(std::move(request));
    return next;
  };
  // Rows that each stage was sent: "from 40: 71 40 40" where the first got 71, and so on.
  const auto rows_of_stages = [&] {
    std::map<uint32_t, uint32_t> rows, first;
    for (const TestRun& run : swarm.runs()) {
      first.try_emplace(run.layers.first, run.run.first_position);
      rows[run.layers.first] += run.run.count;
    }
    std::vector<std::pair<uint32_t, uint32_t>> stages;
    for (const auto& [layer, count] : rows) stages.emplace_back(first[layer], count);
    return stages;
  };
  const auto each = [](uint32_t first, uint32_t count) {
    return ElementsAre(std::pair(first, count), std::pair(first, count), std::pair(first, count));
  };
  const RequestId first = ask(Counting(0, 130), {40, 126});
  EXPECT_EQ(swarm.Tokens(first), Counting(130, 4));
  EXPECT_THAT(rows_of_stages(), each(0, 133));

  // Another last word, behind the mark before the answer.
  std::vector<int32_t> turn = Counting(0, 126);
  for (int32_t i = 0; i < 40; ++i) turn.push_back(500 + i);
  const RequestId second = ask(turn, {40, 160});
  EXPECT_EQ(swarm.Ends(second)[0].cached_prompt_tokens, 126u);
  EXPECT_EQ(swarm.Tokens(second), Counting(540, 4));
  EXPECT_THAT(rows_of_stages(), each(126, 43));

  // Another message behind the same system prompt.
  std::vector<int32_t> chat = Counting(0, 100);
  for (int32_t i = 0; i < 20; ++i) chat.push_back(700 + i);
  const RequestId third_turn = ask(chat, {40, 116});
  EXPECT_EQ(swarm.Ends(third_turn)[0].cached_prompt_tokens, 40u);
  EXPECT_EQ(swarm.Tokens(third_turn), Counting(720, 4));
  EXPECT_THAT(rows_of_stages(), each(40, 83));

  // The very end of what is held is no mark and needs none.
  std::vector<int32_t> goes_on = chat;
  for (int32_t i = 0; i < 8; ++i) goes_on.push_back(720 + i);
  const RequestId fourth = ask(goes_on, {40});
  EXPECT_EQ(swarm.Ends(fourth)[0].cached_prompt_tokens, 123u);
  EXPECT_THAT(rows_of_stages(), each(123, 8));
}

// The worker that takes over is sent every row, and makes the marks that the others have.
TEST(PrefixReuse, AReplacementMakesTheMarksThatTheOthersHave) {
  CoreOptions options = TestOptions();
  options.context_length = 512;
  for (ModelLayer& layer : options.model.layers) layer.state_bytes = 64;
  TestWorker third = Third();
  third.keeps_state = true;
  TestSwarm swarm(options);
  swarm.BringUp(3, third);
  swarm.Submit(Counting(0, 100), 4);
  const WorkerId middle = swarm.picture().stages[1].worker;
  swarm.Lose(middle);
  const WorkerId late = swarm.Join(third);
  swarm.Advance(Seconds(1));
  std::vector<int32_t> turn = Counting(0, 99);
  turn.push_back(500);
  swarm.ClearLog();
  const RequestId again = swarm.Submit(turn, 2);
  EXPECT_EQ(swarm.Tokens(again), Counting(501, 2));
  EXPECT_EQ(swarm.Ends(again)[0].cached_prompt_tokens, 99u);
  EXPECT_THAT(swarm.Rows(late), testing::StartsWith("[99,"));
}

TEST(PrefixReuse, ALongSessionIsNotSpentOnAShortPrefix) {
  TestSwarm swarm;
  swarm.BringUp(1);
  swarm.Submit(Counting(0, 40), 2);
  std::vector<int32_t> other = Counting(0, 4);
  other.push_back(500);
  const RequestId stranger = swarm.Submit(other, 2);
  EXPECT_EQ(swarm.Ends(stranger)[0].cached_prompt_tokens, 0u);
  const RequestId back = swarm.Submit(Counting(0, 44), 2);
  EXPECT_EQ(swarm.Ends(back)[0].cached_prompt_tokens, 41u);
}

TEST(PrefixReuse, TheLeastRecentlyUsedSessionGoesFirst) {
  TestSwarm swarm;  // two sessions
  swarm.BringUp(1);
  swarm.Submit(Counting(100, 20), 1);
  swarm.Advance(Milliseconds(1));
  swarm.Submit(Counting(200, 20), 1);
  swarm.Advance(Milliseconds(1));
  swarm.ClearLog();
  const RequestId third = swarm.Submit(Counting(300, 20), 1);
  EXPECT_THAT(swarm.Last(1, ServerMessage::kInvalidateSessions).invalidate_sessions().sessions(),
              ElementsAre(1));
  EXPECT_EQ(swarm.Ends(third)[0].cached_prompt_tokens, 0u);
  EXPECT_EQ(swarm.Ends(swarm.Submit(Counting(200, 22), 1))[0].cached_prompt_tokens, 20u);
}

TEST(PrefixReuse, ACancelledSessionIsReusedAsFarAsEveryStageHoldsIt) {
  TestSwarm swarm;
  TestWorker half = Silent();
  half.memory_bytes = 3'500'000;
  swarm.BringUp(2, half);
  const WorkerId front = swarm.picture().stages[0].worker, back = swarm.picture().stages[1].worker;
  const RequestId first = swarm.Submit(Counting(0, 40), 5);
  swarm.AnswerStep(front);
  swarm.AnswerStep(front);
  swarm.AnswerStep(back);  // 8 positions through both stages, 16 through the first
  swarm.Cancel(first);
  for (const WorkerId id : {front, back}) swarm.worker(id).answer_steps = true;
  for (const WorkerId id : {front, back})
    while (swarm.unanswered_steps(id) > 0) swarm.AnswerStep(id);
  const RequestId second = swarm.Submit(Counting(0, 40), 5);
  EXPECT_EQ(swarm.Ends(second)[0].cached_prompt_tokens, 8u);
  EXPECT_EQ(swarm.Tokens(second), Counting(40, 5));
}

// A new worker computes once more, while nobody waits, what conversations held that are idle.
TEST(PrefixReuse, ANewWorkerIsReadyForTheNextTurn) {
  TestSwarm swarm;
  swarm.BringUp(1);
  swarm.Submit(Counting(0, 20), 5);
  swarm.Lose(1);
  swarm.BringUp(1);
  EXPECT_EQ(swarm.Rows(2), "[0,24) none");
  const RequestId second = swarm.Submit(Counting(0, 30), 3);
  EXPECT_EQ(swarm.Rows(2), "[0,24) none [24,32) argmax");
  EXPECT_EQ(swarm.Ends(second)[0].cached_prompt_tokens, 24u);
  EXPECT_EQ(swarm.Tokens(second), Counting(30, 3));
}

}  // namespace
}  // namespace weft::swarm
