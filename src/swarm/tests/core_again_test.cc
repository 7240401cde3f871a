// Devices that have passed their check, serve, and are checked again (checks.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "swarm/tests/core_testing.h"

namespace weft::swarm {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// The owner's device, which holds the model, and a quicker one that has passed its check and serves
// in its place. From then on it does not answer checks by itself.
struct Serving {
  explicit Serving(const CoreOptions& options = TestOptions()) : swarm(options) {
    TestWorker own;
    own.run_us = 5000;
    swarm.BringUp(1, own);
    TestWorker stranger;
    stranger.trusted = false;
    stranger.address = "10.0.0.7";
    id = swarm.Join(stranger);
    swarm.Advance(Seconds(20));
    EXPECT_EQ(Check(), "passed");
    EXPECT_TRUE(Serves());
  }
  std::string Check() const { return swarm.picture().workers.at(1).check; }
  std::string Problem() const { return swarm.picture().workers.at(1).problem; }
  bool Serves() const {
    const Snapshot picture = swarm.picture();
    return std::any_of(picture.stages.begin(), picture.stages.end(),
                       [this](const StageSnapshot& stage) { return stage.worker == id; });
  }
  size_t Asked() const {
    const std::string sent = swarm.Sent(id);
    size_t count = 0;
    for (size_t at = sent.find("measure_speed"); at != std::string::npos;
         at = sent.find("measure_speed", at + 1))
      ++count;
    return count;
  }
  void Ask(int requests) {
    for (int i = 0; i < requests; ++i) swarm.Submit({7 + i}, 2);
  }
  TestSwarm swarm;
  WorkerId id;
};

TEST(CheckAgain, ComesAfterARequestWithRowsThatAreKnown) {
  Serving serving;
  serving.swarm.ClearLog();
  serving.Ask(1);
  EXPECT_EQ(serving.Asked(), 1u);
  const auto asked =
      serving.swarm.Last(serving.id, wire::pb::ServerMessage::kMeasureSpeed).measure_speed();
  EXPECT_EQ(asked.probes_size(), 1);
  EXPECT_EQ(asked.ranges_size(), 0);
  EXPECT_EQ(serving.Check(), "passed");
  EXPECT_EQ(serving.swarm.Sent(1), "") << "nobody else has to compute anything";
  // One that does nothing is not asked.
  serving.swarm.Advance(Seconds(100));
  EXPECT_EQ(serving.Asked(), 1u);
  serving.Ask(3);
  EXPECT_EQ(serving.Asked(), 4u);
}

TEST(CheckAgain, WhoFailsItIsOutWithinThreeRequests) {
  Serving serving;
  serving.swarm.worker(serving.id).wrong_rows = true;
  serving.swarm.ClearLog();
  serving.Ask(3);
  EXPECT_EQ(serving.Check(), "failed");
  EXPECT_FALSE(serving.Serves());
  EXPECT_THAT(serving.Problem(), HasSubstr("are not those of worker 1"));
  size_t warnings = 0;
  for (const Action& action : serving.swarm.log())
    warnings += std::holds_alternative<Warn>(action) ? 1 : 0;
  EXPECT_EQ(warnings, 1u);
  serving.swarm.Advance(Seconds(700));
  EXPECT_FALSE(serving.Serves()) << "also later";
  EXPECT_EQ(serving.swarm.Tokens(serving.swarm.Submit({70}, 3)), Counting(71, 3));
}

TEST(CheckAgain, NobodyGoesOnFromWhatItHasComputed) {
  CoreOptions options = TestOptions();
  options.session_count = 8;
  Serving serving(options);
  TestSwarm& swarm = serving.swarm;
  swarm.Submit(Counting(100, 30), 2);
  swarm.worker(serving.id).wrong_rows = true;
  swarm.ClearLog();
  serving.Ask(2);
  ASSERT_EQ(serving.Check(), "failed");
  const auto gone =
      swarm.Last(1, wire::pb::ServerMessage::kInvalidateSessions).invalidate_sessions();
  EXPECT_THAT(gone.sessions(), testing::Contains(1u));
  const RequestId again = swarm.Submit(Counting(100, 34), 2);
  EXPECT_EQ(swarm.Tokens(again), Counting(134, 2));
}

TEST(CheckAgain, WhoWasToldSomethingIsToldSoAndOthersAreAnsweredOnceMore) {
  CoreOptions options = TestOptions();
  options.timeouts.check_again = Milliseconds(500);
  Serving serving(options);
  TestSwarm& swarm = serving.swarm;
  serving.Ask(2);
  ASSERT_EQ(serving.Check(), "passed");
  swarm.worker(serving.id).answer_steps = false;
  const RequestId told = swarm.Submit(Counting(100, 5), 10);
  swarm.AnswerStep(serving.id);
  ASSERT_EQ(swarm.Tokens(told).size(), 1u);
  const RequestId untold = swarm.Submit(Counting(200, 5), 3);
  swarm.worker(serving.id).wrong_rows = true;
  swarm.Advance(Milliseconds(1500));
  ASSERT_EQ(serving.Check(), "failed");
  ASSERT_THAT(swarm.Ends(told), SizeIs(1));
  ASSERT_TRUE(swarm.Ends(told)[0].error.has_value());
  EXPECT_THAT(swarm.Ends(told)[0].error->message(),
              HasSubstr("computed a part of this answer and turned out to be wrong"));
  EXPECT_EQ(swarm.Tokens(untold), Counting(205, 3));
  ASSERT_THAT(swarm.Ends(untold), SizeIs(1));
  EXPECT_FALSE(swarm.Ends(untold)[0].error.has_value());
}

// Nobody was told a part of an embedding: its rows come once more, from the first.
TEST(CheckAgain, RowsOfAnEmbeddingComeOnceMore) {
  CoreOptions options = TestOptions();
  options.model.embeds = true;
  options.timeouts.check_again = Milliseconds(500);
  options.prefill_chunk_rows = 4;
  Serving serving(options);
  TestSwarm& swarm = serving.swarm;
  const auto ask = [&](RequestId id, std::vector<int32_t> prompt) {
    Request request;
    request.id = id;
    request.prompt_ids = std::move(prompt);
    request.sampling.temperature = 0;
    request.want_logits = true;
    swarm.Submit(request);
  };
  ask(1, {1, 2});
  ASSERT_EQ(serving.Check(), "passed");
  swarm.worker(serving.id).answer_steps = false;
  ask(2, Counting(100, 12));
  swarm.AnswerStep(serving.id);
  swarm.worker(serving.id).wrong_rows = true;
  swarm.Advance(Milliseconds(1500));
  ASSERT_EQ(serving.Check(), "failed");
  std::vector<uint32_t> first;
  for (const Action& action : swarm.log())
    if (const auto* rows = std::get_if<EmitLogits>(&action); rows && rows->request == 2)
      first.push_back(rows->first_position);
  EXPECT_EQ(std::ranges::count(first, 0u), 2) << "all of them came again";
  ASSERT_THAT(swarm.Ends(2), SizeIs(1));
  EXPECT_FALSE(swarm.Ends(2)[0].error.has_value());
}

// It was busy: the answer that comes at last is no offence.
TEST(CheckAgain, ALateAnswerIsNoFailure) {
  Serving serving;
  TestSwarm& swarm = serving.swarm;
  swarm.worker(serving.id).answer_measure = false;
  serving.Ask(2);
  swarm.Advance(Seconds(31));
  EXPECT_THAT(serving.Problem(), IsEmpty());
  EXPECT_TRUE(serving.Serves());
  // Whatever it is: another one was asked for since, and is answered next.
  wire::pb::WorkerMessage late;
  late.mutable_measured();
  swarm.Control(serving.id, late);
  EXPECT_THAT(swarm.CloseReasons(serving.id), IsEmpty());
  EXPECT_EQ(serving.Check(), "passed");
}

// Nothing was seen to be wrong: who was told something is answered to the end, by another one.
TEST(CheckAgain, WhoNeverAnswersHasFailed) {
  Serving serving;
  TestSwarm& swarm = serving.swarm;
  swarm.worker(serving.id).answer_measure = false;
  serving.Ask(2);
  swarm.Advance(Seconds(80));
  EXPECT_EQ(serving.Check(), "passed");
  swarm.worker(serving.id).answer_steps = false;
  swarm.Advance(Seconds(9));
  const RequestId told = swarm.Submit(Counting(100, 5), 10);
  swarm.AnswerStep(serving.id);
  ASSERT_EQ(swarm.Tokens(told).size(), 1u);
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.Tokens(told), Counting(105, 10));
  EXPECT_EQ(serving.Check(), "failed");
  EXPECT_THAT(serving.Problem(), HasSubstr("has not answered 3 checks"));
  EXPECT_FALSE(serving.Serves());
}

