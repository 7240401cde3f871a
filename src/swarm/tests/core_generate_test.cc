// Whole-model generation: tokens that come several at a time from one device, and the wish of its
// user to run the whole model there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "swarm/tests/core_testing.h"

namespace weft::swarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using State = wire::WholeModel::State;

TestWorker Tab() {
  TestWorker worker;
  worker.kind = "web";
  worker.makes_tokens = 1;
  return worker;
}

TestWorker HeldTab() {
  TestWorker worker = Tab();
  worker.answer_steps = false;
  return worker;
}

// Takes so many sessions in one batch.
TestWorker HeldBatcher(uint32_t sessions) {
  TestWorker worker = HeldTab();
  worker.makes_tokens = sessions;
  return worker;
}

Request Sampled(RequestId id, std::vector<int32_t> prompt, uint32_t max_tokens) {
  Request request;
  request.id = id;
  request.prompt_ids = std::move(prompt);
  request.max_tokens = max_tokens;
  return request;
}

TEST(Generate, OneDeviceGivesSeveralTokensAFrame) {
  TestSwarm swarm;
  swarm.BringUp(1, HeldTab());
  const RequestId request = swarm.Submit({5, 6, 7}, 10);
  // The prompt without its last token is an ordinary step that asks for nothing.
  ASSERT_EQ(swarm.unanswered_steps(1), 1u);
  EXPECT_THAT(swarm.generates(1), SizeIs(1));
  const wire::Generate& asked = swarm.generates(1).front();
  EXPECT_EQ(asked.position, 2u);
  EXPECT_EQ(asked.token_id, 7);
  EXPECT_EQ(asked.count, 10);
  swarm.AnswerStep(1);
  swarm.TellTokens(1, 4);
  EXPECT_THAT(swarm.Tokens(request), ElementsAre(8, 9, 10, 11));
  swarm.TellTokens(1, 4);
  swarm.TellTokens(1, 4);
  EXPECT_THAT(swarm.Tokens(request), ElementsAre(8, 9, 10, 11, 12, 13, 14, 15, 16, 17));
  ASSERT_THAT(swarm.Ends(request), SizeIs(1));
  EXPECT_EQ(swarm.Ends(request)[0].reason, FinishReason::kLength);
  EXPECT_EQ(swarm.Ends(request)[0].generated_tokens, 10u);
  EXPECT_THAT(swarm.generates(1), IsEmpty());
  // The next turn continues what the device holds: everything but the last token.
  swarm.Submit({5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 3}, 1);
  ASSERT_EQ(swarm.unanswered_steps(1), 1u);
  swarm.AnswerStep(1);
  EXPECT_EQ(swarm.generates(1).front().position, 13u);
}

TEST(Generate, StopTokensEndTheAnswerAndAreNotEmitted) {
  TestSwarm swarm;
  swarm.BringUp(1, Tab());
  Request request = Sampled(1, {5}, 20);
  request.stop_ids = {9};
  swarm.Submit(request);
  EXPECT_THAT(swarm.Tokens(1), ElementsAre(6, 7, 8));
  ASSERT_THAT(swarm.Ends(1), SizeIs(1));
  EXPECT_EQ(swarm.Ends(1)[0].reason, FinishReason::kStop);
}

TEST(Generate, SamplingGoesAlong) {
  TestSwarm swarm;
  swarm.BringUp(1, HeldTab());
  Request request = Sampled(31, {5, 6, 5, 7}, 20);
  request.sampling.temperature = 0.75f;
  request.sampling.top_k = 12;
  request.sampling.frequency_penalty = 0.5f;
  request.sampling.logit_bias = {{3, -2.0f}, {5000, 1.0f}};
  swarm.Submit(request);
  const wire::Generate& asked = swarm.generates(1).front();
  EXPECT_EQ(asked.sampling.temperature, 0.75f);
  EXPECT_EQ(asked.sampling.top_k, 12u);
  EXPECT_EQ(asked.sampling.seed, 31u);  // without a seed the request's number is one
  EXPECT_THAT(asked.sampling.logit_bias, ElementsAre(sampling::TokenBias{3, -2.0f}));
  using Seen = sampling::TokenCount;
  EXPECT_THAT(asked.seen, ElementsAre(Seen{5, 2}, Seen{6, 1}, Seen{7, 1}));
}

