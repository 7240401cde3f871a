// Answers whose servers change: over links in this process, from cores that a test drives token by
// token. Real cores and engines: apps/answers_across_servers_test.cc.
#include "server/clustered_generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <vector>

#include "server/begun_answers.h"
#include "server/cell_records_testing.h"
#include "server/fake_core_testing.h"
#include "server/linked_testing.h"

namespace weft::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Place = ClusteredGenerator::Place;

// A server that leads, and what a gateway has of it.
struct Leader {
  explicit Leader(net::EventLoop& a_loop) : loop(a_loop) { Connect(); }
  void Connect() {
    link.reset();
    link = std::make_unique<MemoryLink>(loop, *requests);
  }

  net::EventLoop& loop;
  FakeCore core;
  std::unique_ptr<LinkedRequests> requests = std::make_unique<LinkedRequests>(
      loop, core, [](const std::string& source) -> Result<ConstraintCache::Constraint> {
        return Error(ErrorCode::kInvalidArgument, "'" + source + "' cannot be followed.");
      });
  std::unique_ptr<MemoryLink> link;
};

struct Heard {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  std::vector<uint32_t> positions;
  std::vector<swarm::FinishRequest> ends;
  int moved = 0;
};

class ClusteredGeneratorTest : public testing::Test {
 protected:
  static swarm::Request Asked(uint32_t tokens) {
    swarm::Request request;
    request.prompt_ids = {2, 3};
    request.max_tokens = tokens;
    request.sampling.seed = 5;
    return request;
  }
  static std::vector<int32_t> Answer(uint32_t tokens) {
    std::vector<int32_t> ids;
    for (uint32_t i = 0; i < tokens; ++i) ids.push_back(static_cast<int32_t>(250 + i));
    return ids;
  }
  RequestCallbacks Listen(Heard& heard) {
    RequestCallbacks callbacks;
    callbacks.on_token = [&heard](const swarm::EmitToken& token) {
      heard.ids.push_back(token.token_id);
      heard.logprobs.push_back(token.logprob);
    };
    callbacks.on_logits = [&heard](const swarm::EmitLogits& rows) {
      for (uint32_t i = 0; i < rows.rows; ++i) heard.positions.push_back(rows.first_position + i);
    };
    callbacks.on_finish = [&heard](const swarm::FinishRequest& end) { heard.ends.push_back(end); };
    callbacks.on_moving = [&heard] { ++heard.moved; };
    return callbacks;
  }
  swarm::RequestId Ask(swarm::Request request, Heard& heard) {
    return clustered_.Submit(std::move(request), Listen(heard));
  }
  void Follow(Leader& leader, uint64_t incarnation) {
    clustered_.FindLeader(cluster::LinkId(incarnation), cluster::Incarnation(incarnation),
                          leader.link->gateway(), Place::kElsewhere);
    Turn();
  }
  void Lose(Leader& leader, uint64_t incarnation) {
    leader.link->Kill();
    clustered_.LoseLeader(cluster::LinkId(incarnation));
  }
  // Everything that is on its way arrives, and what follows from it.
  void Turn() {
    net::EventLoop::Timer stop(loop_);
    stop.FireAfter(Milliseconds(1), [this] { loop_.Stop(); });
    loop_.Run();
  }
  void Step(Leader& leader, uint32_t count = 1) {
    for (uint32_t i = 0; i < count; ++i) {
      leader.core.Step();
      Turn();
    }
  }

  net::EventLoop loop_;
  Leader a_{loop_}, b_{loop_};
  ClusteredGenerator clustered_{{Milliseconds(400), 2}, loop_};
};

