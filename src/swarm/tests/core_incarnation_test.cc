// Which of two starts of a server counts: numbers that rise, workers that have seen a later start,
// and workers and placements from before there were any.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/sha256.h"
#include "swarm/incarnation.h"
#include "swarm/tests/core_testing.h"

namespace weft::swarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using wire::pb::ServerMessage;

CoreOptions OptionsOf(uint64_t incarnation) {
  CoreOptions options = TestOptions();
  options.incarnation = incarnation;
  return options;
}

wire::pb::Init InitOf(const TestSwarm& swarm, WorkerId id) {
  return swarm.Last(id, ServerMessage::kInit).init();
}

// Connects a worker that has seen this.
WorkerId JoinHavingSeen(TestSwarm& swarm, uint64_t seen, const std::string& token = "") {
  TestWorker worker;
  worker.token = token;
  const WorkerId id = swarm.Open(worker);
  wire::pb::WorkerMessage connect = swarm.ConnectOf(id);
  connect.mutable_connect()->set_seen_incarnation(seen);
  swarm.Control(id, connect);
  return id;
}

TEST(Incarnations, TheNextOneIsAboveTheLastAndOtherwiseTheClock) {
  EXPECT_EQ(NextIncarnation(0, 1'795'574'400'123), 1'795'574'400'123u);
  EXPECT_EQ(NextIncarnation(1'795'574'400'123, 1'795'574'460'500), 1'795'574'460'500u);
  EXPECT_EQ(NextIncarnation(1'795'574'460'500, 1'795'570'000'000), 1'795'574'460'501u);
  EXPECT_EQ(NextIncarnation(7, 7), 8u);
  EXPECT_EQ(NextIncarnation(0, 0), 1u) << "0 is that of servers which know none";
  EXPECT_EQ(NextIncarnation(3, -5), 4u);
}

TEST(Incarnations, InitNamesItAndTheSuccessors) {
  CoreOptions options = OptionsOf(7);
  options.successors = {{"wss://b:8443", "ab12"}, {"wss://c:8443", ""}};
  TestSwarm swarm(options);
  const auto init = InitOf(swarm, swarm.Open());
  EXPECT_EQ(init.incarnation(), 7u);
  ASSERT_EQ(init.successors_size(), 2);
  EXPECT_EQ(init.successors(0).url(), "wss://b:8443");
  EXPECT_EQ(init.successors(0).fingerprint(), "ab12");
  EXPECT_EQ(init.successors(1).fingerprint(), "");
}

TEST(Incarnations, WhoHasSeenNoneOrThisOneIsServed) {
  TestSwarm swarm(OptionsOf(7));
  for (const uint64_t seen : {0u, 1u, 7u})
    EXPECT_THAT(swarm.CloseReasons(JoinHavingSeen(swarm, seen)), IsEmpty()) << seen;
  EXPECT_EQ(swarm.core().placement().incarnation, 7u);
}

TEST(Incarnations, WhoHasSeenALaterOneIsNotServedUntilTheServerIsAboveIt) {
  TestSwarm swarm(OptionsOf(7));
  const uint64_t version = swarm.core().placement_version();
  const WorkerId ahead = JoinHavingSeen(swarm, 9);
  EXPECT_THAT(swarm.CloseReasons(ahead), ElementsAre(HasSubstr("incarnation 10")));
  EXPECT_THAT(swarm.Sent(ahead), Not(HasSubstr("refused"))) << "it is to come again at once";
  EXPECT_THAT(swarm.picture().workers, IsEmpty());
  EXPECT_EQ(swarm.core().placement().incarnation, 10u);
  EXPECT_GT(swarm.core().placement_version(), version) << "so that it is recorded";
  EXPECT_EQ(InitOf(swarm, swarm.Open()).incarnation(), 10u);
  EXPECT_THAT(swarm.CloseReasons(JoinHavingSeen(swarm, 10)), IsEmpty());
}

// Two devices come back at once: the first one raises the server's number, the second one still has
// heard the old one, and is about to hang up.
TEST(Incarnations, WhoHasHeardALowerOneIsNotServed) {
  TestSwarm swarm(OptionsOf(7));
  const WorkerId second = swarm.Open();
  JoinHavingSeen(swarm, 9);
  wire::pb::WorkerMessage connect = swarm.ConnectOf(second);
  connect.mutable_connect()->set_seen_incarnation(9);
  swarm.Control(second, connect);
  EXPECT_THAT(swarm.CloseReasons(second), ElementsAre(HasSubstr("incarnation 10")));
  EXPECT_THAT(swarm.picture().workers, IsEmpty());
}

