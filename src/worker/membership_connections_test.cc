// What becomes of a worker's bindings and sessions when its connection breaks, when it comes back,
// and when it goes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/membership_testing.h"

namespace weft::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ConnectionsTest : public MembershipTest {
 protected:
  explicit ConnectionsTest(Offer offer = {}) : MembershipTest(std::move(offer)) {}

  Said Lost() { return Told(ConnectionLost{}); }
  // Another connection, up to what its Init asks for.
  Said Again(const pb::ServerMessage& init = InitMessage()) {
    EXPECT_THAT(Told(ConnectedAgain{}), IsEmpty());
    return Told(init);
  }
  // What the engine answers where every binding holds these positions of session 1.
  Said StockTaken(std::vector<std::pair<uint32_t, uint32_t>> bindings) {
    Stock stock;
    for (const auto& [epoch, positions] : bindings) {
      pb::HeldBinding& held = stock.bindings.emplace_back();
      held.set_epoch(epoch);
      if (positions == 0) continue;
      held.add_sessions(1);
      held.add_positions(positions);
    }
    return WorkOver(std::move(stock));
  }
  static pb::ServerMessage InitOf(const std::string& swarm_id, char digest = 'x') {
    auto init = InitMessage();
    init.mutable_init()->set_swarm_id(swarm_id);
    init.mutable_init()->set_package_digest(std::string(32, digest));
    return init;
  }
};

TEST_F(ConnectionsTest, WhoComesBackSaysWhatItHoldsAndGoesOn) {
  Join();
  Bind(3, 0, 2);
  Bind(4, 2, 4);
  Step(1, 3);
  WorkOver(StepReply{});
  Fetched(5);  // by another way
  EXPECT_THAT(Lost(), ElementsAre("KEEP 60000"));
  EXPECT_THAT(Again(), ElementsAre("SILENCE 3000", "COMPUTE stock 3 4 s1"));
  const auto& stock = std::get<TakeStock>(std::get<Compute>(actions_[1]).work);
  EXPECT_EQ(stock.bindings[0].ShortDebugString(), "epoch: 3 stage: 1 layers { end: 2 }");
  // It is not asked for the package again, nor for the speed of the line.
  EXPECT_THAT(StockTaken({{3, 7}, {4, 0}}),
              ElementsAre("connect [epoch: 3 sessions: 1 positions: 7] [epoch: 4]"));
  const pb::Connect& connect = std::get<SendControl>(actions_[0]).message.connect();
  EXPECT_THAT(connect.cached_layers(), ElementsAre(5));
  EXPECT_EQ(connect.download_bytes_per_s(), 1e10);
  EXPECT_THAT(Step(1, 3), ElementsAre("COMPUTE step 1"));
  WorkOver(StepReply{});
  Bind(5, 4, 6);
  EXPECT_THAT(Told(PrepareMessage(5, 0, 1)), ElementsAre("FINISH invalid_data"));  // numbers rise
}

TEST_F(ConnectionsTest, TheStepUnderWayIsFinishedAndNotAnswered) {
  Join();
  Bind(1, 0, kTestLayers);
  Step(1, 1);
  Step(2, 1);
  Told(Make([](pb::ServerMessage& m) { m.mutable_sampling(); }));
  EXPECT_THAT(Lost(), ElementsAre("KEEP 60000"));
  EXPECT_THAT(Again(), ElementsAre("SILENCE 3000"));  // the engine computes
  EXPECT_THAT(Told(Make([](pb::ServerMessage& m) { m.mutable_ping()->set_nonce(7); })),
              ElementsAre("pong { nonce: 7 }"));
  EXPECT_THAT(WorkOver(StepReply{}), ElementsAre("COMPUTE stock 1 s1"));
  EXPECT_THAT(StockTaken({{1, 1}}), ElementsAre("connect [epoch: 1 sessions: 1 positions: 1]"));
}

TEST_F(ConnectionsTest, NothingIsSaidWhereNobodyListens) {
  Join();
  Told(PrepareMessage(1, 0, 2));
  Lost();
  EXPECT_THAT(Told(FetchProgressed{1, 2}), IsEmpty());
  EXPECT_THAT(Fetched(0), IsEmpty());
  EXPECT_THAT(Told(WholeWished{true}), IsEmpty());
  EXPECT_THAT(Told(Make([](pb::ServerMessage& m) { m.mutable_ping(); })), IsEmpty());
  EXPECT_THAT(Told(std::vector<uint8_t>{9}), IsEmpty());  // what was on its way
}