TEST_F(ClusteredGeneratorTest, AnAnswerOverALinkIsTheAnswer) {
  Follow(a_, 1);
  Heard heard;
  swarm::Request request = Asked(3);
  request.want_logprobs = true;
  const swarm::RequestId id = Ask(request, heard);
  EXPECT_FALSE(clustered_.has_accepted(id));
  Turn();
  EXPECT_TRUE(clustered_.has_accepted(id));
  EXPECT_TRUE(clustered_.is_up());
  Step(a_, 4);
  EXPECT_EQ(heard.ids, Answer(3));
  EXPECT_THAT(heard.logprobs, ElementsAre(-0.5f, -1.5f, -2.5f));
  ASSERT_THAT(heard.ends, SizeIs(1));
  EXPECT_EQ(heard.ends[0].reason, swarm::FinishReason::kLength);
  EXPECT_EQ(heard.ends[0].generated_tokens, 3u);
  EXPECT_EQ(heard.ends[0].request, id);
  EXPECT_EQ(clustered_.counts().forwarded, 1u);
  EXPECT_EQ(clustered_.counts().moved, 0u);
}

// What one turn of the loop brought is one message, for however many requests.
TEST_F(ClusteredGeneratorTest, TokensOfATurnAreOneMessage) {
  Follow(a_, 1);
  Heard heard[3];
  for (Heard& each : heard) Ask(Asked(9), each);
  Turn();
  const int before = a_.link->from_leader;
  for (int i = 0; i < 4; ++i) a_.core.Step();
  Turn();
  EXPECT_EQ(a_.link->from_leader, before + 1);
  for (const Heard& each : heard) EXPECT_EQ(each.ids, Answer(4));
}

TEST_F(ClusteredGeneratorTest, AFullLinkSlowsItsRequestsAlone) {
  Follow(a_, 1);
  MemoryLink other(loop_, *a_.requests);
  Heard slow, quick;
  Ask(Asked(5), slow);
  other.gateway().Submit(Asked(5), Listen(quick));
  Turn();
  a_.link->SetFull(true);
  Step(a_, 3);
  EXPECT_THAT(slow.ids, IsEmpty());
  EXPECT_EQ(quick.ids, Answer(3));
  const int before = a_.link->from_leader;
  a_.link->SetFull(false);
  Step(a_, 3);
  EXPECT_EQ(slow.ids, Answer(5));
  EXPECT_THAT(slow.ends, SizeIs(1));
  EXPECT_LE(a_.link->from_leader, before + 4);
}

// The leader dies with `known` tokens at the client and one more on its way.
TEST_F(ClusteredGeneratorTest, ALeaderThatDiesChangesNothingAtAnyToken) {
  constexpr uint32_t kTokens = 6;
  uint64_t incarnation = 1;
  for (uint32_t known = 0; known <= kTokens + 1; ++known) {
    for (const bool has_logprobs : {false, true}) {
      Leader first(loop_), second(loop_);
      Follow(first, ++incarnation);
      Heard heard;
      swarm::Request request = Asked(kTokens);
      request.want_logprobs = has_logprobs;
      Ask(request, heard);
      Turn();
      Step(first, known);
      first.core.Step();  // it is lost on its way
      Lose(first, incarnation);
      if (known > kTokens) {
        EXPECT_EQ(heard.moved, 0);
        continue;  // it was over
      }
      EXPECT_EQ(heard.moved, 1);
      EXPECT_FALSE(clustered_.is_up());
      Follow(second, ++incarnation);
      ASSERT_THAT(second.core.submitted, SizeIs(1));
      EXPECT_TRUE(second.core.submitted[0].was_accepted);
      EXPECT_THAT(second.core.submitted[0].answer_ids, SizeIs(known));
      EXPECT_EQ(second.core.submitted[0].logprobs_are_known, known > 0);
      Step(second, kTokens + 1);
      EXPECT_EQ(heard.ids, Answer(kTokens)) << known;
      EXPECT_EQ(heard.logprobs.back(), -0.5f - (kTokens - 1));
      ASSERT_THAT(heard.ends, SizeIs(1)) << known;
      EXPECT_EQ(heard.ends[0].generated_tokens, kTokens);
      clustered_.LoseLeader(cluster::LinkId(incarnation));
    }
  }
  EXPECT_EQ(clustered_.counts().differences, 0u);
  EXPECT_EQ(clustered_.counts().moved, 2 * (kTokens + 1));
}

