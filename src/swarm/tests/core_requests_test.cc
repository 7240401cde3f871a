// Requests: admission, limits, cancelling in every state, chunks and shared frames, sampling,
// logits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "swarm/tests/core_testing.h"

namespace weft::swarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Request Greedy(RequestId id, std::vector<int32_t> prompt, uint32_t max_tokens) {
  Request request;
  request.id = id;
  request.prompt_ids = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  return request;
}

// The error that a request ends with at once; "" when it is accepted.
std::string ErrorOf(Request request) {
  TestSwarm swarm;
  request.id = 1;
  swarm.Submit(std::move(request));
  const auto ends = swarm.Ends(1);
  if (ends.empty()) return "";
  EXPECT_EQ(ends[0].reason, FinishReason::kError);
  return std::string(ErrorCodeName(ends[0].error->code())) + ": " + ends[0].error->message();
}

TEST(Submit, BadRequestsAreRefusedInASentence) {
  EXPECT_EQ(ErrorOf(Greedy(1, {1}, 1)), "");
  EXPECT_THAT(ErrorOf(Greedy(1, {}, 1)), HasSubstr("prompt is empty"));
  EXPECT_EQ(ErrorOf(Greedy(1, Counting(0, 65), 1)),
            "limit_exceeded: The conversation has 65 tokens; this server's context is 64. Start a "
            "new chat, or restart the server with a larger --context.");
  EXPECT_EQ(ErrorOf(Greedy(1, Counting(0, 64), 1)), "");
  EXPECT_THAT(ErrorOf(Greedy(1, {1000}, 1)), HasSubstr("token 1000, expected 0 to 999"));
  EXPECT_THAT(ErrorOf(Greedy(1, {-1}, 1)), HasSubstr("token -1"));
  EXPECT_THAT(ErrorOf(Greedy(1, {1}, 0)), HasSubstr("max_tokens is 0"));
  Request request = Greedy(1, {1}, 1);
  request.top_logprobs = 21;
  EXPECT_THAT(ErrorOf(request), HasSubstr("top_logprobs is 21"));
  request = Greedy(1, {1}, 1);
  request.sampling.temperature = -1;
  EXPECT_THAT(ErrorOf(request), HasSubstr("temperature"));
}

TEST(Submit, WaitsWhileDownAndIsServedInOrder) {
  TestSwarm swarm;
  const RequestId first = swarm.Submit({1}, 2), second = swarm.Submit({5}, 2);
  EXPECT_EQ(swarm.picture().queued_requests, 2u);
  swarm.Advance(Seconds(100));
  EXPECT_THAT(swarm.Ends(first), IsEmpty());
  swarm.BringUp(1);
  EXPECT_THAT(swarm.Tokens(first), ElementsAre(2, 3));
  EXPECT_THAT(swarm.Tokens(second), ElementsAre(6, 7));
}

TEST(Submit, AFullQueueRefuses) {
  TestSwarm swarm;  // two sessions, a queue of three
  swarm.BringUp(1, Silent());
  std::vector<RequestId> ids;
  for (int i = 0; i < 6; ++i) ids.push_back(swarm.Submit({10 * i}, 3));
  EXPECT_EQ(swarm.picture().active_requests, 2u);
  EXPECT_EQ(swarm.picture().queued_requests, 3u);
  ASSERT_THAT(swarm.Ends(ids[5]), SizeIs(1));
  EXPECT_EQ(swarm.Ends(ids[5])[0].error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(swarm.Ends(ids[5])[0].error->message(), HasSubstr("3 requests are waiting"));
  swarm.worker(1).answer_steps = true;
  while (swarm.unanswered_steps(1) > 0) swarm.AnswerStep(1);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(swarm.Tokens(ids[static_cast<size_t>(i)]), Counting(10 * i + 1, 3));
    EXPECT_THAT(swarm.Ends(ids[static_cast<size_t>(i)]), SizeIs(1));
  }
}

TEST(Submit, TheContextCutsTheAnswer) {
  TestSwarm swarm;
  swarm.BringUp(1);
  const RequestId request = swarm.Submit(Counting(0, 60), 100);
  // Tokens 60 .. 64: the last one needs no place of its own.
  EXPECT_EQ(swarm.Tokens(request), Counting(60, 5));
  EXPECT_EQ(swarm.Ends(request)[0].reason, FinishReason::kLength);
  const RequestId full = swarm.Submit(Counting(0, 64), 100);
  EXPECT_EQ(swarm.Tokens(full), Counting(64, 1));
}

