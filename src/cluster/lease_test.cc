// The rules of a lease, one by one, as one server follows them. The simulator (src/sim/cluster) has
// several servers follow them at once.
#include "cluster/lease.h"

#include <gtest/gtest.h>

#include "cluster/leases_testing.h"

namespace weft::cluster {
namespace {

constexpr Duration kNearlySilent = Milliseconds(1400), kSilent = Milliseconds(3000);

// ---- a cell without a holder ----

TEST(LeaseStart, ACellWithoutAHolderIsTakenAfterListening) {
  ServerUnderTest server({kCell, 0, {}, true});
  server.Pass(kNearlySilent);
  EXPECT_FALSE(server.Last<Take>());
  server.Pass(Seconds(1));
  ASSERT_TRUE(server.Last<Take>());
  EXPECT_FALSE(server.Last<Take>()->has_evidence);
  EXPECT_EQ(server.Last<Lead>()->incarnation, server.row.incarnation);
}

TEST(LeaseStart, WhoHasThePackageComesBeforeOthers) {
  ServerUnderTest server({kCell, 0, {}, true});
  server.HearHello(kLeader, {kLeader.start, false, {}, {kCell}});
  server.HearHello(kThird, {kThird.start, false, {}, {kCell}});
  server.Pass(Milliseconds(2000));
  EXPECT_FALSE(server.Last<Take>());  // two come before it: 1.5 s and 2 x 0.3 s
  server.Pass(Milliseconds(300));
  EXPECT_TRUE(server.Last<Take>());

  ServerUnderTest owner({kCell, 0, {}, true});
  owner.Feed(PackageFound{kCell, true});
  owner.Hear(kLeader, {});
  owner.Hear(kThird, {});
  owner.Pass(Milliseconds(1750));
  EXPECT_TRUE(owner.Last<Take>());
}

// ---- leading ----

TEST(LeaseLeading, ARenewalWithoutAnAnswerChangesNothing) {
  ServerUnderTest server;
  server.BecomeLeader(3);
  server.is_away = true;
  server.Pass(Seconds(600));
  EXPECT_GT(server.Count<Renew>(), 200u);
  EXPECT_FALSE(server.Last<StepDown>());
  EXPECT_TRUE(server.Last<SayHello>()->hello.cells.at(0).leads);
}

TEST(LeaseLeading, ALeaderRenewsTwiceASecond) {
  ServerUnderTest server;
  server.BecomeLeader(3);
  server.Pass(Seconds(10));
  EXPECT_NEAR(static_cast<double>(server.Count<Renew>()), 20, 1);
  EXPECT_EQ(server.Last<Renew>()->cells.at(0).incarnation, server.row.incarnation);
  EXPECT_TRUE(server.Last<Renew>()->cells.at(0).up);
}

// ---- is the holder dead? ----

TEST(LeaseTake, TwoRefusalsAreEvidence) {
  ServerUnderTest server;
  server.Hear(kLeader, Leading(7, 3));
  server.Pass(Seconds(1));
  server.Mute(kLeader);
  server.Feed(LinkClosed{1});
  ASSERT_TRUE(server.Last<Connect>());
  server.Feed(ConnectRefused{1});
  EXPECT_FALSE(server.Last<Take>());
  server.Pass(Seconds(1));
  EXPECT_FALSE(server.Last<Take>());
  server.Feed(ConnectRefused{1});
  ASSERT_TRUE(server.Last<Take>());
  EXPECT_TRUE(server.Last<Take>()->has_evidence);
  EXPECT_EQ(server.Last<Take>()->seen, Incarnation(7));
  EXPECT_TRUE(server.Last<Lead>());
}

TEST(LeaseTake, AConnectWithoutAnAnswerIsNoRefusal) {
  ServerUnderTest server;
  server.Hear(kLeader, Leading(7, 3));
  server.Mute(kLeader);
  server.Feed(LinkClosed{1});
  for (int i = 0; i < 4; ++i) {
    server.Feed(ConnectRefused{1});
    server.Pass(Seconds(1));
    server.Feed(ConnectFailed{1});
    server.Pass(Seconds(1));
  }
  EXPECT_FALSE(server.Last<Take>());
}

TEST(LeaseTake, AnExpiredRowAloneIsNoReason) {
  ServerUnderTest server;
  server.Hear(kLeader, Leading(7, 3));
  server.row.has_expired = true;
  server.Pass(Seconds(600));
  EXPECT_FALSE(server.Last<Take>());
}

TEST(LeaseTake, SilenceAloneIsNoReason) {
  ServerUnderTest server;
  server.Hear(kLeader, Leading(7, 3));
  server.Pass(Seconds(1));
  server.Mute(kLeader);
  server.Pass(Seconds(600));
  EXPECT_FALSE(server.Last<Take>());
}

TEST(LeaseTake, SilenceAndAnExpiredRowAreAReason) {
  ServerUnderTest server;
  server.Hear(kLeader, Leading(7, 3));
  server.Pass(Seconds(1));
  server.Mute(kLeader);
  server.row.has_expired = true;
  server.Pass(kNearlySilent);
  EXPECT_FALSE(server.Last<Take>());
  server.Pass(Milliseconds(400));
  ASSERT_TRUE(server.Last<Take>());
  EXPECT_FALSE(server.Last<Take>()->has_evidence);
}

TEST(LeaseTake, WhoStartsOrSleptHasHeardNobodyAndSaysSo) {
  ServerUnderTest fresh({kCell, 7, kLeader, true});
  fresh.Pass(kNearlySilent);
  EXPECT_FALSE(fresh.Last<Take>());

  ServerUnderTest sleeper;
  sleeper.Hear(kLeader, Leading(7, 3));
  sleeper.row.has_expired = true;
  sleeper.now = sleeper.now + Seconds(20);
  sleeper.Mute(kLeader);
  sleeper.Feed(TimerFired{});
  sleeper.Pass(kNearlySilent);
  EXPECT_FALSE(sleeper.Last<Take>());
  sleeper.Pass(kSilent);
  EXPECT_TRUE(sleeper.Last<Take>());
}

TEST(LeaseTake, AnotherStartOfTheHolderIsNotTheHolder) {
  ServerUnderTest server;
  server.Hear({kLeader.server, 11}, {});
  server.row.has_expired = true;
  server.Pass(kSilent);
  EXPECT_TRUE(server.Last<Take>());
}

TEST(LeaseTake, ARowOfItsOwnEarlierStartIsTakenAtOnce) {
  ServerUnderTest server({kCell, 7, {kSelf.server, 19}, false});
  ASSERT_TRUE(server.Last<Take>());
  EXPECT_TRUE(server.Last<Take>()->has_evidence);
  EXPECT_EQ(server.Last<Lead>()->incarnation, Incarnation(8));
}

TEST(LeaseTake, AnAnswerThatWasLostIsFoundInTheRow) {
  ServerUnderTest server;
  server.is_away = true;
  server.Refuse(kLeader);
  EXPECT_EQ(server.Count<Take>(), 1u);
  server.is_away = false;
  server.row = {kCell, 8, kSelf, false};  // the statement had arrived
  server.Pass(Seconds(3));
  ASSERT_TRUE(server.Last<Lead>());
  EXPECT_EQ(server.Last<Lead>()->incarnation, Incarnation(9));
}

TEST(LeaseTake, ALateAnswerIsIgnored) {
  ServerUnderTest server;
  server.is_away = true;
  server.Refuse(kLeader);
  const Take take = *server.Last<Take>();
  server.Pass(Seconds(3));
  server.Feed(TakeAnswered{take.query, kCell, Incarnation(8)});
  EXPECT_FALSE(server.Last<Lead>());
}

TEST(LeaseTake, WhoComesTooLateReadsAgain) {
  ServerUnderTest server;
  server.Pass(Seconds(1));
  server.row = {kCell, 8, kThird, false};  // somebody else was quicker
  server.actions.clear();
  server.Refuse(kLeader);
  server.Pass(Seconds(5));
  EXPECT_FALSE(server.Last<Lead>());
  EXPECT_LE(server.Count<Take>(), 1u);
}

TEST(LeaseTake, NobodyTakesFromALeaderThatIsHeardWhateverTheRowSays) {
  ServerUnderTest server({kCell, 8, kThird, true});
  server.Hear(kLeader, Leading(7, 3));
  server.Refuse(kThird);
  server.Pass(Seconds(60));
  EXPECT_FALSE(server.Last<Take>());
}

// ---- workers that come ----

TEST(LeaseWorkers, TheyAreSentToTheLeaderThatIsHeardElseParked) {
  ServerUnderTest server;
  server.Hear(kLeader, Leading(7, 3));
  ASSERT_TRUE(server.Last<PlaceWorkers>());
  EXPECT_EQ(server.Last<PlaceWorkers>()->to, kLeader.server);
  server.Hear(kThird, Leading(9, 0));  // the higher one
  EXPECT_EQ(server.Last<PlaceWorkers>()->to, kThird.server);
  server.Mute(kThird);
  server.Mute(kLeader);
  server.Pass(Milliseconds(1200));
  EXPECT_FALSE(server.Last<PlaceWorkers>()->to.is_set());
}

TEST(LeaseWorkers, SuccessorsAreHeardPeersThoseWithThePackageFirst) {
  ServerUnderTest server;
  server.BecomeLeader(3);
  EXPECT_TRUE(server.leases().successors(kCell).empty());
  server.HearHello(kLeader, {kLeader.start, false, {}, {}});
  server.HearHello(kThird, {kThird.start, false, {}, {kCell}});
  const std::vector<ServerId> both = {kThird.server, kLeader.server};
  EXPECT_EQ(server.leases().successors(kCell), both);
  server.HearHello(kLeader, {kLeader.start, false, {}, {kCell}});
  server.HearHello(kThird, {kThird.start, false, {}, {}});
  EXPECT_EQ(server.leases().successors(kCell).front(), kLeader.server);
  server.HearHello(kLeader, {kLeader.start, true, {}, {kCell}});  // it wants to go
  EXPECT_EQ(server.leases().successors(kCell), std::vector<ServerId>{kThird.server});
}

// ---- deposed ----

TEST(LeaseContest, TheLeaseFollowsTheWorkers) {
  ServerUnderTest server;
  server.BecomeLeader(3);
  server.row = {kCell, 20, kThird, false};
  server.Hear(kThird, Leading(20, 0));
  server.Pass(Seconds(1));
  ASSERT_TRUE(server.Last<Raise>());
  EXPECT_EQ(server.Last<Raise>()->incarnation, Incarnation(21));
  EXPECT_EQ(server.row.holder, kSelf);
  EXPECT_FALSE(server.Last<StepDown>());
}

TEST(LeaseContest, TheHigherOneStaysWhereBothHaveWorkers) {
  ServerUnderTest server;
  server.BecomeLeader(3);
  server.is_away = true;  // the hello is enough
  server.Hear(kThird, Leading(20, 1));
  ASSERT_TRUE(server.Last<StepDown>());
  EXPECT_EQ(server.Last<StepDown>()->to, kThird.server);
  EXPECT_EQ(server.Last<PlaceWorkers>()->to, kThird.server);
}

TEST(LeaseContest, WhoHasNoWorkersStepsDown) {
  ServerUnderTest server;
  server.BecomeLeader(0);
  server.row = {kCell, 20, kThird, false};
  server.Pass(Seconds(1));
  EXPECT_TRUE(server.Last<StepDown>());
  EXPECT_FALSE(server.Last<Take>());
}

TEST(LeaseContest, ACellThatWasDeletedIsLedNoMore) {
  ServerUnderTest server;
  server.BecomeLeader(3);
  server.has_row = false;
  server.Pass(Seconds(1));
  ASSERT_TRUE(server.Last<StepDown>());
  server.actions.clear();
  server.Pass(Seconds(10));
  EXPECT_FALSE(server.Last<Take>());
  EXPECT_NEAR(static_cast<double>(server.Count<ReadTables>()), 20, 1);
}

TEST(LeaseContest, AHolderThatIsRefusedLosesItAgain) {
  ServerUnderTest server;
  server.BecomeLeader(3);
  server.Refuse(kThird);
  server.row = {kCell, 20, kThird, false};
  server.Pass(Seconds(1));
  EXPECT_TRUE(server.Last<Raise>());
}

TEST(LeaseContest, AHolderThatIsNeitherHeardNorRefusedIsWaitedFor) {
  ServerUnderTest server;
  server.BecomeLeader(3);
  server.Hear(kThird, {});
  server.Mute(kThird);
  server.Pass(Seconds(2));
  server.row = {kCell, 20, kThird, false};
  server.Pass(Seconds(60));
  EXPECT_FALSE(server.Last<StepDown>());
  EXPECT_FALSE(server.Last<Take>());
  server.row.has_expired = true;
  server.Pass(Seconds(2));
  EXPECT_TRUE(server.Last<Raise>());
}

TEST(LeaseContest, AnIsolatedLeaderGoesOn) {
  ServerUnderTest server;
  server.Hear(kThird, {});
  server.BecomeLeader(3);
  server.Mute(kThird);
  server.Feed(LinkClosed{kThird.server});
  server.is_away = true;
  server.row = {kCell, 20, kThird, false};  // which it cannot know
  for (int i = 0; i < 60; ++i) {
    server.Pass(Seconds(10));
    server.Feed(ConnectFailed{kThird.server});
  }
  EXPECT_FALSE(server.Last<StepDown>());
  // The line is back: the other one has no workers.
  server.is_away = false;
  server.Hear(kThird, Leading(20, 0));
  server.Pass(Seconds(1));
  EXPECT_TRUE(server.Last<Raise>());
  EXPECT_FALSE(server.Last<StepDown>());
}

// ---- the database goes back ----

TEST(LeaseLoss, ALeaderTakesARowThatWentBackAboveItsOwn) {
  ServerUnderTest server({kCell, 30, kLeader, false});
  server.BecomeLeader(3);
  server.row = {kCell, 5, kThird, false};
  server.Pass(Seconds(1));
  ASSERT_TRUE(server.Last<Raise>());
  EXPECT_EQ(server.Last<Take>()->seen, Incarnation(5));
  EXPECT_GE(server.Last<Take>()->above, Incarnation(31));
  EXPECT_EQ(server.Last<Raise>()->incarnation, Incarnation(32));
}

TEST(LeaseLoss, AWorkerThatHasSeenMoreRaisesTheLease) {
  ServerUnderTest server;
  server.BecomeLeader(3);
  server.Feed(WorkerSaw{kCell, 50});
  server.Pass(Seconds(1));
  ASSERT_TRUE(server.Last<Raise>());
  EXPECT_EQ(server.Last<Raise>()->incarnation, Incarnation(51));
  server.actions.clear();
  server.Feed(WorkerSaw{kCell, 50});
  server.Pass(Seconds(1));
  EXPECT_FALSE(server.Last<Take>());
}

TEST(LeaseLoss, AWorkerIsNotBelievedEverything) {
  ServerUnderTest server;
  server.BecomeLeader(3);
  server.Feed(WorkerSaw{kCell, Incarnation(UINT64_MAX)});
  server.Feed(WorkerSaw{77, 50});  // of a cell that nobody knows
  server.Pass(Seconds(1));
  EXPECT_FALSE(server.Last<Take>());
  EXPECT_EQ(server.Last<SayHello>()->hello.cells.size(), 1u);
}

// ---- wrong evidence ----

// A firewall refuses the leader: the server takes, and loses the cell to it at once.
void TakeWrongly(ServerUnderTest& server) {
  server.Refuse(kLeader);
  ASSERT_TRUE(server.Last<Lead>());
  server.row = {kCell, server.row.incarnation.Next(), kLeader, false};
  server.Pass(Seconds(1));
  ASSERT_TRUE(server.Last<StepDown>());
  server.actions.clear();
}

TEST(LeaseDistrust, WhoLosesWhatRefusalsGaveBelievesNoneForAWhile) {
  ServerUnderTest server;
  TakeWrongly(server);
  server.Pass(Seconds(27));
  EXPECT_FALSE(server.Last<Take>());
  server.Pass(Seconds(3));
  ASSERT_TRUE(server.Last<Take>());
  // Twice as long the second time.
  server.row = {kCell, 40, kLeader, false};
  server.Pass(Seconds(1));
  server.actions.clear();
  server.Pass(Seconds(56));
  EXPECT_FALSE(server.Last<Take>());
  server.Pass(Seconds(5));
  EXPECT_TRUE(server.Last<Take>());
}

TEST(LeaseDistrust, ALeaderOnProbationFollowsTheRow) {
  ServerUnderTest server;
  server.Refuse(kLeader);
  server.Feed(WorkersCounted{kCell, 3, true});
  server.row = {kCell, 20, kLeader, false};
  server.actions.clear();
  server.Pass(Seconds(1));
  ASSERT_TRUE(server.Last<StepDown>());
  EXPECT_EQ(server.Last<StepDown>()->to, kLeader.server);
}

TEST(LeaseDistrust, SilenceCountsAllTheSame) {
  ServerUnderTest server;
  TakeWrongly(server);
  server.row.has_expired = true;
  server.Pass(Seconds(3));
  ASSERT_TRUE(server.Last<Take>());
  EXPECT_FALSE(server.Last<Take>()->has_evidence);
}

// ---- drain ----

TEST(LeaseDrain, ALeaderHandsOverToItsFirstSuccessor) {
  ServerUnderTest server;
  server.BecomeLeader(3);
  server.HearHello(kThird, {kThird.start, false, {}, {kCell}});
  server.Feed(DrainAsked{});
  ASSERT_TRUE(server.Last<HandOver>());
  EXPECT_EQ(server.Last<HandOver>()->to, kThird);
  EXPECT_FALSE(server.leases().is_drained());
  EXPECT_FALSE(server.Last<StepDown>());
  server.row.holder = kThird;
  server.Feed(HandedOver{kCell, true});
  ASSERT_TRUE(server.Last<StepDown>());
  EXPECT_EQ(server.Last<StepDown>()->to, kThird.server);
  const CellState told = server.Last<SayHello>()->hello.cells.at(0);
  EXPECT_FALSE(told.leads);
  EXPECT_EQ(told.given_to, kThird.server);
  EXPECT_TRUE(server.leases().is_drained());
}

TEST(LeaseDrain, TheSuccessorTakesAtOnce) {
  ServerUnderTest server;
  server.Hear(kLeader, {kCell, false, 7, false, 0, kSelf.server});
  ASSERT_TRUE(server.Last<Take>());
  EXPECT_TRUE(server.Last<Take>()->has_evidence);
  EXPECT_TRUE(server.Last<Lead>());
}

TEST(LeaseDrain, AHandOverThatFailsIsTriedAgain) {
  ServerUnderTest server;
  server.BecomeLeader(3);
  server.Hear(kThird, {});
  server.Feed(DrainAsked{});
  server.Feed(HandedOver{kCell, false});
  EXPECT_EQ(server.Count<HandOver>(), 1u);
  server.Pass(Milliseconds(900));
  EXPECT_EQ(server.Count<HandOver>(), 1u);
  server.Pass(Milliseconds(400));
  EXPECT_EQ(server.Count<HandOver>(), 2u);
  EXPECT_FALSE(server.Last<StepDown>());
}

TEST(LeaseDrain, AHandOverThatWasDoneWithoutAWordEnds) {
  ServerUnderTest server;
  server.BecomeLeader(3);
  server.Hear(kThird, {});
  server.Feed(DrainAsked{});
  server.row = {kCell, server.row.incarnation, kThird, true};
  server.Feed(HandedOver{kCell, false});  // as far as the host knows
  server.Pass(Seconds(2));
  ASSERT_TRUE(server.Last<StepDown>());
  EXPECT_EQ(server.Last<StepDown>()->to, kThird.server);
}

TEST(LeaseDrain, WhoIsDrainedTakesNothingAndIsTakenFrom) {
  ServerUnderTest drained;
  drained.Feed(DrainAsked{});
  drained.Refuse(kLeader);
  drained.row.has_expired = true;
  drained.Pass(Seconds(60));
  EXPECT_FALSE(drained.Last<Take>());

  ServerUnderTest other;
  other.HearHello(kLeader, {kLeader.start, true, {}, {}});
  other.Pass(Seconds(1));
  ASSERT_TRUE(other.Last<Take>());
  EXPECT_TRUE(other.Last<Take>()->has_evidence);
}

// ---- questions ----

TEST(Leases, OneQuestionOfAKindIsOpenAtATime) {
  ServerUnderTest server;
  server.BecomeLeader(3);
  server.is_away = true;
  server.Pass(Seconds(20));
  EXPECT_NEAR(static_cast<double>(server.Count<Renew>()), 10, 1);
  EXPECT_NEAR(static_cast<double>(server.Count<ReadTables>()), 10, 1);
}

TEST(Leases, AnErrorIsNotWaitedFor) {
  ServerUnderTest server;
  server.is_away = true;
  server.Refuse(kLeader);
  ASSERT_TRUE(server.Last<Take>());
  const QueryId query = server.Last<Take>()->query;
  server.is_away = false;
  server.Feed(QueryFailed{query});
  server.Pass(Seconds(3));
  EXPECT_GE(server.Count<Take>(), 2u);
  EXPECT_TRUE(server.Last<Lead>());
}

TEST(Leases, HellosGoFourTimesASecondAndToANewLinkAtOnce) {
  ServerUnderTest server;
  server.actions.clear();
  server.Pass(Seconds(10));
  EXPECT_NEAR(static_cast<double>(server.Count<SayHello>()), 40, 1);
  server.actions.clear();
  server.Feed(LinkOpened{kThird.server});
  EXPECT_EQ(server.Count<SayHello>(), 1u);
}

}  // namespace
}  // namespace weft::cluster