TEST_F(ClusteredGeneratorTest, ADeposedLeaderIsLeftAtOnceAndItsTokensAreDropped) {
  Follow(a_, 1);
  Heard heard;
  Ask(Asked(5), heard);
  Turn();
  Step(a_, 2);
  a_.core.Step();  // on its way
  clustered_.FindLeader(cluster::LinkId(2), cluster::Incarnation(2), b_.link->gateway(),
                        Place::kElsewhere);
  Turn();
  EXPECT_EQ(heard.ids, Answer(2));
  EXPECT_EQ(a_.core.open_count(), 0u) << "cancelled there";
  clustered_.FindLeader(cluster::LinkId(1), cluster::Incarnation(1), a_.link->gateway(),
                        Place::kElsewhere);
  Step(b_, 4);
  EXPECT_EQ(heard.ids, Answer(5));
  EXPECT_THAT(a_.core.submitted, SizeIs(1));
  EXPECT_THAT(heard.ends, SizeIs(1));
}

// It may take itself for the leader yet, and nobody would listen to what it computes.
TEST_F(ClusteredGeneratorTest, AFormerLeaderThatIsHeardIsToldThatNobodyListens) {
  Follow(a_, 1);
  Heard heard;
  Ask(Asked(5), heard);
  Turn();
  Step(a_, 2);
  clustered_.LoseLeader(cluster::LinkId(1), /*is_heard=*/true);
  Turn();
  EXPECT_EQ(a_.core.open_count(), 0u);
  EXPECT_THAT(heard.ends, IsEmpty());
  EXPECT_EQ(heard.moved, 1);
  Follow(b_, 2);
  Step(b_, 4);
  EXPECT_EQ(heard.ids, Answer(5));
  EXPECT_THAT(heard.ends, SizeIs(1));
}

TEST_F(ClusteredGeneratorTest, AnswersGoFromHereOverALinkAndBack) {
  FakeCore own;
  clustered_.FindLeader(1, 1, own, Place::kHere);
  Heard heard;
  const swarm::RequestId id = Ask(Asked(6), heard);
  EXPECT_TRUE(clustered_.has_accepted(id));
  own.Step();
  own.Step();
  EXPECT_EQ(heard.ids, Answer(2));
  clustered_.LoseLeader(1);
  own.End(own.last_id(), swarm::FinishReason::kError,
          Error(ErrorCode::kUnavailable, "The core ends."));
  EXPECT_THAT(heard.ends, IsEmpty());
  Follow(a_, 2);
  Step(a_, 2);
  EXPECT_EQ(heard.ids, Answer(4));
  Lose(a_, 2);
  clustered_.FindLeader(3, 3, own, Place::kHere);
  for (int i = 0; i < 3; ++i) own.Step();
  EXPECT_EQ(heard.ids, Answer(6));
  ASSERT_THAT(heard.ends, SizeIs(1));
  EXPECT_EQ(heard.ends[0].generated_tokens, 6u);
  EXPECT_EQ(clustered_.counts().forwarded, 1u);
  EXPECT_EQ(clustered_.counts().moved, 2u);
}

// It says so itself; the link stays, and it may lead again.
TEST_F(ClusteredGeneratorTest, WhoLeadsNoMoreSaysSoToEachRequest) {
  Follow(a_, 1);
  Heard early, late;
  Ask(Asked(4), early);
  Turn();
  Step(a_, 1);
  a_.requests->StopLeading();
  Turn();
  EXPECT_EQ(early.moved, 1);
  EXPECT_EQ(a_.core.open_count(), 0u);
  Ask(Asked(4), late);
  Turn();
  EXPECT_THAT(late.ends, IsEmpty());
  EXPECT_THAT(a_.core.submitted, SizeIs(1)) << "nothing is taken any more";
  Follow(b_, 2);
  Step(b_, 5);
  EXPECT_EQ(early.ids, Answer(4));
  EXPECT_EQ(late.ids, Answer(4));
}