TEST(Submit, StopTokensEndTheAnswerAndAreNotEmitted) {
  TestSwarm swarm;
  swarm.BringUp(1);
  Request request = Greedy(1, {1}, 50);
  request.stop_ids = {100, 5};
  swarm.Submit(request);
  EXPECT_THAT(swarm.Tokens(1), ElementsAre(2, 3, 4));
  EXPECT_EQ(swarm.Ends(1)[0].reason, FinishReason::kStop);
  EXPECT_EQ(swarm.Ends(1)[0].generated_tokens, 3u);
}

TEST(Cancel, InEveryState) {
  // Waiting while down.
  TestSwarm swarm;
  const RequestId waiting = swarm.Submit({1}, 2);
  swarm.Cancel(waiting);
  ASSERT_THAT(swarm.Ends(waiting), SizeIs(1));
  EXPECT_EQ(swarm.Ends(waiting)[0].reason, FinishReason::kCancelled);
  // In the prompt, and again after it.
  swarm.BringUp(1, Silent());
  const RequestId prompt = swarm.Submit(Counting(0, 30), 5);
  swarm.Cancel(prompt);
  EXPECT_THAT(swarm.Ends(prompt), SizeIs(1));
  swarm.Cancel(prompt);
  EXPECT_THAT(swarm.Ends(prompt), SizeIs(1));
  while (swarm.unanswered_steps(1) > 0) swarm.AnswerStep(1);
  EXPECT_THAT(swarm.Tokens(prompt), IsEmpty());
  // In the answer.
  const RequestId answer = swarm.Submit({1, 2}, 50);
  for (int i = 0; i < 4; ++i) swarm.AnswerStep(1);
  swarm.Cancel(answer);
  EXPECT_EQ(swarm.Ends(answer)[0].generated_tokens, 4u);
  swarm.AnswerStep(1);
  EXPECT_THAT(swarm.Tokens(answer), ElementsAre(3, 4, 5, 6));
  EXPECT_EQ(swarm.unanswered_steps(1), 0u);
  // While its worker is gone.
  const RequestId orphan = swarm.Submit({1, 2}, 50);
  swarm.Lose(1);
  swarm.Cancel(orphan);
  EXPECT_THAT(swarm.Ends(orphan), SizeIs(1));
  // Of a request that never was.
  swarm.Cancel(999);
  EXPECT_EQ(swarm.picture().active_requests + swarm.picture().queued_requests, 0u);
}

TEST(Prefill, ChunksFollowEachOtherThroughThePipeline) {
  TestSwarm swarm;
  TestWorker half = Silent();
  half.memory_bytes = 3'500'000;
  swarm.BringUp(2, half);
  const WorkerId front = swarm.picture().stages[0].worker, back = swarm.picture().stages[1].worker;
  const RequestId request = swarm.Submit(Counting(0, 30), 1);
  // Chunks of 8 rows, two in flight at a worker.
  EXPECT_EQ(swarm.unanswered_steps(front), 2u);
  swarm.AnswerStep(front);
  EXPECT_EQ(swarm.unanswered_steps(front), 2u);
  EXPECT_EQ(swarm.unanswered_steps(back), 1u);
  swarm.AnswerStep(front);
  EXPECT_EQ(swarm.unanswered_steps(back), 2u);
  const wire::Frame chunk = wire::DecodeFrame(swarm.ResultOf(back)).value();
  EXPECT_EQ(chunk.runs[0].count, 8);
  EXPECT_EQ(chunk.runs[0].output,
            wire::OutputKind::kNone);  // only the last row is asked for a token
  while (swarm.Ends(request).empty()) {
    if (swarm.unanswered_steps(back) > 0)
      swarm.AnswerStep(back);
    else
      swarm.AnswerStep(front);
  }
  EXPECT_EQ(swarm.Tokens(request), Counting(30, 1));
}

