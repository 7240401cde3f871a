// Requests that go on after a restart, before and after somebody asks for them.
#include "server/resumed_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/cell_records_testing.h"
#include "server/swarm_host.h"

namespace weft::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

swarm::Request SomeRequest() {
  swarm::Request request;
  request.prompt_ids = {1, 2, 3};
  request.salt = "of a key";
  request.max_tokens = 20;
  request.stop_ids = {0, 7};
  request.sampling.temperature = 0.5f;
  request.sampling.top_k = 9;
  request.sampling.top_p = 0.75f;
  request.sampling.min_p = 0.125f;
  request.sampling.repetition_penalty = 1.25f;
  request.sampling.presence_penalty = -1;
  request.sampling.frequency_penalty = 2;
  request.sampling.logit_bias = {{4, -100}, {5, 3.5f}};
  request.sampling.seed = 1ull << 63;
  return request;
}

store::OpenRequest Noted(const std::string& key, std::vector<int32_t> token_ids = {}) {
  store::OpenRequest noted;
  noted.key = key;
  noted.seed = *SomeRequest().sampling.seed;
  noted.request = ToRecord(SomeRequest());
  noted.token_ids = std::move(token_ids);
  return noted;
}

store::FoundCell Found(const std::vector<store::OpenRequest>& requests) {
  store::FoundCell found;
  found.open_requests = requests;
  return found;
}

swarm::CoreOptions Core() {
  swarm::CoreOptions core;
  core.model.name = "tiny";
  core.model.layers.resize(3);
  core.model.hidden_columns = 8;
  core.model.vocabulary = 100;
  return core;
}

class ResumedAnswersTest : public testing::Test {
 protected:
  // What a client hears.
  struct Heard {
    std::vector<int32_t> token_ids;
    std::vector<swarm::FinishRequest> ends;
  };
  static RequestCallbacks Listen(Heard& heard) {
    return {
        .on_token =
            [&heard](const swarm::EmitToken& token) { heard.token_ids.push_back(token.token_id); },
        .on_logits = nullptr,
        .on_finish = [&heard](const swarm::FinishRequest& end) { heard.ends.push_back(end); }};
  }

  net::EventLoop loop_;
  TaskQueue planning_;
  SwarmHost host_{loop_, planning_, Core()};
  RememberedRecords records_;
  RequestLedger ledger_{records_, ""};
  ResumedAnswers answers_{host_, ledger_};
};

TEST(ResumedRequest, IsTheRequestThatWasNoted) {
  const swarm::Request before = SomeRequest();
  const swarm::Request after = FromRecord(Noted("key", {8, 9}));
  EXPECT_EQ(after.prompt_ids, before.prompt_ids);
  EXPECT_THAT(after.answer_ids, ElementsAre(8, 9));
  EXPECT_EQ(after.salt, before.salt);
  EXPECT_EQ(after.max_tokens, before.max_tokens);
  EXPECT_EQ(after.stop_ids, before.stop_ids);
  EXPECT_EQ(after.sampling, before.sampling);
  EXPECT_EQ(after.resume, std::nullopt);
  store::OpenRequest noted = Noted("key", {8, 9});
  noted.session = ToRecord({swarm::SessionId(7), 11, 13});
  EXPECT_EQ(FromRecord(noted).resume, (swarm::SessionTrace{swarm::SessionId(7), 11, 13}));
}

TEST(ResumedRequest, WithLogprobsBeginsAnew) {
  swarm::Request before = SomeRequest();
  before.want_logprobs = true;
  before.top_logprobs = 3;
  store::OpenRequest noted = Noted("key", {8, 9});
  noted.request = ToRecord(before);
  const swarm::Request after = FromRecord(noted);
  EXPECT_TRUE(after.want_logprobs);
  EXPECT_EQ(after.top_logprobs, 3u);
  EXPECT_THAT(after.answer_ids, IsEmpty());
}