TEST_F(ClusteredGeneratorTest, MovedRequestsPassTheQueueLimitAndKeepTheirOrder) {
  Follow(a_, 1);
  std::deque<Heard> heard(3);
  for (size_t i = 0; i < heard.size(); ++i) {
    swarm::Request request = Asked(4);
    request.prompt_ids = {static_cast<int32_t>(i)};
    Ask(request, heard[i]);
  }
  Turn();
  b_.core.queue_limit = 0;
  Lose(a_, 1);
  Follow(b_, 2);
  ASSERT_THAT(b_.core.submitted, SizeIs(3));
  for (int32_t i = 0; i < 3; ++i)
    EXPECT_THAT(b_.core.submitted[static_cast<size_t>(i)].prompt_ids, ElementsAre(2 - i))
        << "each stands in front of those before";
  Step(b_, 5);
  for (const Heard& each : heard) EXPECT_THAT(each.ids, SizeIs(4));
  Heard refused;
  Ask(Asked(4), refused);
  Turn();
  ASSERT_THAT(refused.ends, SizeIs(1));
  EXPECT_TRUE(refused.ends[0].has_no_room);
  EXPECT_EQ(refused.ends[0].error->message(), "The queue is full.");
  EXPECT_EQ(refused.ends[0].error->code(), ErrorCode::kUnavailable);
}

TEST_F(ClusteredGeneratorTest, ACancelIsHeardWhereverTheRequestIs) {
  Follow(a_, 1);
  Heard at_leader, moving, waiting;
  const swarm::RequestId first = Ask(Asked(9), at_leader);
  const swarm::RequestId second = Ask(Asked(9), moving);
  Turn();
  Step(a_, 2);
  clustered_.Cancel(first);
  a_.core.Step();
  Turn();
  ASSERT_THAT(at_leader.ends, SizeIs(1));
  EXPECT_EQ(at_leader.ends[0].reason, swarm::FinishReason::kCancelled);
  EXPECT_EQ(at_leader.ends[0].generated_tokens, 2u) << "what its client has";
  EXPECT_EQ(at_leader.ids, Answer(2));
  Lose(a_, 1);
  clustered_.Cancel(second);
  ASSERT_THAT(moving.ends, SizeIs(1));
  EXPECT_EQ(moving.ends[0].reason, swarm::FinishReason::kCancelled);
  EXPECT_EQ(moving.ends[0].generated_tokens, 3u);
  clustered_.Cancel(Ask(Asked(9), waiting));
  EXPECT_THAT(waiting.ends, SizeIs(1));
  Follow(b_, 2);
  EXPECT_THAT(b_.core.submitted, IsEmpty());
}

// The leader dies before it has heard of the cancel, or before its answer is here.
TEST_F(ClusteredGeneratorTest, ACancelThatIsLostWithItsLeaderIsHeardAllTheSame) {
  Follow(a_, 1);
  Heard heard;
  const swarm::RequestId id = Ask(Asked(9), heard);
  Turn();
  Step(a_, 2);
  a_.link->Kill();
  clustered_.Cancel(id);
  EXPECT_THAT(heard.ends, IsEmpty());
  clustered_.LoseLeader(1);
  ASSERT_THAT(heard.ends, SizeIs(1));
  EXPECT_EQ(heard.ends[0].reason, swarm::FinishReason::kCancelled);
}

TEST_F(ClusteredGeneratorTest, WhoFindsNoLeaderIsToldAfterAWhile) {
  Follow(a_, 1);
  Heard heard;
  Ask(Asked(9), heard);
  Turn();
  Step(a_, 2);
  Lose(a_, 1);
  Heard more[2];
  for (Heard& each : more) Ask(Asked(9), each);
  ASSERT_THAT(more[1].ends, SizeIs(1)) << "two wait already";
  EXPECT_TRUE(more[1].ends[0].has_no_room);
  while (heard.ends.empty()) Turn();
  EXPECT_THAT(heard.ends[0].error->message(), HasSubstr("No server was found within 0 s"));
  EXPECT_EQ(heard.ids, Answer(2));
  Follow(b_, 2);
  EXPECT_LE(b_.core.submitted.size(), 1u);
}