TEST(Progress, TellsThePlaceInTheQueueAndThePartOfThePrompt) {
  TestSwarm swarm;
  const auto said = [&](RequestId id) {
    const auto progress = swarm.core().progress(id);
    if (!progress) return std::string("over");
    if (progress->waiting) return std::to_string(progress->requests_ahead) + " ahead";
    return std::to_string(progress->prompt_done) + " of " + std::to_string(progress->prompt_tokens);
  };
  const RequestId first = swarm.Submit(Counting(100, 40), 2);
  EXPECT_EQ(said(first), "0 ahead");
  TestWorker half = Silent();
  half.memory_bytes = 3'500'000;
  swarm.BringUp(2, half);
  const WorkerId back = swarm.picture().stages[1].worker;
  const WorkerId front = swarm.picture().stages[0].worker;
  // Two sessions: the others wait, in the order in which they came.
  const RequestId second = swarm.Submit(Counting(300, 20), 2);
  const RequestId third = swarm.Submit({1}, 2), fourth = swarm.Submit({2}, 2);
  EXPECT_EQ(said(third), "0 ahead");
  EXPECT_EQ(said(fourth), "1 ahead");
  swarm.Cancel(third);
  EXPECT_EQ(said(third), "over");
  EXPECT_EQ(said(fourth), "0 ahead");
  EXPECT_EQ(said(first), "0 of 40");
  uint32_t done = 0;
  for (int i = 0; i < 100 && swarm.Tokens(first).empty(); ++i) {
    const auto progress = swarm.core().progress(first);
    ASSERT_TRUE(progress);
    EXPECT_GE(progress->prompt_done, done);
    EXPECT_LE(progress->prompt_done, 40u);
    done = progress->prompt_done;
    swarm.AnswerStep(swarm.unanswered_steps(back) > 0 ? back : front);
  }
  EXPECT_GT(done, 0u);  // it was seen on its way
  EXPECT_LT(done, 40u);
  EXPECT_EQ(said(first), "40 of 40");
  EXPECT_EQ(said(second).substr(2), " of 20");
  EXPECT_EQ(said(99), "over");
}

TEST(Prefill, ASlowLinkGetsSmallerChunks) {
  TestSwarm swarm;
  TestWorker half = Silent();
  half.memory_bytes = 3'500'000;
  half.bytes_per_s = 250;  // 100 ms are 25 bytes: three rows of four f16
  CoreOptions options = TestOptions();
  swarm.Join(half);
  swarm.Join(half);
  swarm.Advance(Milliseconds(300));
  ASSERT_EQ(swarm.picture().state, SwarmState::kUp);
  swarm.Submit(Counting(0, 30), 1);
  const WorkerId front = swarm.picture().stages[0].worker;
  EXPECT_EQ(wire::DecodeFrame(swarm.ResultOf(front)).value().runs[0].count, 3);
}

TEST(Batching, SessionsThatWaitTogetherShareAFrame) {
  CoreOptions options = TestOptions();
  options.session_count = 5;
  options.queue_limit = 10;
  TestSwarm swarm(options);
  swarm.BringUp(1, Silent());
  std::vector<RequestId> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(swarm.Submit({100 * i}, 8));
  swarm.AnswerStep(1);
  swarm.AnswerStep(1);
  EXPECT_THAT(wire::DecodeFrame(swarm.ResultOf(1)).value().runs, SizeIs(5));
  while (swarm.unanswered_steps(1) > 0) swarm.AnswerStep(1);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(swarm.Tokens(ids[static_cast<size_t>(i)]), Counting(100 * i + 1, 8));
}

TEST(Batching, OnnxWorkersGetOneRunAFrame) {
  CoreOptions options = TestOptions();
  options.session_count = 5;
  options.queue_limit = 10;
  TestSwarm swarm(options);
  TestWorker worker = Silent();
  worker.kind = "web";
  worker.engine = "ort-webgpu";
  worker.needs_onnx = true;
  swarm.BringUp(1, worker);
  std::vector<RequestId> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(swarm.Submit({100 * i}, 8));
  while (swarm.unanswered_steps(1) > 0) {
    EXPECT_THAT(wire::DecodeFrame(swarm.ResultOf(1)).value().runs, SizeIs(1));
    swarm.AnswerStep(1);
  }
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(swarm.Tokens(ids[static_cast<size_t>(i)]), Counting(100 * i + 1, 8));
}

TEST(Sampling, AsksForCandidatesOnlyWhereTheyAreNeeded) {
  const auto output_of = [](const std::function<void(Request&)>& change) {
    TestSwarm swarm;
    swarm.BringUp(1, Silent());
    Request request = Greedy(1, {1}, 1);
    change(request);
    swarm.Submit(request);
    const wire::Run run = wire::DecodeFrame(swarm.ResultOf(1)).value().runs[0];
    return std::pair(run.output, run.candidate_count);
  };
  using enum wire::OutputKind;
  EXPECT_EQ(output_of([](Request&) {}), std::pair(kArgmax, uint16_t{0}));
  EXPECT_EQ(output_of([](Request& r) { r.sampling.temperature = 1; }),
            std::pair(kCandidates, uint16_t{64}));
  EXPECT_EQ(output_of([](Request& r) { r.want_logprobs = true; }),
            std::pair(kCandidates, uint16_t{64}));
  EXPECT_EQ(output_of([](Request& r) { r.top_logprobs = 5; }),
            std::pair(kCandidates, uint16_t{64}));
  EXPECT_EQ(output_of([](Request& r) {
              r.sampling.temperature = 1;
              r.sampling.repetition_penalty = 1.5f;
            }),
            std::pair(kCandidates, uint16_t{64}));
  // What only the stage can tell of penalised logits.
  EXPECT_EQ(output_of([](Request& r) { r.sampling.repetition_penalty = 1.5f; }),
            std::pair(kDraw, uint16_t{0}));
  EXPECT_EQ(output_of([](Request& r) {
              r.sampling.temperature = 1;
              r.sampling.logit_bias = {{3, 1}};
              r.top_logprobs = 4;
            }),
            std::pair(kDraw, uint16_t{4}));
  EXPECT_EQ(output_of([](Request& r) { r.want_logits = true; }), std::pair(kLogits, uint16_t{0}));
}

