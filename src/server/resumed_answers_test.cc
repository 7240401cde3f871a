// Requests that go on after a restart, before and after somebody asks for them.
#include "server/resumed_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

journal::RequestEntry EntryOf(const std::string& key, std::vector<int32_t> token_ids = {}) {
  journal::RequestEntry entry;
  entry.begun.set_key(key);
  entry.begun.set_seed(*SomeRequest().sampling.seed);
  *entry.begun.mutable_request() = ToRecord(SomeRequest());
  entry.token_ids = std::move(token_ids);
  return entry;
}

journal::Contents ContentsOf(const std::vector<journal::RequestEntry>& entries) {
  journal::Contents contents;
  for (const journal::RequestEntry& entry : entries) {
    journal::pb::Record record;
    *record.mutable_request_begun() = entry.begun;
    contents.Apply(record);
    record.mutable_request_tokens()->set_key(entry.begun.key());
    record.mutable_request_tokens()->mutable_token_ids()->Assign(entry.token_ids.begin(),
                                                                 entry.token_ids.end());
    contents.Apply(record);
  }
  return contents;
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
  RequestLedger ledger_;
  ResumedAnswers answers_{host_, ledger_};
};

TEST(ResumedRequest, IsTheRequestThatWasJournalled) {
  const swarm::Request before = SomeRequest();
  const swarm::Request after = FromRecord(EntryOf("key", {8, 9}));
  EXPECT_EQ(after.prompt_ids, before.prompt_ids);
  EXPECT_THAT(after.answer_ids, ElementsAre(8, 9));
  EXPECT_EQ(after.salt, before.salt);
  EXPECT_EQ(after.max_tokens, before.max_tokens);
  EXPECT_EQ(after.stop_ids, before.stop_ids);
  EXPECT_EQ(after.sampling, before.sampling);
}

TEST(ResumedRequest, WithLogprobsBeginsAnew) {
  swarm::Request before = SomeRequest();
  before.want_logprobs = true;
  before.top_logprobs = 3;
  journal::RequestEntry entry = EntryOf("key", {8, 9});
  *entry.begun.mutable_request() = ToRecord(before);
  const swarm::Request after = FromRecord(entry);
  EXPECT_TRUE(after.want_logprobs);
  EXPECT_EQ(after.top_logprobs, 3u);
  EXPECT_THAT(after.answer_ids, IsEmpty());
}

TEST_F(ResumedAnswersTest, OnlyWhatIsNotOverGoesOn) {
  journal::Contents found = ContentsOf({EntryOf("one"), EntryOf("two")});
  journal::pb::Record ended;
  ended.mutable_request_ended()->set_key("two");
  found.Apply(ended);
  answers_.Start(found);
  EXPECT_EQ(answers_.count(), 1u);
  EXPECT_EQ(host_.snapshot().queued_requests, 1u);
  EXPECT_EQ(answers_.Take({"two", ""}), nullptr);
  EXPECT_NE(answers_.Take({"one", ""}), nullptr);
  EXPECT_EQ(answers_.Take({"one", ""}), nullptr) << "for one client";
}

TEST_F(ResumedAnswersTest, WhoAsksHearsWhatIsKnownAndThenTheRest) {
  answers_.Start(ContentsOf({EntryOf("one", {8, 9})}));
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
  answers_.Start(ContentsOf({EntryOf("one", all)}));
  Heard heard;
  answers_.Take({"one", ""})(Listen(heard));
  EXPECT_EQ(heard.token_ids, all);
  ASSERT_THAT(heard.ends, SizeIs(1));
  EXPECT_EQ(heard.ends[0].reason, swarm::FinishReason::kLength);
}

// One start with what the journal has, which ends without a word; how many requests went on.
size_t StartAndDie(journal::Contents& journal, net::EventLoop& loop, TaskQueue& planning) {
  const journal::Contents found = journal;
  std::optional<size_t> under_way;
  std::unique_ptr<SwarmHost> host;
  RequestLedger ledger(
      found, [&](const journal::pb::Record& record) { journal.Apply(record); },
      [&] { under_way = host->snapshot().queued_requests; });
  host = std::make_unique<SwarmHost>(loop, planning, Core());
  ResumedAnswers answers(*host, ledger);
  answers.Start(found);
  // That each is tried again is on the disk before it begins.
  if (answers.count() > 0) {
    EXPECT_EQ(under_way, 0u);
  }
  EXPECT_EQ(host->snapshot().queued_requests, answers.count());
  host.reset();
  return answers.count();
}

// A request that takes the server down does so at every start that goes on with it.
TEST_F(ResumedAnswersTest, IsDroppedAfterTwoAttempts) {
  journal::Contents journal = ContentsOf({EntryOf("one", {8}), EntryOf("two")});
  EXPECT_EQ(StartAndDie(journal, loop_, planning_), 2u);
  EXPECT_EQ(StartAndDie(journal, loop_, planning_), 2u);
  EXPECT_EQ(StartAndDie(journal, loop_, planning_), 0u);
  EXPECT_EQ(StartAndDie(journal, loop_, planning_), 0u);
  const journal::RequestEntry* entry = journal.FindRequest("one");
  ASSERT_NE(entry, nullptr) << "who asks again gets the answer of that seed";
  EXPECT_EQ(entry->begun.seed(), *SomeRequest().sampling.seed);
  EXPECT_FALSE(entry->begun.has_request());
}

TEST_F(ResumedAnswersTest, AServerThatWasToldToStopHasNotFailed) {
  journal::Contents journal = ContentsOf({EntryOf("one")});
  for (int start = 0; start < 5; ++start) {
    EXPECT_EQ(StartAndDie(journal, loop_, planning_), 1u);
    journal::pb::Record stop;
    stop.mutable_stop()->set_at_s(1);
    journal.Apply(stop);
  }
}

TEST_F(ResumedAnswersTest, WhatFailedUnaskedIsComputedAgain) {
  answers_.Start(ContentsOf({EntryOf("one", {-5})}));  // no token of this model
  EXPECT_EQ(answers_.Take({"one", ""}), nullptr);
}

}  // namespace
}  // namespace weft::server