// A link that dropped messages, or a leader that counts otherwise, costs a question more.
TEST_F(ClusteredGeneratorTest, WhatIsMissingIsAskedForAgain) {
  Follow(a_, 1);
  Heard heard;
  Ask(Asked(6), heard);
  Turn();
  int drops = 2;
  a_.link->on_message = [&](wire::pb::RequestMessage& message) {
    for (auto& event : *message.mutable_events()->mutable_requests())
      if (event.token_ids_size() > 0 && event.first() % 2 == 1 && --drops >= 0)
        event.clear_token_ids();
  };
  for (int i = 0; i < 12; ++i) Step(a_);
  EXPECT_EQ(heard.ids, Answer(6));
  ASSERT_THAT(heard.ends, SizeIs(1));
  EXPECT_FALSE(heard.ends[0].error);
  EXPECT_GT(a_.core.submitted.size(), 1u);
}

// The leader is up, so nothing else would end the wait.
TEST_F(ClusteredGeneratorTest, AQuestionThatIsLostIsAskedOnceMore) {
  ClusteredGenerator clustered({Milliseconds(400), 2, Milliseconds(1)}, loop_);
  clustered.FindLeader(cluster::LinkId(1), cluster::Incarnation(1), a_.link->gateway(),
                       Place::kElsewhere);
  Turn();
  int losses = 2;
  a_.link->loses = [&](const wire::pb::RequestMessage& message) {
    return message.has_submit() && --losses >= 0;
  };
  Heard heard, cancelled;
  clustered.Submit(Asked(3), Listen(heard));
  clustered.Cancel(clustered.Submit(Asked(3), Listen(cancelled)));
  while (a_.core.submitted.empty()) Turn();
  EXPECT_EQ(clustered.counts().lost, 1u);
  ASSERT_THAT(cancelled.ends, SizeIs(1));
  EXPECT_EQ(cancelled.ends[0].reason, swarm::FinishReason::kCancelled);
  for (int i = 0; i < 4; ++i) Step(a_);
  EXPECT_EQ(heard.ids, Answer(3));
  ASSERT_THAT(heard.ends, SizeIs(1));
  EXPECT_EQ(a_.core.submitted.size(), 1u);
}

TEST_F(ClusteredGeneratorTest, ALeaderSaysAtOnceThatItHasARequest) {
  Follow(a_, 1);
  Heard heard;
  const swarm::RequestId id = Ask(Asked(3), heard);
  const swarm::RequestId at_leader(1);
  EXPECT_FALSE(a_.link->gateway().has_received(at_leader));
  bool was_told = false;
  a_.link->on_message = [&](wire::pb::RequestMessage& message) {
    for (const auto& event : message.events().requests()) was_told |= event.received();
  };
  Turn();
  EXPECT_TRUE(was_told);
  EXPECT_TRUE(a_.link->gateway().has_received(at_leader));
  EXPECT_TRUE(clustered_.has_accepted(id));
}

TEST_F(ClusteredGeneratorTest, ALeaderThatNeverSendsATokenIsGivenUp) {
  Follow(a_, 1);
  Heard heard;
  Ask(Asked(6), heard);
  Turn();
  a_.link->on_message = [](wire::pb::RequestMessage& message) {
    for (auto& event : *message.mutable_events()->mutable_requests())
      if (event.token_ids_size() > 0) event.set_first(event.first() + 1);
  };
  for (int i = 0; i < 30 && heard.ends.empty(); ++i) Step(a_);
  ASSERT_THAT(heard.ends, SizeIs(1));
  EXPECT_THAT(heard.ends[0].error->message(), HasSubstr("does not send all of the answer"));
  EXPECT_EQ(a_.core.submitted.size(), 4u);
  EXPECT_EQ(a_.core.open_count(), 0u);
}