TEST(Sampling, LogprobsComeFromTheWholeVocabulary) {
  TestSwarm swarm;
  swarm.BringUp(1);
  Request request = Greedy(1, {7}, 1);
  request.want_logprobs = true;
  request.top_logprobs = 3;
  swarm.Submit(request);
  for (const Action& action : swarm.log())
    if (const auto* token = std::get_if<EmitToken>(&action)) {
      // The test model gives logits 10, 9, 8, ... and logsumexp 10.
      EXPECT_EQ(token->token_id, 8);
      EXPECT_FLOAT_EQ(token->logprob, 0);
      EXPECT_FLOAT_EQ(token->margin, 1);
      ASSERT_THAT(token->top, SizeIs(3));
      EXPECT_EQ(token->top[2].token_id, 10);
      EXPECT_FLOAT_EQ(token->top[2].logprob, -2);
    }
  EXPECT_THAT(swarm.Tokens(1), SizeIs(1));
}

std::vector<wire::pb::Sampling> SamplingTold(const TestSwarm& swarm, WorkerId worker) {
  std::vector<wire::pb::Sampling> told;
  for (const Action& action : swarm.log())
    if (const auto* control = std::get_if<SendControl>(&action);
        control && control->worker == worker && control->message.has_sampling())
      told.push_back(control->message.sampling());
  return told;
}

std::vector<int32_t> Told(const wire::pb::Sampling& sampling) {
  return {sampling.tokens().begin(), sampling.tokens().end()};
}

TEST(Sampling, TheLastStageIsToldOnceHowAGenerationSamples) {
  TestSwarm swarm;
  TestWorker half;
  half.memory_bytes = 3'500'000;
  swarm.BringUp(2, half);
  Request request = Greedy(1, {7}, 5);
  request.sampling.temperature = 1.5f;
  request.sampling.top_p = 0.5f;
  request.sampling.seed = 1ull << 63;
  swarm.Submit(request);
  EXPECT_THAT(swarm.Tokens(1), SizeIs(5));
  const auto last = static_cast<WorkerId>(swarm.picture().stages[1].worker);
  const auto first = static_cast<WorkerId>(swarm.picture().stages[0].worker);
  EXPECT_THAT(SamplingTold(swarm, first), IsEmpty());
  const auto told = SamplingTold(swarm, last);
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].params().temperature(), 1.5f);
  EXPECT_EQ(told[0].params().top_p(), 0.5f);
  EXPECT_EQ(told[0].params().repetition_penalty(), 1);
  EXPECT_EQ(told[0].params().seed(), 1ull << 63);
  EXPECT_EQ(told[0].tokens_size(), 0);
  // Greedy requests say nothing.
  swarm.ClearLog();
  swarm.Submit({1, 2}, 3);
  EXPECT_THAT(SamplingTold(swarm, last), IsEmpty());
}

TEST(Sampling, PenaltiesBringTheTokensAndThenEachNewOne) {
  TestSwarm swarm;
  swarm.BringUp(1);
  Request request = Greedy(1, {7, 8, 8}, 3);
  request.sampling.temperature = 0;
  request.sampling.frequency_penalty = 0.5f;
  request.sampling.logit_bias = {{5, -100}};
  swarm.Submit(request);
  EXPECT_EQ(swarm.Tokens(1), Counting(9, 3));
  const auto told = SamplingTold(swarm, 1);
  ASSERT_THAT(told, SizeIs(3));
  EXPECT_EQ(Told(told[0]), (std::vector<int32_t>{7, 8, 8}));
  EXPECT_EQ(told[0].params().bias_tokens(0), 5u);
  EXPECT_EQ(told[0].params().biases(0), -100);
  EXPECT_EQ(Told(told[1]), std::vector<int32_t>{9});
  EXPECT_FALSE(told[1].has_params());
  EXPECT_EQ(Told(told[2]), std::vector<int32_t>{10});
}