TEST(Generate, LogprobsComeTokenByToken) {
  TestSwarm swarm;
  swarm.BringUp(1, Tab());
  Request request = Sampled(1, {5}, 3);
  request.sampling.temperature = 0;
  request.want_logprobs = true;
  swarm.Submit(request);
  EXPECT_THAT(swarm.Tokens(1), ElementsAre(6, 7, 8));
  for (const Action& action : swarm.log()) {
    const auto* data = std::get_if<SendData>(&action);
    if (!data || !wire::IsWholeFrame(data->pieces[0].bytes())) continue;
    const auto frame = wire::DecodeWholeFrame(data->pieces[0].bytes());
    EXPECT_FALSE(std::holds_alternative<wire::Generate>(*frame));
  }
}

TEST(Generate, SeveralRequestsTakeTurns) {
  CoreOptions options = TestOptions();
  options.generate_interval = 2;
  TestSwarm swarm(options);
  swarm.BringUp(1, HeldTab());
  const RequestId first = swarm.Submit({5}, 6), second = swarm.Submit({20}, 6);
  // The first one was alone when it asked.
  EXPECT_EQ(swarm.generates(1)[0].count, 6);
  EXPECT_EQ(swarm.generates(1)[1].count, 2);
  for (int i = 0; i < 3; ++i) swarm.TellTokens(1, 2);
  EXPECT_THAT(swarm.Tokens(first), SizeIs(6));
  swarm.TellTokens(1, 2);
  EXPECT_THAT(swarm.Tokens(second), ElementsAre(21, 22));
  while (!swarm.generates(1).empty()) swarm.TellTokens(1, 2);
  EXPECT_THAT(swarm.Tokens(second), ElementsAre(21, 22, 23, 24, 25, 26));
}