// Of a server whose incarnations others give.
TEST(Incarnations, WhoGivesThemIsToldOfALaterOneAndRaisesIt) {
  CoreOptions options = OptionsOf(7);
  std::vector<uint64_t> told;
  options.tell_seen = [&](uint64_t seen) { told.push_back(seen); };
  TestSwarm swarm(options);
  EXPECT_THAT(swarm.CloseReasons(JoinHavingSeen(swarm, 9)), Not(IsEmpty()));
  EXPECT_THAT(told, ElementsAre(9u));
  EXPECT_EQ(InitOf(swarm, swarm.Open()).incarnation(), 7u) << "not by itself";
  swarm.Feed(LeadershipChanged{12, {}});
  EXPECT_EQ(InitOf(swarm, swarm.Open()).incarnation(), 12u);
  EXPECT_THAT(swarm.CloseReasons(JoinHavingSeen(swarm, 9)), IsEmpty());
  EXPECT_EQ(swarm.core().placement().incarnation, 12u);
  swarm.Feed(LeadershipChanged{8, {}});
  EXPECT_EQ(swarm.core().placement().incarnation, 12u) << "it never falls";
}

TEST(Incarnations, MembersHearOfOtherSuccessorsWithOnePing) {
  TestSwarm swarm(OptionsOf(7));
  swarm.BringUp(1);
  const WorkerId member = swarm.picture().workers[0].id;
  const WorkerId stranger = swarm.Open();
  swarm.Feed(LeadershipChanged{7, {{"wss://b:8443", "ab12"}, {"wss://c:8443", ""}}});
  swarm.Advance(Seconds(1));
  swarm.Feed(LeadershipChanged{7, {{"wss://b:8443", "ab12"}, {"wss://c:8443", ""}}});
  swarm.Advance(Seconds(1));
  EXPECT_EQ(InitOf(swarm, swarm.Open()).successors_size(), 2);
  EXPECT_EQ(swarm.SuccessorsInPings(member), "wss://b:8443 wss://c:8443 | ");
  EXPECT_EQ(swarm.SuccessorsInPings(stranger), "") << "its Init may have told others";
  swarm.Feed(LeadershipChanged{7, {}});
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.SuccessorsInPings(member), "wss://b:8443 wss://c:8443 | | ");
}

TEST(Incarnations, WhatADeviceHoldsIsUsedWhenItComesAgain) {
  TestSwarm swarm(OptionsOf(9));
  swarm.BringUp(1);
  const WorkerId worker = swarm.picture().workers[0].id;
  const auto held = swarm.bindings(worker);
  swarm.Restart([](CoreOptions& options) { options.incarnation = 7; });  // the clock was set back
  TestWorker same;
  same.device_id = "device" + ToString(worker);
  const WorkerId first = swarm.Open(same);
  wire::pb::WorkerMessage connect = swarm.ConnectOf(first);
  connect.mutable_connect()->set_seen_incarnation(9);
  swarm.Control(first, connect);
  EXPECT_THAT(swarm.CloseReasons(first), Not(IsEmpty()));
  const WorkerId back = swarm.Return(worker);
  EXPECT_EQ(InitOf(swarm, back).incarnation(), 10u);
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp) << "without loading anything";
  EXPECT_EQ(swarm.core().placement().stages.at(0).binding, held.at(0).id);
}

TEST(Incarnations, WhatNobodyCanHaveSeenIsRefused) {
  TestSwarm swarm(OptionsOf(7));
  const WorkerId liar = JoinHavingSeen(swarm, std::numeric_limits<uint64_t>::max());
  EXPECT_THAT(swarm.CloseReasons(liar), ElementsAre(HasSubstr("expected at most 4398046511111")));
  EXPECT_EQ(swarm.Last(liar, ServerMessage::kRefused).refused().code(), "invalid_data");
  EXPECT_EQ(swarm.core().placement().incarnation, 7u);
}

TEST(Incarnations, AStrangerRaisesNothing) {
  CoreOptions options = OptionsOf(7);
  options.join_token_sha256_hex = ToHex(Sha256(AsBytes("open sesame")));
  TestSwarm swarm(options);
  JoinHavingSeen(swarm, 9, "guessed");
  EXPECT_EQ(swarm.core().placement().incarnation, 7u);
  JoinHavingSeen(swarm, 9, "open sesame");
  EXPECT_EQ(swarm.core().placement().incarnation, 10u);
}

TEST(Incarnations, APlacementWithoutAnyRoomAboveIsNotUsed) {
  TestSwarm swarm(OptionsOf(7));
  swarm.BringUp(1);
  Placement placement = swarm.core().placement();
  EXPECT_TRUE(CheckPlacement(placement, 6).ok());
  placement.incarnation = kMostIncarnation;
  const Status status = CheckPlacement(placement, 6);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(), HasSubstr("used up its incarnations"));
}

}  // namespace
}  // namespace weft::swarm