TEST_F(ResumedAnswersTest, WhoAsksFirstHasIt) {
  answers_.Start(Found({Noted("one")}));
  EXPECT_EQ(answers_.count(), 1u);
  EXPECT_EQ(host_.snapshot().queued_requests, 1u);
  EXPECT_EQ(answers_.Take({"two", ""}), nullptr);
  EXPECT_NE(answers_.Take({"one", ""}), nullptr);
  EXPECT_EQ(answers_.Take({"one", ""}), nullptr) << "for one client";
}

TEST_F(ResumedAnswersTest, WhoAsksHearsWhatIsKnownAndThenTheRest) {
  answers_.Start(Found({Noted("one", {8, 9})}));
  Heard heard;
  const swarm::RequestId id = answers_.Take({"one", ""})(Listen(heard));
  EXPECT_THAT(heard.token_ids, ElementsAre(8, 9));
  EXPECT_THAT(heard.ends, IsEmpty());
  host_.Cancel(id);
  ASSERT_THAT(heard.ends, SizeIs(1));
  EXPECT_EQ(heard.ends[0].reason, swarm::FinishReason::kCancelled);
  EXPECT_EQ(heard.ends[0].generated_tokens, 2u);
}

TEST_F(ResumedAnswersTest, WhatEndedUnaskedIsThere) {
  std::vector<int32_t> all(20, 5);  // as many as were wanted: the end alone was not noted
  answers_.Start(Found({Noted("one", all)}));
  Heard heard;
  answers_.Take({"one", ""})(Listen(heard));
  EXPECT_EQ(heard.token_ids, all);
  ASSERT_THAT(heard.ends, SizeIs(1));
  EXPECT_EQ(heard.ends[0].reason, swarm::FinishReason::kLength);
}

// One start with what the records have, which ends without a word; how many requests went on.
size_t StartAndDie(RememberedRecords& records, net::EventLoop& loop, TaskQueue& planning,
                   std::optional<int64_t> stopped_at_ms = std::nullopt) {
  store::FoundCell found = records.Found();
  found.stopped_at_ms = stopped_at_ms;
  std::optional<size_t> under_way;
  SwarmHost host(loop, planning, Core());
  records.on_flush = [&] { under_way = host.snapshot().queued_requests; };
  RequestLedger ledger(records, "");
  ResumedAnswers answers(host, ledger);
  answers.Start(found);
  records.on_flush = nullptr;
  // That each is tried again is on the disk before it begins.
  if (answers.count() > 0) {
    EXPECT_EQ(under_way, 0u);
  }
  EXPECT_EQ(host.snapshot().queued_requests, answers.count());
  return answers.count();
}

RememberedRecords::Request Remembered(const store::OpenRequest& noted) {
  return {noted, std::nullopt};
}

// A request that takes the server down does so at every start that goes on with it.
TEST_F(ResumedAnswersTest, IsDroppedAfterTwoAttempts) {
  records_.requests = {{"one", Remembered(Noted("one", {8}))}, {"two", Remembered(Noted("two"))}};
  EXPECT_EQ(StartAndDie(records_, loop_, planning_), 2u);
  EXPECT_EQ(StartAndDie(records_, loop_, planning_), 2u);
  EXPECT_EQ(StartAndDie(records_, loop_, planning_), 0u);
  EXPECT_EQ(StartAndDie(records_, loop_, planning_), 0u);
  const RememberedRecords::Request& one = records_.requests.at("one");
  EXPECT_EQ(one.seed, *SomeRequest().sampling.seed) << "who asks again gets its answer";
  EXPECT_FALSE(one.request);
}

TEST_F(ResumedAnswersTest, AServerThatWasToldToStopHasNotFailed) {
  records_.requests = {{"one", Remembered(Noted("one"))}};
  for (int start = 0; start < 5; ++start)
    EXPECT_EQ(StartAndDie(records_, loop_, planning_, /*stopped_at_ms=*/1), 1u);
}

TEST_F(ResumedAnswersTest, WhatFailedUnaskedIsComputedAgain) {
  answers_.Start(Found({Noted("one", {-5})}));  // no token of this model
  EXPECT_EQ(answers_.Take({"one", ""}), nullptr);
}

}  // namespace
}  // namespace weft::server