// It says that it cannot: as good as no answer. A moment later it could not either.
TEST(CheckAgain, WhoRefusesIsAskedAfterThreeRequests) {
  Serving serving;
  TestSwarm& swarm = serving.swarm;
  swarm.worker(serving.id).answer_measure = false;
  swarm.ClearLog();
  for (size_t i = 1; i <= 3; ++i) {
    EXPECT_EQ(serving.Check(), "passed");
    serving.Ask(1);
    EXPECT_EQ(serving.Asked(), i);
    swarm.Control(serving.id, swarm.Failed(BindingId(0), ErrorCode::kUnavailable));
    swarm.Advance(Seconds(25));
    EXPECT_EQ(serving.Asked(), i);
  }
  EXPECT_EQ(serving.Asked(), 3u);
  EXPECT_EQ(serving.Check(), "failed");
}

// Two devices that are each full run the halves. The owner's third one stands by with the half that
// is not in question, and has no room beside it for a layer to compare with.
TEST(CheckAgain, OneThatStandsByMakesRoomForRowsToCompareWith) {
  TestSwarm swarm;
  swarm.hold_plans = true;
  TestWorker stranger = Half();
  stranger.trusted = false;
  stranger.address = "10.0.0.7";
  const WorkerId own = swarm.JoinTimed(Half()), liar = swarm.JoinTimed(stranger);
  swarm.AnswerPlan({{own, {0, 3}}, {liar, {3, 6}}});
  swarm.Advance(Seconds(1));
  const auto check = [&] { return std::string(swarm.picture().workers.at(1).check); };
  ASSERT_EQ(check(), "passed");
  TestWorker spare = Half();
  spare.run_us = 5000;
  const WorkerId third = swarm.JoinTimed(spare);
  swarm.hold_plans = false;
  swarm.AnswerNoPlan();
  swarm.Advance(Seconds(1));
  EXPECT_THAT(swarm.Sent(third), HasSubstr("prepare_stage"));
  swarm.ClearLog();
  swarm.worker(liar).wrong_rows = true;
  for (int i = 0; i < 3; ++i) {
    swarm.Submit({7 + i}, 2);
    swarm.Advance(Seconds(1));
  }
  EXPECT_EQ(check(), "failed");
  EXPECT_EQ(
      swarm.Sent(third),
      "release measure_speed release prepare_stage invalidate_sessions release prepare_stage");
}

}  // namespace
}  // namespace weft::swarm
