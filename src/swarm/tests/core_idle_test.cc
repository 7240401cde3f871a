// Conversations that nobody waits for: what a new worker is behind with them must not delay those
// that somebody waits for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "swarm/tests/core_testing.h"

namespace weft::swarm {
namespace {

using testing::Each;
using testing::Le;

constexpr uint32_t kTurn = 40, kAnswer = 4;

// Two stages, three conversations that have ended, and a last stage that was just taken over by
// a worker that knows nothing of them. It answers when it is told to.
struct TakenOver {
  explicit TakenOver(const CoreOptions& options = Options(), TestWorker worker = Half(),
                     size_t turn = kTurn)
      : swarm(options) {
    swarm.BringUp(2, Half());
    front = swarm.picture().stages[0].worker;
    for (int32_t i = 0; i < 3; ++i) swarm.Submit(Counting(100 * i, turn), kAnswer);
    swarm.Lose(swarm.picture().stages[1].worker);
    swarm.ClearLog();
    worker.answer_steps = false;
    back = swarm.Join(worker);
    swarm.Advance(Milliseconds(200));
    EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  }
  static CoreOptions Options() {
    CoreOptions options = TestOptions();
    options.session_count = 4;
    return options;
  }
  uint32_t RowsOf(WorkerId worker, uint32_t session) const {
    uint32_t rows = 0;
    for (const TestRun& run : swarm.runs())
      if (run.worker == worker && run.run.session == session) rows += run.run.count;
    return rows;
  }
  TestSwarm swarm;
  WorkerId front = 0, back = 0;
};

TEST(IdleSessions, DoNotDelayAPromptAfterATakeover) {
  TakenOver taken;
  TestSwarm& swarm = taken.swarm;
  ASSERT_EQ(swarm.unanswered_steps(taken.back), 1u) << "they are caught up with, a chunk at a time";
  EXPECT_EQ(swarm.step(taken.back).header.rows, 8u);
  const RequestId request = swarm.Submit(Counting(500, 24), kAnswer);
  EXPECT_EQ(taken.RowsOf(taken.front, 4), 24u) << "the first stage reads it at once";
  int steps = 0;
  for (; swarm.Tokens(request).empty() && steps < 100; ++steps) swarm.AnswerStep(taken.back);
  EXPECT_EQ(steps, 1 + 24 / 8) << "the chunk that was under way, and its own";
  for (; swarm.Ends(request).empty() && steps < 100; ++steps) swarm.AnswerStep(taken.back);
  EXPECT_EQ(steps, 1 + 24 / 8 + 3) << "nothing comes between its tokens";
  EXPECT_EQ(swarm.Tokens(request), Counting(524, kAnswer));
}

// Frames of prompts are filled where nobody decodes. These are not: somebody may come at any time.
TEST(IdleSessions, AreCaughtUpWithAChunkAtATime) {
  CoreOptions options = TakenOver::Options();
  options.context_length = 1000;
  options.prefill_chunk_rows = 64;
  options.prefill_chunk_time = Milliseconds(50);
  TestWorker slow = Half();
  slow.compute_us = 10'000;
  slow.row_us = 20'000;
  slow.takes_time = true;
  TakenOver taken(options, slow, 300);
  TestSwarm& swarm = taken.swarm;
  // Until its time for a row is known.
  for (int i = 0; i < 6; ++i) swarm.AnswerStep(taken.back);
  std::vector<uint32_t> rows;
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(swarm.unanswered_steps(taken.back), 1u);
    rows.push_back(swarm.step(taken.back).header.rows);
    swarm.AnswerStep(taken.back);
  }
  EXPECT_THAT(rows, Each(Le(4u)));
}

TEST(IdleSessions, AreCaughtUpWithWhenNobodyWaits) {
  TakenOver taken;
  TestSwarm& swarm = taken.swarm;
  const RequestId request = swarm.Submit(Counting(500, 24), kAnswer);
  swarm.AnswerSteps(taken.back);
  EXPECT_EQ(swarm.Tokens(request), Counting(524, kAnswer));
  for (uint32_t session = 1; session <= 3; ++session)
    EXPECT_EQ(swarm.Held(taken.back, {3, 6}, session), kTurn + kAnswer - 1);
  std::vector<uint32_t> rows;
  for (const TestRun& run : swarm.runs()) rows.push_back(run.run.count);
  EXPECT_THAT(rows, Each(Le(8u)));
}

// One that stands by is first told of what somebody waits for.
TEST(IdleSessions, AreFedToStandbysBehindTheOthers) {
  TestSwarm swarm(TakenOver::Options());
  swarm.BringUp(2, Half());
  for (int32_t i = 0; i < 3; ++i) swarm.Submit(Counting(100 * i, kTurn), kAnswer);
  const WorkerId back = swarm.picture().stages[1].worker;
  swarm.worker(back).answer_steps = false;
  swarm.Submit(Counting(500, 24), kAnswer);
  swarm.ClearLog();
  TestWorker spare = Half();
  spare.answer_steps = false;
  spare.run_us = 5000;
  const WorkerId id = swarm.Join(spare);
  swarm.Advance(Milliseconds(500));
  ASSERT_EQ(swarm.unanswered_steps(id), 1u);
  EXPECT_EQ(swarm.step(id).runs[0].session, 4u);
  for (int i = 0; i < 100 && swarm.unanswered_steps(id) > 0; ++i) swarm.AnswerStep(id);
  uint32_t idle_rows = 0;
  for (const TestRun& run : swarm.runs())
    if (run.worker == id && run.run.session < 4) idle_rows += run.run.count;
  EXPECT_GT(idle_rows, 0u) << "the others come when there is nothing else";
}

}  // namespace
}  // namespace weft::swarm