TEST_F(ConnectionsTest, WhatWasNotLoadedIsNotHeld) {
  // While it is fetched.
  Join();
  Bind(1, 0, 2);
  Told(PrepareMessage(2, 3, 5));
  Told(DownloadMessage({5}));
  EXPECT_THAT(Lost(), ElementsAre("KEEP 60000", "COMPUTE keep 0-2", "INTERRUPT FETCH"));
  EXPECT_THAT(FetchInterrupted(), IsEmpty());
  WorkOver();
  Again();
  EXPECT_THAT(StockTaken({{1, 0}}), ElementsAre("connect [epoch: 1]"));
  // While it is read.
  Told(PrepareMessage(3, 3, 5));
  FetchOver();
  EXPECT_THAT(Lost(), ElementsAre("KEEP 60000", "COMPUTE keep 0-2", "INTERRUPT READ"));
  WorkOver();
  EXPECT_THAT(Read(), IsEmpty());
  // While it waits to be installed.
  Again();
  StockTaken({{1, 0}});
  Step(1, 1);
  Told(PrepareMessage(4, 3, 5));
  FetchOver();
  Read();
  EXPECT_THAT(Lost(), ElementsAre("KEEP 60000"));
  EXPECT_THAT(WorkOver(StepReply{}), ElementsAre("COMPUTE keep 0-2"));
  WorkOver();
  // While it is installed.
  Again();
  StockTaken({{1, 1}});
  Told(PrepareMessage(5, 3, 5));
  FetchOver();
  EXPECT_THAT(Read(), ElementsAre("COMPUTE install 3-5"));
  Lost();
  EXPECT_THAT(WorkOver(Installed{1, 1}), ElementsAre("COMPUTE keep 0-2"));
  WorkOver();
  // While it is measured.
  Again();
  StockTaken({{1, 1}});
  Told(MeasureMessage(3, 5));
  FetchOver();
  Read();
  EXPECT_THAT(WorkOver(Installed{1, 1}), ElementsAre("COMPUTE measure 3-5"));
  Lost();
  EXPECT_THAT(WorkOver(Timings{}), ElementsAre("COMPUTE keep 0-2"));
  WorkOver();
  // And the next one is read as ever.
  Again();
  StockTaken({{1, 1}});
  Told(PrepareMessage(6, 3, 5));
  EXPECT_THAT(FetchOver(), ElementsAre("READ 3-5"));
}

// What the server said before the connection broke, it counts on.
TEST_F(ConnectionsTest, WhatForgetsAndUnloadsIsStillDone) {
  Join();
  Bind(1, 0, 2);
  Bind(2, 2, 4);
  Step(1, 1);
  Told(Make([](pb::ServerMessage& m) { m.mutable_invalidate_sessions()->add_sessions(1); }));
  Told(RetireMessage({2}, 2, 4));
  Lost();
  EXPECT_THAT(WorkOver(StepReply{}), ElementsAre("COMPUTE release sessions"));
  EXPECT_THAT(WorkOver(), ElementsAre("COMPUTE keep 2-4"));
  EXPECT_THAT(WorkOver(), ElementsAre("COMPUTE keep 2-4"));
  WorkOver();
  EXPECT_THAT(Again(), ElementsAre("SILENCE 3000", "COMPUTE stock 2"));
}

// A session that holds nothing is not spoken of, so it may not count against the limit either.
TEST_F(ConnectionsTest, SessionsThatAreNotHeldAreOver) {
  Join();
  Bind(1, 0, 2);
  for (const uint32_t session : {7u, 1u}) {
    Step(session, 1, session);
    WorkOver(StepReply{});
  }
  Lost();
  EXPECT_THAT(Again(), ElementsAre("SILENCE 3000", "COMPUTE stock 1 s1 s7"));
  EXPECT_THAT(StockTaken({{1, 4}}), ElementsAre("connect [epoch: 1 sessions: 1 positions: 4]",
                                                "COMPUTE release sessions"));
  WorkOver();
  EXPECT_THAT(Step(3, 1, 8), ElementsAre("COMPUTE step 3"));  // the second of two
}

TEST_F(ConnectionsTest, ASecondBreakOnTheWayChangesNothing) {
  Join();
  Bind(1, 0, 2);
  Lost();
  Again();  // takes stock
  now_ = now_ + Seconds(10);
  EXPECT_THAT(Lost(), ElementsAre("KEEP 60000"));
  Again();
  Lost();
  now_ = now_ + Seconds(10);
  EXPECT_THAT(WorkOver(Stock{}), IsEmpty());  // for a connection that is gone
  EXPECT_THAT(Again(), ElementsAre("SILENCE 3000", "COMPUTE stock 1"));
  EXPECT_THAT(StockTaken({{1, 2}}), ElementsAre("connect [epoch: 1 sessions: 1 positions: 2]"));
}