TEST(GenerateBatch, EverySessionHasAPlaceAndIsAnsweredForItself) {
  TestSwarm swarm;
  swarm.BringUp(1, HeldBatcher(8));
  const RequestId first = swarm.Submit({5}, 6), second = swarm.Submit({20}, 6);
  ASSERT_THAT(swarm.generates(1), SizeIs(2));
  EXPECT_EQ(swarm.generates(1)[0].count, 6);
  EXPECT_EQ(swarm.generates(1)[1].count, 6);
  swarm.TellTokens(1, 2, 1);
  swarm.TellTokens(1, 2, 0);
  swarm.TellTokens(1, 4, 1);
  EXPECT_THAT(swarm.Tokens(second), ElementsAre(21, 22, 23, 24, 25, 26));
  EXPECT_THAT(swarm.Tokens(first), ElementsAre(6, 7));
  EXPECT_THAT(swarm.Ends(second), SizeIs(1));
  // Another one takes the place while the first goes on.
  const RequestId third = swarm.Submit({30}, 3);
  ASSERT_THAT(swarm.generates(1), SizeIs(2));
  swarm.TellTokens(1, 3, 1);
  swarm.TellTokens(1, 4, 0);
  EXPECT_THAT(swarm.Tokens(third), ElementsAre(31, 32, 33));
  EXPECT_THAT(swarm.Tokens(first), ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_THAT(swarm.CloseReasons(1), IsEmpty());
  EXPECT_EQ(swarm.core().sizes().frames_in_flight, 0u);
}

// Steps go beside Generates, one chunk of a prompt at a time while somebody decodes.
TEST(GenerateBatch, PromptsPassBetweenBatches) {
  TestSwarm swarm;
  swarm.BringUp(1, HeldBatcher(8));
  const RequestId first = swarm.Submit({5}, 40);
  const RequestId second = swarm.Submit(Counting(20, 30), 4);  // 8 rows a frame
  ASSERT_EQ(swarm.unanswered_steps(1), 1u);
  swarm.TellTokens(1, 2);
  for (int frame = 0; frame < 4; ++frame) {
    ASSERT_EQ(swarm.unanswered_steps(1), 1u) << frame;
    swarm.AnswerStep(1);
    swarm.TellTokens(1, 2);
  }
  ASSERT_THAT(swarm.generates(1), SizeIs(2));
  EXPECT_EQ(swarm.generates(1)[1].position, 29u);
  swarm.TellTokens(1, 4, 1);
  EXPECT_THAT(swarm.Tokens(second), ElementsAre(50, 51, 52, 53));
  EXPECT_THAT(swarm.Tokens(first), SizeIs(10));
}

TEST(GenerateBatch, ThereAreNoMoreThanItsPlaces) {
  CoreOptions options = TestOptions();
  options.session_count = 4;
  TestSwarm swarm(options);
  swarm.BringUp(1, HeldBatcher(2));
  std::vector<RequestId> requests;
  for (int32_t i = 0; i < 4; ++i) requests.push_back(swarm.Submit({10 * i}, 20));
  EXPECT_THAT(swarm.generates(1), SizeIs(2));
  // Where others wait, so much is asked for that the turns are short.
  while (!swarm.generates(1).empty()) {
    EXPECT_LE(swarm.generates(1).size(), 2u);
    EXPECT_LE(swarm.generates(1)[0].count, 64);
    swarm.TellTokens(1, swarm.generates(1)[0].interval);
  }
  for (const RequestId request : requests) EXPECT_THAT(swarm.Tokens(request), SizeIs(20));
}

TEST(GenerateBatch, OneIsStoppedAndTheOthersGoOn) {
  TestSwarm swarm;
  swarm.BringUp(1, HeldBatcher(8));
  const RequestId first = swarm.Submit({5}, 40), second = swarm.Submit({20}, 4);
  swarm.TellTokens(1, 3, 0);
  swarm.Cancel(first);
  EXPECT_EQ(swarm.stops(1), 1u);
  swarm.TellTokens(1, 2, 1);
  swarm.TellTokens(1, 0, 0);
  swarm.TellTokens(1, 2, 0);
  EXPECT_THAT(swarm.Tokens(second), ElementsAre(21, 22, 23, 24));
  EXPECT_THAT(swarm.CloseReasons(1), IsEmpty());
  EXPECT_EQ(swarm.core().sizes().frames_in_flight, 0u);
}

// A batch that fails is told of session by session, and is one failure of the device: it is not put
// aside for it.
TEST(GenerateBatch, AFailedBatchIsOneFailure) {
  CoreOptions options = TestOptions();
  options.session_count = 6;
  TestSwarm swarm(options);
  swarm.BringUp(1, HeldBatcher(8));
  std::vector<RequestId> requests;
  for (int32_t i = 0; i < 6; ++i) requests.push_back(swarm.Submit({10 * i}, 3));
  ASSERT_THAT(swarm.generates(1), SizeIs(6));
  swarm.worker(1).answer_steps = true;
  while (!swarm.generates(1).empty()) swarm.FailGenerate(1);
  swarm.Advance(Seconds(1));
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto base = static_cast<int32_t>(10 * i);
    EXPECT_THAT(swarm.Tokens(requests[i]), ElementsAre(base + 1, base + 2, base + 3));
  }
  EXPECT_THAT(swarm.picture().stages, SizeIs(1));
}

// Its own tokens, or a step that passed, are what a Generate's deadline begins again with.
TEST(GenerateBatch, OneThatIsForgottenIsNoticed) {
  CoreOptions options = TestOptions();
  options.generate_interval = 16;
  TestSwarm swarm(options);
  swarm.BringUp(1, HeldBatcher(8));
  const RequestId first = swarm.Submit({5}, 60), second = swarm.Submit({20}, 60);
  swarm.TellTokens(1, 1, 0);
  swarm.TellTokens(1, 1, 1);
  for (int i = 0; i < 30 && swarm.CloseReasons(1).empty(); ++i) {
    swarm.TellTokens(1, 1, 0);
    swarm.Advance(Seconds(1));
  }
  EXPECT_THAT(swarm.Tokens(first).size(), testing::Gt(1u));
  EXPECT_THAT(swarm.Tokens(second), SizeIs(1));
  ASSERT_THAT(swarm.CloseReasons(1), SizeIs(1));
  EXPECT_THAT(swarm.CloseReasons(1)[0], HasSubstr("did not answer a step"));
}