TEST_F(ClusteredGeneratorTest, RowsBeginAgainAtTheNextLeader) {
  Follow(a_, 1);
  Heard heard;
  swarm::Request request = Asked(0);
  request.want_logits = true;
  Ask(request, heard);
  Turn();
  a_.core.Rows(0, 2);
  Turn();
  Lose(a_, 1);
  Follow(b_, 2);
  b_.core.Rows(0, 3);
  b_.core.Step();
  Turn();
  EXPECT_THAT(heard.positions, ElementsAre(0, 1, 0, 1, 2));
  ASSERT_THAT(heard.ends, SizeIs(1));
  EXPECT_EQ(heard.ends[0].reason, swarm::FinishReason::kLength);
}

// Its client is gone with its gateway, and asks again at another one.
TEST_F(ClusteredGeneratorTest, ARequestWithAKeyOutlivesItsGateway) {
  Heard before, after, third;
  swarm::Request request = Asked(5);
  request.key = "of a client";
  a_.link->gateway().Submit(request, Listen(before));
  Turn();
  Step(a_, 2);
  EXPECT_EQ(before.ids, Answer(2));
  a_.Connect();
  Step(a_, 2);
  a_.link->gateway().Submit(request, Listen(after));
  Turn();
  EXPECT_EQ(after.ids, Answer(4));
  EXPECT_THAT(a_.core.submitted, SizeIs(1));
  a_.Connect();
  Step(a_, 2);
  request.answer_ids = Answer(3);
  a_.link->gateway().Submit(request, Listen(third));
  Turn();
  EXPECT_THAT(third.ids, ElementsAre(253, 254)) << "what it lacks";
  EXPECT_THAT(third.ends, SizeIs(1));
  EXPECT_THAT(a_.core.submitted, SizeIs(1));
}

// What another server refuses leaves no entry in the ledger either.
TEST_F(ClusteredGeneratorTest, CallsWithAKeyAreNotedWhenTheyWereAccepted) {
  RememberedRecords records(&loop_);
  BegunAnswers answers(clustered_, {records, "a key"}, false);
  const KeyedCall call{"of a client", " and a body"};
  Follow(a_, 1);
  a_.core.queue_limit = 0;
  Heard refused, heard;
  answers.Begin({call, true}, Asked(2))(Listen(refused));
  Turn();
  EXPECT_THAT(refused.ends, SizeIs(1));
  EXPECT_THAT(records.requests, IsEmpty());
  a_.core.queue_limit = 1;
  answers.Begin({call, true}, Asked(2))(Listen(heard));
  Turn();
  EXPECT_EQ(a_.core.submitted.back().key, "of a client and a body");
  Step(a_, 3);
  EXPECT_EQ(heard.ids, Answer(2));
  EXPECT_EQ(records.requests.at(call.key).generated_tokens, 2u);
}

TEST_F(ClusteredGeneratorTest, AKeyGivesNoAnswerThatBeginsOtherwise) {
  Heard before, after;
  swarm::Request request = Asked(5);
  request.key = "of a client";
  a_.link->gateway().Submit(request, Listen(before));
  Turn();
  Step(a_, 3);
  a_.Connect();
  request.answer_ids = {250, 9};
  a_.link->gateway().Submit(request, Listen(after));
  Turn();
  EXPECT_THAT(a_.core.submitted, SizeIs(2));
  EXPECT_EQ(a_.core.open_count(), 1u) << "the other one is of no use to anybody";
}

TEST_F(ClusteredGeneratorTest, WithoutAKeyRequestsGoWithTheirGateway) {
  Heard heard;
  a_.link->gateway().Submit(Asked(5), Listen(heard));
  Turn();
  EXPECT_EQ(a_.core.open_count(), 1u);
  a_.Connect();
  EXPECT_EQ(a_.core.open_count(), 0u);
}