// A line that opens and breaks again before its Init does not keep anything for longer.
TEST_F(ConnectionsTest, TheTimeIsCountedFromTheFirstBreak) {
  Join();
  Bind(1, 0, 2);
  Lost();
  now_ = now_ + Seconds(40);
  Told(ConnectedAgain{});
  EXPECT_THAT(Lost(), ElementsAre("KEEP 20000"));
  now_ = now_ + Seconds(20);
  EXPECT_THAT(Told(KeptLongEnough{}), ElementsAre("COMPUTE release all"));
}

TEST_F(ConnectionsTest, WhatWasKeptLongEnoughGoes) {
  Join();
  Bind(5, 0, 2);
  Lost();
  now_ = now_ + Seconds(59);
  EXPECT_THAT(Told(KeptLongEnough{}), ElementsAre("KEEP 1000"));  // of an early clock
  now_ = now_ + Seconds(1);
  EXPECT_THAT(Told(KeptLongEnough{}), ElementsAre("COMPUTE release all"));
  EXPECT_THAT(Again(), ElementsAre("SILENCE 3000"));
  EXPECT_THAT(WorkOver(), ElementsAre("JOIN"));  // as a worker that was never here
  JoinedPackage package;
  package.layer_count = kTestLayers;
  EXPECT_THAT(Told(Joined{package}), ElementsAre("connect"));
  EXPECT_THAT(Told(PrepareMessage(1, 0, 2)), ElementsAre("FETCH 0 1"));
}

// Nobody may have been awake to say so.
TEST_F(ConnectionsTest, WhatWasKeptTooLongIsNotSpokenOf) {
  Join();
  Bind(1, 0, 2);
  Lost();
  now_ = now_ + Seconds(60);
  EXPECT_THAT(Again(), ElementsAre("SILENCE 3000", "COMPUTE release all"));
  EXPECT_THAT(WorkOver(), ElementsAre("JOIN"));
}

TEST_F(ConnectionsTest, AKeptWorkerThatIsUsedAgainIsNotForgottenByAnOldClock) {
  Join();
  Bind(1, 0, 2);
  Lost();
  Again();
  StockTaken({{1, 0}});
  now_ = now_ + Seconds(90);
  EXPECT_THAT(Told(KeptLongEnough{}), IsEmpty());
  EXPECT_THAT(Step(1, 1), ElementsAre("COMPUTE step 1"));
}

TEST_F(ConnectionsTest, NothingMeansAnythingToAnotherSwarmOrOfAnotherPackage) {
  for (const auto& other : {InitOf("two"), InitOf(""), InitOf("one", 'y')}) {
    membership_ = std::make_unique<Membership>(Offer());
    Join();
    Bind(4, 0, 2);
    Step(1, 4);
    Lost();
    EXPECT_THAT(Again(other), ElementsAre("SILENCE 3000"));
    EXPECT_THAT(WorkOver(StepReply{}), ElementsAre("COMPUTE release all"));
    EXPECT_THAT(WorkOver(), ElementsAre("JOIN"));
    JoinedPackage package;
    package.layer_count = kTestLayers;
    EXPECT_THAT(Told(Joined{package}), ElementsAre("connect"));
    EXPECT_THAT(Step(1, 4), ElementsAre("step_failed 1 invalid_argument"));
    EXPECT_THAT(Told(PrepareMessage(1, 0, 2)), ElementsAre("FETCH 0 1"));  // its own numbers
  }
}

// The package is fetched by whoever fetches and reads: not beside them.
TEST_F(ConnectionsTest, AnotherPackageWaitsForWhatIsUnderWay) {
  Join();
  Told(PrepareMessage(1, 0, 2));
  FetchOver();
  Told(DownloadMessage({4}));
  EXPECT_THAT(Lost(),
              ElementsAre("KEEP 60000", "COMPUTE keep", "INTERRUPT READ", "INTERRUPT FETCH"));
  WorkOver();
  EXPECT_THAT(Again(InitOf("two")), ElementsAre("SILENCE 3000", "COMPUTE release all"));
  EXPECT_THAT(WorkOver(), IsEmpty());
  EXPECT_THAT(FetchInterrupted(), IsEmpty());
  EXPECT_THAT(Read(), ElementsAre("JOIN"));
}