// The kernels of a batch of two are compiled when it first comes: on a slow machine for seconds.
TEST(GenerateBatch, TheFirstOfASizeMayTakeLong) {
  CoreOptions options = TestOptions();
  options.generate_interval = 16;
  TestSwarm swarm(options);
  swarm.BringUp(1, HeldBatcher(8));
  swarm.Submit({5}, 60);
  swarm.TellTokens(1, 1, 0);
  swarm.TellTokens(1, 1, 0);
  swarm.Submit({20}, 60);
  swarm.Advance(Seconds(25));
  EXPECT_THAT(swarm.CloseReasons(1), IsEmpty());
  swarm.TellTokens(1, 1, 0);
  swarm.TellTokens(1, 1, 1);
  swarm.Advance(Milliseconds(9900));
  EXPECT_THAT(swarm.CloseReasons(1), IsEmpty());
  swarm.Advance(Milliseconds(200));
  EXPECT_THAT(swarm.CloseReasons(1), ElementsAre(HasSubstr("did not answer a step within 10 s")));
}

TEST(Generate, TheFirstStepOfASizeMayTakeLong) {
  TestSwarm swarm;
  swarm.BringUp(1, HeldTab());
  swarm.Submit({5, 6, 7}, 4);
  swarm.AnswerStep(1);
  for (int i = 0; i < 4; ++i) swarm.TellTokens(1, 1);
  swarm.Submit({50, 60, 70, 80, 90, 91, 92, 93, 94}, 4);
  swarm.Advance(Seconds(25));
  EXPECT_THAT(swarm.CloseReasons(1), IsEmpty());
  swarm.AnswerStep(1);
  swarm.Advance(Seconds(11));
  EXPECT_THAT(swarm.CloseReasons(1), ElementsAre(HasSubstr("did not answer a step within 10 s")));
}

TEST(Generate, CancellingStopsTheDevice) {
  TestSwarm swarm;
  swarm.BringUp(1, HeldTab());
  const RequestId request = swarm.Submit({5}, 40);
  swarm.TellTokens(1, 3);
  swarm.Cancel(request);
  EXPECT_EQ(swarm.stops(1), 1u);
  swarm.TellTokens(1, 1);  // was on its way
  EXPECT_THAT(swarm.Tokens(request), ElementsAre(6, 7, 8));
  swarm.TellTokens(1, 0);
  EXPECT_THAT(swarm.CloseReasons(1), IsEmpty());
  EXPECT_EQ(swarm.core().sizes().frames_in_flight, 0u);
}

CoreOptions RecurrentOptions() {
  CoreOptions options = TestOptions();
  options.context_length = 512;
  options.marks = 3;
  for (ModelLayer& layer : options.model.layers) layer.state_bytes = 64;
  return options;
}

TestWorker RecurrentTab() {
  TestWorker worker = HeldBatcher(4);
  worker.keeps_state = worker.states_ahead = true;
  return worker;
}

// A device that holds recurrent layers and cannot go back within them is asked step by step.
TEST(Generate, ARecurrentModelsTokensComeTogetherWhereItsStatesGoAhead) {
  for (const bool ahead : {true, false}) {
    TestSwarm swarm(RecurrentOptions());
    TestWorker tab = RecurrentTab();
    tab.states_ahead = ahead;
    swarm.BringUp(1, tab);
    const RequestId request = swarm.Submit({5, 6, 7}, 4);
    ASSERT_EQ(swarm.unanswered_steps(1), 1u);
    swarm.AnswerStep(1);
    EXPECT_THAT(swarm.generates(1), SizeIs(ahead ? 1 : 0));
    if (ahead) {
      EXPECT_EQ(swarm.unanswered_steps(1), 0u);
      swarm.TellTokens(1, 4);
    } else {
      swarm.AnswerSteps(1);
    }
    EXPECT_THAT(swarm.Tokens(request), ElementsAre(8, 9, 10, 11));
  }
}