TEST(Sampling, ALongHistoryComesInPieces) {
  CoreOptions options = TestOptions();
  options.context_length = 20'000;
  TestSwarm swarm(options);
  TestWorker large;
  large.memory_bytes = 1'000'000'000;
  swarm.BringUp(1, large);
  Request request = Greedy(1, std::vector<int32_t>(17'000, 999), 1);
  request.sampling.presence_penalty = 1;
  swarm.Submit(request);
  const auto told = SamplingTold(swarm, 1);
  ASSERT_THAT(told, SizeIs(3));
  int count = 0;
  for (const auto& sampling : told) {
    EXPECT_EQ(sampling.has_params(), count == 0);
    EXPECT_LT(sampling.ByteSizeLong(), wire::kMaxControlBytes);
    count += sampling.tokens_size();
  }
  EXPECT_EQ(count, 17'000);
}

TEST(Sampling, AfterALossTheStageIsToldAgain) {
  TestSwarm swarm;
  swarm.BringUp(1, Silent());
  Request request = Greedy(1, {7}, 4);
  request.sampling.presence_penalty = 1;
  swarm.Submit(request);
  swarm.AnswerStep(1);
  swarm.AnswerStep(1);
  swarm.FailStep(1, ErrorCode::kUnavailable, "hiccup");
  // Told as {7}, {8}, {9}, and after the failure all at once for a new generation.
  auto told = SamplingTold(swarm, 1);
  ASSERT_THAT(told, SizeIs(4));
  EXPECT_EQ(Told(told[3]), (std::vector<int32_t>{7, 8, 9}));
  EXPECT_TRUE(told[3].has_params());
  EXPECT_GT(told[3].generation(), told[2].generation());
  swarm.Lose(1);
  swarm.BringUp(1);
  EXPECT_EQ(swarm.Tokens(1), Counting(8, 4));
  told = SamplingTold(swarm, 2);
  ASSERT_THAT(told, SizeIs(2));
  EXPECT_EQ(Told(told[0]), (std::vector<int32_t>{7, 8, 9}));
  EXPECT_EQ(Told(told[1]), std::vector<int32_t>{10});
}

// The kinds of output that the oldest steps ask for while a request is answered.
std::vector<wire::OutputKind> KindsAsked(TestSwarm& swarm, WorkerId worker, int steps) {
  std::vector<wire::OutputKind> kinds;
  for (int i = 0; i < steps && swarm.unanswered_steps(worker) > 0; ++i) {
    kinds.push_back(swarm.step(worker).runs[0].output);
    swarm.AnswerStep(worker);
  }
  return kinds;
}

TEST(Sampling, ADrawInTheTailAsksTheStageToDraw) {
  TestSwarm swarm;
  swarm.BringUp(1, Silent());
  Request request = Greedy(1, {7, 8}, 4);
  request.sampling.temperature = 1;
  request.sampling.seed = 3;
  swarm.Submit(request);
  swarm.tail_mass = 1e9f;
  swarm.AnswerStep(1);
  EXPECT_THAT(swarm.Tokens(1), IsEmpty());
  // The last row again, in a new generation.
  const wire::Run run = swarm.step(1).runs[0];
  EXPECT_EQ(run.output, wire::OutputKind::kDraw);
  EXPECT_EQ(run.first_position, 1u);
  EXPECT_EQ(run.count, 1);
  EXPECT_THAT(SamplingTold(swarm, 1), SizeIs(2));
  using enum wire::OutputKind;
  // Back to candidates after one; where they often fail, the stage draws for a while.
  EXPECT_EQ(KindsAsked(swarm, 1, 5), (std::vector{kDraw, kCandidates, kDraw, kDraw, kDraw}));
  EXPECT_EQ(swarm.Tokens(1), Counting(9, 4));
}

TEST(Sampling, CandidatesAreTriedAgainWhenTheTailWasRareForAWhile) {
  TestSwarm swarm;
  swarm.BringUp(1, Silent());
  Request request = Greedy(1, {7}, 40);
  request.sampling.temperature = 1;
  swarm.Submit(request);
  swarm.tail_mass = 1e9f;
  KindsAsked(swarm, 1, 4);
  swarm.tail_mass = 0;
  const auto kinds = KindsAsked(swarm, 1, 60);
  const auto candidates = std::count(kinds.begin(), kinds.end(), wire::OutputKind::kCandidates);
  EXPECT_GT(candidates, 20);
  EXPECT_THAT(swarm.Tokens(1), SizeIs(40));
}

TEST(Sampling, AStageThatDiesBeforeItsDrawIsReplaced) {
  TestSwarm swarm;
  swarm.BringUp(1, Silent());
  Request request = Greedy(1, {7, 8}, 2);
  request.sampling.temperature = 1;
  swarm.Submit(request);
  swarm.tail_mass = 1e9f;
  swarm.AnswerStep(1);
  EXPECT_EQ(swarm.step(1).runs[0].output, wire::OutputKind::kDraw);
  swarm.Lose(1);
  swarm.BringUp(1);
  EXPECT_EQ(swarm.Tokens(1), Counting(9, 2));
  ASSERT_THAT(swarm.Ends(1), SizeIs(1));
  EXPECT_EQ(swarm.Ends(1)[0].reason, FinishReason::kLength);
}

TEST(Sampling, ARequestMayBeCancelledBeforeItsDraw) {
  TestSwarm swarm;
  swarm.BringUp(1, Silent());
  Request request = Greedy(1, {7, 8}, 2);
  request.sampling.temperature = 1;
  swarm.Submit(request);
  swarm.tail_mass = 1e9f;
  swarm.AnswerStep(1);
  swarm.Cancel(1);
  swarm.AnswerStep(1);
  EXPECT_THAT(swarm.Tokens(1), IsEmpty());
  ASSERT_THAT(swarm.Ends(1), SizeIs(1));
  EXPECT_EQ(swarm.Ends(1)[0].reason, FinishReason::kCancelled);
}

TEST(Sampling, DrawsReportRawLogprobs) {
  TestSwarm swarm;
  swarm.BringUp(1);
  Request request = Greedy(1, {7}, 1);
  request.sampling.logit_bias = {{8, 50}};
  request.want_logprobs = true;
  request.top_logprobs = 2;
  swarm.Submit(request);
  for (const Action& action : swarm.log())
    if (const auto* token = std::get_if<EmitToken>(&action)) {
      EXPECT_EQ(token->token_id, 8);
      EXPECT_FLOAT_EQ(token->logprob, -1);  // logit 9, logsumexp 10
      ASSERT_THAT(token->top, SizeIs(2));
      EXPECT_EQ(token->top[0].token_id, 9);
      EXPECT_FLOAT_EQ(token->top[1].logprob, -1);
    }
  EXPECT_THAT(swarm.Tokens(1), SizeIs(1));
}

TEST(Sampling, AStopOfTheSeedReplaysTheSameTokensAfterALoss) {
  std::vector<std::vector<int32_t>> answers;
  for (const bool loss : {false, true}) {
    TestSwarm swarm;
    swarm.BringUp(1, Silent());
    Request request = Greedy(1, {7}, 12);
    request.sampling.temperature = 1.5f;
    request.sampling.seed = 99;
    swarm.Submit(request);
    for (int i = 0; i < 6 && swarm.unanswered_steps(1) > 0; ++i) swarm.AnswerStep(1);
    if (loss) {
      swarm.Lose(1);
      swarm.BringUp(1);
    } else {
      while (swarm.unanswered_steps(1) > 0) swarm.AnswerStep(1);
    }
    answers.push_back(swarm.Tokens(1));
  }
  EXPECT_THAT(answers[0], SizeIs(12));
  EXPECT_EQ(answers[0], answers[1]);
}

TEST(Logits, EveryPromptRowComesOnceInOrder) {
  TestSwarm swarm;
  TestWorker half;
  half.memory_bytes = 3'500'000;
  swarm.BringUp(2, half);
  Request request = Greedy(1, Counting(100, 20), 3);
  request.want_logits = true;
  swarm.Submit(request);
  uint32_t next = 0;
  for (const Action& action : swarm.log())
    if (const auto* logits = std::get_if<EmitLogits>(&action)) {
      EXPECT_EQ(logits->first_position, next);
      ASSERT_EQ(logits->logits.byte_count(), logits->rows * 1000u * 4u);
      for (uint32_t i = 0; i < logits->rows; ++i) {
        const uint8_t* row = logits->logits.bytes().data() + i * 4000u;
        EXPECT_EQ(LoadLe<float>(row + 4 * (100 + next + i + 1)), 1.0f);
        EXPECT_EQ(LoadLe<float>(row + 4 * (100 + next + i)), 0.0f);
      }
      next += logits->rows;
    }
  EXPECT_EQ(next, 20u);
  EXPECT_EQ(swarm.Tokens(1), Counting(120, 3));
}

TEST(Logits, OnlyLogitsAndNoTokens) {
  TestSwarm swarm;
  swarm.BringUp(1);
  Request request = Greedy(1, Counting(100, 5), 0);
  request.want_logits = true;
  swarm.Submit(request);
  EXPECT_THAT(swarm.Tokens(1), IsEmpty());
  ASSERT_THAT(swarm.Ends(1), SizeIs(1));
  EXPECT_EQ(swarm.Ends(1)[0].reason, FinishReason::kLength);
}

// ---- embeddings ----

CoreOptions EmbeddingOptions() {
  CoreOptions options = TestOptions();
  options.model.embeds = true;
  options.model.hidden_columns = 4;
  return options;
}

Request RowsOf(RequestId id, std::vector<int32_t> prompt, bool last_alone) {
  Request request = Greedy(id, std::move(prompt), 0);
  (last_alone ? request.want_last_row : request.want_logits) = true;
  return request;
}

// First values of the rows that came, by position.
std::map<uint32_t, float> RowsFor(const TestSwarm& swarm, RequestId id) {
  std::map<uint32_t, float> rows;
  for (const Action& action : swarm.log())
    if (const auto* came = std::get_if<EmitLogits>(&action); came && came->request == id) {
      EXPECT_EQ(came->logits.byte_count(), came->rows * 4u * sizeof(float));
      for (uint32_t i = 0; i < came->rows; ++i)
        rows[came->first_position + i] =
            LoadLe<float>(came->logits.bytes().data() + i * 4u * sizeof(float));
    }
  return rows;
}

TEST(EmbeddingRows, AllOrTheLastOneComeAndNothingIsKept) {
  TestSwarm swarm(EmbeddingOptions());
  swarm.BringUp(2, Half());
  swarm.Submit(RowsOf(1, Counting(100, 40), false));
  const auto all = RowsFor(swarm, 1);
  ASSERT_THAT(all, SizeIs(40));
  for (const auto& [position, value] : all) EXPECT_EQ(value, 100.0f + static_cast<float>(position));
  ASSERT_THAT(swarm.Ends(1), SizeIs(1));
  EXPECT_EQ(swarm.Ends(1)[0].reason, FinishReason::kLength);
  EXPECT_EQ(swarm.Ends(1)[0].prompt_tokens, 40u);
  EXPECT_EQ(swarm.Held(1, {0, 3}), 0u) << "the session is gone";
  swarm.Submit(RowsOf(2, Counting(100, 41), true));
  EXPECT_THAT(RowsFor(swarm, 2), ElementsAre(std::pair(40u, 140.0f)));
  EXPECT_EQ(swarm.Ends(2)[0].cached_prompt_tokens, 0u);
  swarm.Submit(RowsOf(3, {7}, true));
  EXPECT_THAT(RowsFor(swarm, 3), ElementsAre(std::pair(0u, 7.0f)));
}

TEST(EmbeddingRows, EveryRowComesOnceWhateverDeviceGoes) {
  for (const bool last_alone : {false, true})
    for (int lost_after = 0; lost_after < 4; ++lost_after) {
      CoreOptions options = EmbeddingOptions();
      options.prefill_chunk_rows = 8;
      TestSwarm swarm(options);
      TestWorker half = Half();
      half.answer_steps = false;
      swarm.BringUp(2, half);
      swarm.Submit(RowsOf(1, Counting(100, 30), last_alone));
      for (int i = 0; i < lost_after; ++i)
        for (const WorkerId id : {WorkerId(1), WorkerId(2)})
          if (swarm.unanswered_steps(id) > 0) swarm.AnswerStep(id);
      swarm.Lose(2);
      swarm.Join(Half());
      swarm.AnswerSteps(1);
      swarm.Advance(Seconds(5));
      const auto rows = RowsFor(swarm, 1);
      ASSERT_EQ(rows.size(), last_alone ? 1u : 30u) << lost_after;
      for (const auto& [position, value] : rows)
        EXPECT_EQ(value, 100.0f + static_cast<float>(position));
      EXPECT_EQ(rows.rbegin()->first, 29u);
      ASSERT_THAT(swarm.Ends(1), SizeIs(1));
    }
}

TEST(EmbeddingRows, TextIsRefusedByName) {
  TestSwarm swarm(EmbeddingOptions());
  swarm.BringUp(1);
  swarm.Submit(Greedy(1, {1, 2}, 5));
  ASSERT_THAT(swarm.Ends(1), SizeIs(1));
  EXPECT_THAT(swarm.Ends(1)[0].error->message(), HasSubstr("makes embeddings and writes no text"));
  Request both = RowsOf(2, {1, 2}, true);
  both.max_tokens = 3;
  swarm.Submit(both);
  EXPECT_THAT(swarm.Ends(2)[0].error->message(), HasSubstr("expected one of the two"));
}

// ---- no token for too long ----

TEST(TokenLimit, EndsWhoWaitsAndWhoIsComputed) {
  CoreOptions options = TestOptions();
  options.session_count = 1;
  TestSwarm swarm(options);
  swarm.BringUp(1, Silent());
  swarm.Submit(Greedy(1, {1}, 5));
  swarm.Advance(Seconds(1));
  swarm.Submit(Greedy(2, {1}, 5));  // waits for the session
  // Its steps are never answered: worker after worker is given up, and the next one comes.
  for (int i = 0; i < 899; ++i) swarm.Advance(Seconds(1));
  EXPECT_THAT(swarm.Ends(2), IsEmpty());
  ASSERT_THAT(swarm.Ends(1), SizeIs(1));
  EXPECT_THAT(swarm.Ends(1)[0].error->message(), HasSubstr("no token came for 900 s"));
  swarm.Advance(Seconds(1));
  ASSERT_THAT(swarm.Ends(2), SizeIs(1));
  EXPECT_EQ(swarm.Ends(2)[0].error->code(), ErrorCode::kUnavailable);
}

TEST(TokenLimit, CountsFromTheLastToken) {
  CoreOptions options = TestOptions();
  options.timeouts.token_limit = Seconds(10);
  options.timeouts.step_deadline_first = options.timeouts.step_deadline_min = Seconds(60);
  TestSwarm swarm(options);
  swarm.BringUp(1, Silent());
  swarm.Submit(Greedy(1, {1}, 5));
  for (int i = 0; i < 3; ++i) {
    swarm.Advance(Seconds(9));
    swarm.AnswerStep(1);
  }
  EXPECT_THAT(swarm.Ends(1), IsEmpty());
  swarm.Advance(Seconds(10));
  ASSERT_THAT(swarm.Ends(1), SizeIs(1));
  EXPECT_EQ(swarm.Tokens(1).size(), 3u);
}

// ---- long prompts ----

// Three stages; every worker answers at once but the last one, where the test sets the pace.
struct SlowLastStage {
  SlowLastStage() : swarm(Options()) {
    TestWorker small;
    small.memory_bytes = 2'500'000;
    swarm.BringUp(3, small);
    last = swarm.picture().stages[2].worker;
    swarm.worker(last).answer_steps = false;
  }
  static CoreOptions Options() {
    CoreOptions options = TestOptions();
    options.context_length = 512;
    return options;
  }
  TestSwarm swarm;
  WorkerId last;
};

TEST(LongPrompt, RowsThatWaitBeforeASlowStageAreBounded) {
  SlowLastStage slow;
  TestSwarm& swarm = slow.swarm;
  const RequestId request = swarm.Submit(std::vector<int32_t>(401, 7), 2);
  uint64_t most = 0;
  for (int i = 0; i < 60 && swarm.unanswered_steps(slow.last) > 0; ++i) {
    most = std::max(most, swarm.core().sizes().waiting_rows);
    swarm.AnswerStep(slow.last);
  }
  EXPECT_THAT(swarm.Tokens(request), ElementsAre(8, 9));
  // Four chunks of 8 rows before each of the two stages behind the first, and one that was sent
  // while there was room for less.
  EXPECT_LE(most, 2u * 5 * 8);
  EXPECT_GE(most, 8u) << "nothing waited: the test does not reach what it is about";
}

TEST(LongPrompt, AnotherConversationWaitsForOneChunkAToken) {
  SlowLastStage slow;
  TestSwarm& swarm = slow.swarm;
  const RequestId chat = swarm.Submit({500}, 30);
  swarm.AnswerStep(slow.last);
  swarm.AnswerStep(slow.last);
  const RequestId prompt = swarm.Submit(std::vector<int32_t>(300, 7), 2);
  size_t chunks = 0, tokens = swarm.Tokens(chat).size(), chunks_in_all = 0;
  while (swarm.Tokens(prompt).empty()) {
    ASSERT_GT(swarm.unanswered_steps(slow.last), 0u);
    const bool is_chunk = swarm.step(slow.last).header.rows > 1;
    chunks += is_chunk;
    chunks_in_all += is_chunk;
    swarm.AnswerStep(slow.last);
    if (swarm.Tokens(chat).size() == tokens) continue;
    EXPECT_LE(chunks, 1u) << "before token " << tokens;
    tokens = swarm.Tokens(chat).size();
    if (tokens < 30) chunks = 0;
  }
  EXPECT_GE(chunks_in_all, 300u / 8) << "the prompt's chunks did not pass";
  EXPECT_THAT(swarm.Tokens(chat), SizeIs(30));
}

}  // namespace
}  // namespace weft::swarm