TEST_F(ConnectionsTest, NothingIsKeptWhereTheServerDoesNotWantIt) {
  auto init = InitMessage();
  init.mutable_init()->set_resume_ms(0);
  for (const auto& not_kept : {init, InitOf("")}) {
    membership_ = std::make_unique<Membership>(Offer());
    Told(not_kept);
    JoinedPackage package;
    package.layer_count = kTestLayers;
    Told(Joined{package});
    Bind(1, 0, 2);
    EXPECT_THAT(Lost(), ElementsAre("COMPUTE release all"));
  }
}

TEST_F(ConnectionsTest, WhatJoinsForAConnectionThatIsGoneJoinsAgain) {
  Told(InitMessage());
  EXPECT_THAT(Lost(), IsEmpty());
  EXPECT_THAT(Again(), ElementsAre("SILENCE 3000"));  // one at a time
  EXPECT_THAT(Told(Joined{Error(ErrorCode::kUnavailable, "Broken.")}), ElementsAre("JOIN"));
  JoinedPackage package;
  package.layer_count = kTestLayers;
  EXPECT_THAT(Told(Joined{package}), ElementsAre("connect"));
}

TEST_F(ConnectionsTest, WhoLeavesWithoutDrainingSaysSoAndNothingMore) {
  Join();
  Bind(1, 0, kTestLayers);
  Step(1, 1);
  EXPECT_THAT(Told(LeaveAsked{"stopped", false}), ElementsAre("leaving { reason: \"stopped\" }"));
  EXPECT_THAT(WorkOver(StepReply{}), IsEmpty());
  EXPECT_TRUE(membership_->ended());
}

TEST_F(ConnectionsTest, WhoLeavesAnswersStepsUntilTheConnectionEnds) {
  Join();
  Bind(1, 0, kTestLayers);
  Step(1, 1);
  Told(PrepareMessage(2, 0, 2));
  EXPECT_THAT(Told(LeaveAsked{"stopped", true}),
              ElementsAre("leaving { reason: \"stopped\" draining: true }", "INTERRUPT FETCH"));
  EXPECT_THAT(FetchInterrupted(), IsEmpty());
  EXPECT_THAT(Step(2, 1), IsEmpty());
  EXPECT_THAT(WorkOver(StepReply{}), ElementsAre("frame", "COMPUTE keep 0-6"));
  EXPECT_THAT(WorkOver(), ElementsAre("COMPUTE step 2"));
  // Nothing new is begun.
  EXPECT_THAT(Told(PrepareMessage(3, 0, 2)), IsEmpty());
  EXPECT_THAT(Told(MeasureMessage(0, 2)), IsEmpty());
  EXPECT_THAT(Told(DownloadMessage({4})), IsEmpty());
  EXPECT_THAT(WorkOver(StepReply{}), ElementsAre("frame"));
  EXPECT_FALSE(membership_->ended());
  EXPECT_THAT(Lost(), IsEmpty());
  EXPECT_TRUE(membership_->ended());
}

TEST_F(ConnectionsTest, WhoLeavesBetweenConnectionsJustGoes) {
  Join();
  Lost();
  EXPECT_THAT(Told(LeaveAsked{"stopped", true}), IsEmpty());
  EXPECT_TRUE(membership_->ended());
}

class GeneratingAgainTest : public ConnectionsTest {
 protected:
  GeneratingAgainTest() : ConnectionsTest(MakeOffer()) {}
  static Offer MakeOffer() {
    Offer offer;
    offer.makes_tokens = 1;
    return offer;
  }
};

TEST_F(GeneratingAgainTest, AGenerationEndsWithItsInterval) {
  Join();
  auto prepare = PrepareMessage(1, 0, kTestLayers);
  prepare.mutable_prepare_stage()->set_stage(0);
  Told(prepare);
  FetchOver();
  Read();
  WorkOver(Installed{1, 100});
  wire::Generate generate;
  generate.sequence = 1;
  generate.epoch = 1;
  generate.session = 1;
  generate.count = 8;
  generate.interval = 2;
  EXPECT_THAT(Told(wire::EncodeGeneration(generate)), ElementsAre("COMPUTE tokens 1"));
  Lost();
  MadeTokens made;
  made.of_each.push_back({{}, generate, std::nullopt});
  EXPECT_THAT(WorkOver(std::move(made)), IsEmpty());
  Again();
  EXPECT_THAT(StockTaken({{1, 2}}), ElementsAre("connect [epoch: 1 sessions: 1 positions: 2]"));
}

}  // namespace
}  // namespace weft::worker