// Behind what was told the session stands where the device's does, with no mark needed; one that
// was stopped on its way goes back to a mark.
TEST(Generate, ARecurrentSessionGoesOnBehindItsTokensOrFromAMark) {
  TestSwarm swarm(RecurrentOptions());
  swarm.BringUp(1, RecurrentTab());
  Request first = Sampled(1, Counting(0, 100), 20);
  first.sampling.temperature = 0;
  first.stop_ids = {106};
  swarm.Submit(first);
  // Up to the mark in front of the prompt's last token.
  while (swarm.unanswered_steps(1) > 0) swarm.AnswerStep(1);
  swarm.TellTokens(1, 4);
  swarm.TellTokens(1, 3);  // the stop token ends it
  EXPECT_THAT(swarm.Tokens(1), ElementsAre(100, 101, 102, 103, 104, 105));
  std::vector<int32_t> turn = Counting(0, 106);
  for (int32_t i = 0; i < 5; ++i) turn.push_back(300 + i);
  const RequestId second = swarm.Submit(turn, 40);
  EXPECT_EQ(swarm.step(1).runs[0].first_position, 106u);
  swarm.AnswerStep(1);
  swarm.TellTokens(1, 4);
  swarm.Cancel(second);
  EXPECT_EQ(swarm.stops(1), 1u);
  swarm.TellTokens(1, 4);  // was on its way
  swarm.TellTokens(1, 0);
  turn.resize(105);
  turn.push_back(400);
  swarm.Submit(turn, 4);
  EXPECT_EQ(swarm.step(1).runs[0].first_position, 99u);
  EXPECT_THAT(swarm.CloseReasons(1), IsEmpty());
}

TEST(Generate, AFailureIsRepeatedTokenByToken) {
  TestSwarm swarm;
  swarm.BringUp(1, HeldTab());
  const RequestId request = swarm.Submit({5}, 4);
  swarm.TellTokens(1, 1);
  swarm.worker(1).answer_steps = true;
  swarm.FailGenerate(1);
  EXPECT_THAT(swarm.Tokens(request), ElementsAre(6, 7, 8, 9));
  EXPECT_THAT(swarm.Ends(request), SizeIs(1));
}

TEST(Generate, TokensThatWereNotAskedForCloseTheConnection) {
  const auto close_reason = [](wire::Tokens tokens, bool wrong_sequence) {
    TestSwarm swarm;
    swarm.BringUp(1, HeldTab());
    swarm.Submit({5}, 4);
    tokens.sequence = swarm.generates(1).front().sequence + (wrong_sequence ? 1 : 0);
    tokens.binding = swarm.generates(1).front().binding;
    swarm.Feed(WorkerData{1, Slice(wire::EncodeWholeFrame(tokens))});
    const auto reasons = swarm.CloseReasons(1);
    return reasons.empty() ? std::string() : reasons[0];
  };
  EXPECT_THAT(close_reason({.token_ids = {6}}, true), HasSubstr("expected one of"));
  EXPECT_THAT(close_reason({.token_ids = {1000}}, false), HasSubstr("expected 0 to 999"));
  EXPECT_THAT(close_reason({.token_ids = {1, 2, 3, 4, 5}}, false), HasSubstr("more than asked"));
  EXPECT_THAT(close_reason({.token_ids = {1, 2, 3, 4}}, false), HasSubstr("marked"));
  EXPECT_THAT(close_reason({.last = true}, false), HasSubstr("at least one"));
  EXPECT_EQ(close_reason({.last = true, .token_ids = {1}}, false), "");
}

TEST(RunHere, OnlyDevicesThatCanHoldTheModelAreOffered) {
  TestSwarm swarm;
  swarm.Join(Tab());
  swarm.Join();
  TestWorker small = Tab();
  small.memory_bytes = 3'000'000;
  swarm.Join(small);
  EXPECT_EQ(swarm.told_whole(1), State::kFits);
  EXPECT_EQ(swarm.told_whole(2), std::nullopt);
  EXPECT_EQ(swarm.told_whole(3), State::kTooLarge);
  swarm.AskWhole(3, true);
  EXPECT_EQ(swarm.told_whole(3), State::kTooLarge);
  EXPECT_THAT(swarm.CloseReasons(3), IsEmpty());
}