TEST_F(ClusteredGeneratorTest, TellsHowTheSwarmIsAndWhatRequestsWaitFor) {
  EXPECT_EQ(clustered_.message(), "No server leads the model's devices now.");
  a_.core.up = false;
  a_.core.percent = 40;
  a_.Connect();
  Follow(a_, 1);
  EXPECT_FALSE(clustered_.is_up());
  EXPECT_TRUE(clustered_.is_loading());
  EXPECT_EQ(clustered_.loading_percent(), 40u);
  EXPECT_EQ(clustered_.message(), "Of the fake core.");
  Heard heard;
  const swarm::RequestId id = Ask(Asked(3), heard);
  Turn();
  a_.core.up = true;
  while (!clustered_.is_up() || !clustered_.progress(id)) Turn();
  EXPECT_EQ(*clustered_.progress(id), (swarm::RequestProgress{false, 0, 9, 4}));
  clustered_.ForgetPrefix("salt", "name");
  Turn();
  EXPECT_EQ(a_.core.forgotten, "salt/name ");
}

TEST_F(ClusteredGeneratorTest, AFormThatTheLeaderCannotFollowFailsTheRequestAlone) {
  class Named : public sampling::Constraint {
   public:
    explicit Named(std::string name) : name_(std::move(name)) {}
    std::unique_ptr<sampling::AnswerState> Begin() const override { return nullptr; }
    std::string Source() const override { return name_; }

   private:
    const std::string name_;
  };
  Follow(a_, 1);
  Heard heard, nameless;
  swarm::Request request = Asked(3);
  request.constraint = std::make_shared<Named>("a form");
  Ask(request, heard);
  while (heard.ends.empty()) Turn();
  EXPECT_EQ(heard.ends[0].error->message(), "'a form' cannot be followed.");
  EXPECT_EQ(heard.ends[0].error->code(), ErrorCode::kInvalidArgument);
  request.constraint = std::make_shared<Named>("");
  Ask(request, nameless);
  ASSERT_THAT(nameless.ends, SizeIs(1));
  EXPECT_EQ(nameless.ends[0].error->code(), ErrorCode::kUnsupported);
  EXPECT_EQ(a_.link->problem, "");
}

TEST_F(ClusteredGeneratorTest, MessagesThatMakeNoSenseCloseTheLink) {
  const PeerId peer = a_.requests->Attach(*[]() -> RequestChannel* {
    static struct : RequestChannel {
      void Send(wire::pb::RequestMessage /*message*/) override {}
      bool is_full() const override { return false; }
    } nowhere;
    return &nowhere;
  }());
  const auto problem = [&](wire::pb::RequestMessage message) {
    const Status status = a_.requests->OnMessage(peer, std::move(message));
    return status.ok() ? "" : status.error().message();
  };
  wire::pb::RequestMessage message;
  EXPECT_THAT(problem(message), HasSubstr("none of a gateway's"));
  message.mutable_events();
  EXPECT_THAT(problem(message), HasSubstr("none of a gateway's"));
  message.mutable_submit();
  EXPECT_THAT(problem(message), HasSubstr("submits number 0 behind 0"));
  message.mutable_submit()->set_number(1);
  message.mutable_submit()->mutable_sampling()->add_biases(1);
  EXPECT_THAT(problem(message), HasSubstr("1 biases for 0 tokens"));
  message.mutable_submit()->clear_sampling();
  message.mutable_submit()->mutable_sampling()->set_seed(1);
  message.mutable_submit()->add_prompt_ids(1);
  EXPECT_EQ(problem(message), "");
  EXPECT_THAT(problem(message), HasSubstr("submits number 1 behind 1"));
  message.mutable_cancel()->set_number(77);
  EXPECT_EQ(problem(message), "") << "it may have ended meanwhile";
  EXPECT_THAT(a_.link->gateway().OnMessage(message).error().message(),
              HasSubstr("none of a leader's"));
}

}  // namespace
}  // namespace weft::server