// A fast machine serves; the slow tab takes over because its user says so, and keeps the model.
TEST(RunHere, ThePlanStaysOnTheDeviceUntilItsUserChangesHisMind) {
  TestSwarm swarm;
  swarm.BringUp(1);
  TestWorker slow = Tab();
  slow.run_us = 100'000;
  slow.takes_time = true;
  swarm.Join(slow);
  swarm.Advance(Seconds(20));
  ASSERT_EQ(swarm.picture().stages[0].worker, WorkerId(1));
  swarm.AskWhole(2, true);
  EXPECT_EQ(swarm.told_whole(2), State::kHere);
  swarm.Advance(Seconds(1));
  ASSERT_THAT(swarm.picture().stages, SizeIs(1));
  EXPECT_EQ(swarm.picture().stages[0].worker, WorkerId(2));
  EXPECT_THAT(swarm.picture().message, HasSubstr("as its user chose"));
  swarm.Advance(Seconds(120));
  EXPECT_EQ(swarm.picture().stages[0].worker, WorkerId(2));
  EXPECT_THAT(swarm.Tokens(swarm.Submit({5}, 5)), ElementsAre(6, 7, 8, 9, 10));
  swarm.AskWhole(2, false);
  EXPECT_EQ(swarm.told_whole(2), State::kFits);
  swarm.Advance(Seconds(120));
  EXPECT_EQ(swarm.picture().stages[0].worker, WorkerId(1));
}

TEST(RunHere, ClosingTheTabLosesNothing) {
  TestSwarm swarm;
  swarm.BringUp(1);
  swarm.Join(HeldTab());
  swarm.Advance(Seconds(20));
  swarm.AskWhole(2, true);
  swarm.Advance(Seconds(1));
  ASSERT_EQ(swarm.picture().stages[0].worker, WorkerId(2));
  const RequestId request = swarm.Submit({5}, 8), waiting = swarm.Submit({30}, 3);
  swarm.TellTokens(2, 3);
  EXPECT_THAT(swarm.Tokens(request), ElementsAre(6, 7, 8));
  swarm.Lose(2);
  swarm.Advance(Seconds(1));
  EXPECT_THAT(swarm.Tokens(request), ElementsAre(6, 7, 8, 9, 10, 11, 12, 13));
  EXPECT_THAT(swarm.Tokens(waiting), ElementsAre(31, 32, 33));
  EXPECT_EQ(swarm.picture().stages[0].worker, WorkerId(1));
  EXPECT_EQ(swarm.Ends(request)[0].reason, FinishReason::kLength);
}

TEST(RunHere, TheLatestWishCounts) {
  TestSwarm swarm;
  swarm.BringUp(2, Tab());
  swarm.AskWhole(1, true);
  swarm.Advance(Seconds(1));
  swarm.AskWhole(2, true);
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.told_whole(1), State::kFits);
  EXPECT_EQ(swarm.told_whole(2), State::kHere);
  EXPECT_EQ(swarm.picture().stages[0].worker, WorkerId(2));
}

TEST(RunHere, ADeviceWithoutTheMemoryAfterAllGivesItBack) {
  TestSwarm swarm;
  swarm.BringUp(1);
  TestWorker tab = Tab();
  tab.answer_prepare = false;
  swarm.Join(tab);
  swarm.Advance(Seconds(20));
  swarm.AskWhole(2, true);
  swarm.Advance(Milliseconds(10));
  wire::pb::WorkerMessage message;
  message.mutable_failed()->set_binding(swarm.Prepared(2).prepared().binding());
  message.mutable_failed()->set_code("out_of_memory");
  swarm.Control(2, message);
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.told_whole(2), State::kTooLarge);
  EXPECT_EQ(swarm.picture().stages[0].worker, WorkerId(1));
  EXPECT_THAT(swarm.Tokens(swarm.Submit({5}, 2)), ElementsAre(6, 7));
}

}  // namespace
}  // namespace weft::swarm
