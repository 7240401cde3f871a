// How far stages are with a session: what a binding takes over from another of its worker, who goes
// back when something changes, and which kept rows go first.
#include "swarm/flow/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/bytes.h"
#include "swarm/flow/mark_positions.h"

namespace weft::swarm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

BoundStage Bound(uint32_t binding, WorkerId worker, uint32_t first, uint32_t end) {
  return {BindingId(binding), worker, 0, {first, end}};
}

// A stage that has computed so many positions.
StageProgress& At(Session& session, const BoundStage& stage, uint32_t held) {
  StageProgress& progress = session.Track(stage);
  progress.sent = progress.held = held;
  return progress;
}

void Keep(Session& session, uint32_t layer, uint32_t first, uint32_t count) {
  session.history[layer].Append(first, count, std::vector<uint8_t>(count * 8));
}

// The numbers of its bindings.
std::vector<uint32_t> Tracked(const Session& session) {
  std::vector<uint32_t> bindings;
  for (const StageProgress& stage : session.progress) bindings.push_back(stage.binding.value());
  return bindings;
}

// Three devices had it: one all of it, one the first layers, and one that stood by a part of them.
TEST(Adopt, OfEachLayerTheDeviceThatHoldsTheMostCounts) {
  const SessionTrace trace{SessionId(4), 7, 9};
  Session session;
  session.tokens.resize(100);
  session.Adopt({{Bound(1, 7, 0, 3), 8, 90, {}},
                 {Bound(2, 8, 3, 6), 8, 80, {}},
                 {Bound(3, 9, 0, 6), 8, 20, {}}},
                trace);
  EXPECT_EQ(session.completed, 80u);
  EXPECT_EQ(session.Find(BindingId(1))->held, 80u);
  EXPECT_EQ(session.Find(BindingId(3))->held, 20u);
  EXPECT_THAT(session.Holders(), ElementsAre(BindingId(1), BindingId(2)));
}

// The second device has a part, and the third one rows of another request.
TEST(Claims, WhoHoldsAllOfASession) {
  const SessionTrace trace{SessionId(4), 7, 9};
  Claims claims;
  claims.Note(trace.session, {Bound(1, 7, 0, 6), 8, 90, {}}, Instant{1});
  claims.Note(trace.session, {Bound(2, 8, 0, 6), 8, 40, {}}, Instant{1});
  claims.Note(trace.session, {Bound(3, 9, 0, 6), 6, 90, {}}, Instant{1});
  EXPECT_THAT(claims.HoldersOf(trace, 80), ElementsAre(BindingId(1)));
  EXPECT_THAT(claims.HoldersOf({SessionId(5), 7, 9}, 80), IsEmpty());
  EXPECT_THAT(claims.BindingsOf(trace.session), testing::SizeIs(3));
}

// Two old sessions of another device do not keep it out, and go when their places are needed.
TEST(Claims, OldSessionsKeepNobodyOut) {
  SessionTable table(2);
  for (const uint32_t id : {1, 2, 3})
    table.NoteClaim(SessionId(id), {Bound(id, WorkerId(id), 0, 6), 8, 9, {}}, Instant{id});
  ActiveRequest active;
  active.request.prompt_ids.resize(10);
  active.request.resume = SessionTrace{SessionId(3), 7, 9};
  std::vector<SessionId> released;
  EXPECT_EQ(table.Admit(std::move(active), released).completed, 9u);
  EXPECT_THAT(released, ElementsAre(SessionId(1)));
  EXPECT_TRUE(table.claims().Has(SessionId(2)));
  table.NoteClaim(SessionId(4), {Bound(4, 4, 0, 6), 8, 9, {}}, Instant{9});
  EXPECT_FALSE(table.claims().Has(SessionId(4)));
}

TEST(Track, AStageIsFoundAgain) {
  Session session;
  At(session, Bound(1, 7, 0, 3), 20);
  EXPECT_EQ(session.Track(Bound(1, 7, 0, 3)).held, 20u);
  EXPECT_THAT(Tracked(session), ElementsAre(1));
}

TEST(Track, ANewWorkerBeginsWithNothing) {
  Session session;
  const uint32_t before = At(session, Bound(1, 7, 0, 3), 20).generation;
  const StageProgress& fresh = session.Track(Bound(2, 8, 0, 3));
  EXPECT_EQ(fresh.held, 0u);
  EXPECT_EQ(fresh.sent, 0u);
  EXPECT_NE(fresh.generation, before);
  EXPECT_EQ(session.Find(BindingId(1))->held, 20u);
}

// Keys and values are a layer's: a part of what a worker ran, and two of its ranges as one.
TEST(Track, ABindingBeginsWithWhatItsWorkerHoldsInAllItsLayers) {
  Session session;
  At(session, Bound(1, 7, 0, 4), 20);
  EXPECT_EQ(session.Track(Bound(2, 7, 1, 3)).held, 20u);
  EXPECT_THAT(Tracked(session), ElementsAre(2)) << "the other one shares layers with it";

  Session merged;
  At(merged, Bound(1, 7, 0, 2), 20);
  At(merged, Bound(2, 7, 2, 4), 12);
  const uint32_t generation = merged.Find(BindingId(1))->generation;
  const StageProgress& both = merged.Track(Bound(3, 7, 0, 4));
  EXPECT_EQ(both.held, 12u) << "as far as all its layers are";
  EXPECT_EQ(both.sent, 12u);
  EXPECT_GT(both.generation, generation) << "layers 0 and 1 have to be cut back";
  EXPECT_THAT(Tracked(merged), ElementsAre(3));

  Session wider;
  At(wider, Bound(1, 7, 0, 2), 20);
  EXPECT_EQ(wider.Track(Bound(2, 7, 0, 3)).held, 0u) << "layer 2 is new on this worker";
}

TEST(Track, OtherWorkersAndOtherLayersAreLeftAlone) {
  Session session;
  At(session, Bound(1, 7, 0, 2), 20);
  At(session, Bound(2, 7, 4, 6), 19);
  At(session, Bound(3, 8, 2, 4), 18);
  EXPECT_EQ(session.Track(Bound(4, 8, 0, 2)).held, 0u) << "worker 7 has it, not worker 8";
  EXPECT_THAT(Tracked(session), ElementsAre(1, 2, 3, 4));
}

TEST(Track, WhatIsOnItsWayIsNotCountedAsHeld) {
  Session session;
  StageProgress& busy = At(session, Bound(1, 7, 0, 4), 20);
  busy.sent = 28;
  EXPECT_EQ(session.Track(Bound(2, 7, 0, 2)).sent, 20u);
}

TEST(Rewind, OnlyTouchesStagesThatWereSentMore) {
  Session session;
  session.completed = 20;
  At(session, Bound(1, 7, 0, 2), 20);
  At(session, Bound(2, 8, 2, 4), 12);  // took over a moment ago
  At(session, Bound(3, 9, 4, 6), 20).sent = 24;
  Keep(session, 2, 0, 20);
  Keep(session, 4, 0, 24);
  const uint32_t lagging = session.Find(BindingId(2))->generation;
  const uint32_t first = session.Find(BindingId(1))->generation;
  session.Rewind(20);
  EXPECT_EQ(session.Find(BindingId(1))->generation, first) << "it goes on where it is";
  EXPECT_EQ(session.Find(BindingId(3))->sent, 20u) << "what is on its way is wanted no more";
  EXPECT_GT(session.Find(BindingId(3))->generation, first);
  session.Rewind(16);
  EXPECT_EQ(session.Find(BindingId(1))->held, 16u);
  EXPECT_EQ(session.Find(BindingId(3))->held, 16u);
  EXPECT_EQ(session.Find(BindingId(2))->held, 12u);
  EXPECT_EQ(session.Find(BindingId(2))->generation, lagging);
  EXPECT_EQ(session.completed, 16u);
  EXPECT_EQ(session.history.at(2).end(), 16u);
  EXPECT_EQ(session.history.at(4).end(), 16u);
}

TEST(Rewind, GenerationsRiseThroughTheSession) {
  Session session;
  StageProgress& one = At(session, Bound(1, 7, 0, 2), 20);
  StageProgress& two = At(session, Bound(2, 8, 2, 4), 20);
  uint32_t last = std::max(one.generation, two.generation);
  for (StageProgress* stage : {&one, &two, &one, &one, &two}) {
    session.RewindStage(*stage, stage->held);
    EXPECT_GT(stage->generation, last);
    last = stage->generation;
  }
}

TEST(Rewind, OfOneStageLeavesTheOthersAndTheHistory) {
  Session session;
  session.completed = 20;
  StageProgress& one = At(session, Bound(1, 7, 0, 2), 20);
  StageProgress& two = At(session, Bound(2, 8, 2, 4), 20);
  Keep(session, 2, 0, 20);
  const uint32_t generation = one.generation;
  session.RewindStage(two, 8);
  EXPECT_EQ(two.held, 8u);
  EXPECT_EQ(two.sent, 8u);
  session.RewindStage(two, 12);
  EXPECT_EQ(two.held, 8u) << "it holds no more than that";
  EXPECT_EQ(one.generation, generation);
  EXPECT_EQ(session.history.at(2).end(), 20u);
  EXPECT_EQ(session.completed, 20u);
}

// The first failure may have any reason. A second one at the same place may be that the stage lost
// what it is believed to hold.
TEST(Rewind, AfterASecondFailureAtTheSamePlaceTheStageBeginsAtZero) {
  Session session;
  StageProgress& stage = At(session, Bound(1, 7, 0, 2), 20);
  stage.sent = 24;
  EXPECT_FALSE(session.RewindAfterFailure(stage));
  EXPECT_EQ(stage.sent, 20u);
  stage.sent = stage.held = 22;  // it got further
  EXPECT_FALSE(session.RewindAfterFailure(stage));
  EXPECT_EQ(stage.sent, 22u);
  EXPECT_TRUE(session.RewindAfterFailure(stage));
  EXPECT_EQ(stage.sent, 0u);
  // There is nothing left to doubt.
  EXPECT_FALSE(session.RewindAfterFailure(stage));
}

// ---- what counts once ----

std::vector<int32_t> Alike(int32_t message) {
  std::vector<int32_t> prompt(40, 7);
  prompt.insert(prompt.end(), 10, message);
  return prompt;
}

ActiveRequest RequestFor(RequestId id, std::vector<int32_t> prompt) {
  ActiveRequest active;
  active.prompt_tokens = static_cast<uint32_t>(prompt.size());
  active.request.id = id;
  active.request.prompt_ids = std::move(prompt);
  return active;
}

TEST(CountLiveRows, PositionsThatSessionsHaveInCommonCountOnce) {
  SessionTable table(4);
  std::vector<SessionId> released;
  for (const int32_t message : {1, 2, 3}) {
    Session& session = table.Admit(
        RequestFor(RequestId(static_cast<uint32_t>(message)), Alike(message)), released);
    session.completed = 50;
  }
  EXPECT_EQ(table.CountLiveRows(), 40u + 3 * 10);
  // Of one that is still to compute the beginning, it is no other one's yet.
  table.Find(SessionId(1))->completed = 8;
  EXPECT_EQ(table.CountLiveRows(), 8u + 42 + 10);
  table.Find(SessionId(2))->completed = 0;
  EXPECT_EQ(table.CountLiveRows(), 8u + 42);
  table.MakeIdle(*table.Find(SessionId(1)), Instant{1});
  EXPECT_EQ(table.CountLiveRows(), 50u);
}

// ---- which rows go first ----

// Three sessions with 10 rows of 8 bytes in front of the layers 2 and 4 each: the second one idle
// for longest, then the third one, and the first one active.
struct ThreeSessions {
  ThreeSessions() {
    std::vector<SessionId> released;
    for (RequestId id = 1; id <= 3; ++id) {
      Session& session = table.Admit(
          RequestFor(id, std::vector<int32_t>(10, static_cast<int32_t>(id.value() * 100))),
          released);
      session.completed = 10;
      for (uint32_t at = 0; at < 10; at += 2)
        for (const uint32_t layer : {2u, 4u}) Keep(session, layer, at, 2);
    }
    table.MakeIdle(*table.Find(SessionId(2)), Instant{5});
    table.MakeIdle(*table.Find(SessionId(3)), Instant{6});
  }
  // Where the rows in front of this layer begin that are still kept.
  uint32_t KeptFrom(uint32_t session, uint32_t layer) {
    return table.Find(SessionId(session))->history.at(layer).first();
  }
  void Trim(uint64_t budget) {
    table.TrimHistory(budget, [this](const Session&, uint32_t) { return keep_from; });
  }
  SessionTable table{3};
  uint32_t keep_from = 10;  // everybody has been sent everything
};

TEST(TrimHistory, WithinTheBudgetNothingGoes) {
  ThreeSessions three;
  three.Trim(480);
  EXPECT_EQ(three.table.history_bytes(), 480u);
}

TEST(TrimHistory, TheSessionThatIsIdleForLongestLosesTheCutNearestToTheTokensFirst) {
  ThreeSessions three;
  three.Trim(479);
  EXPECT_EQ(three.KeptFrom(2, 2), 10u) << "made again by the first stage alone";
  EXPECT_EQ(three.KeptFrom(2, 4), 0u);
  EXPECT_EQ(three.table.history_bytes(), 400u);
  three.Trim(399);
  EXPECT_EQ(three.KeptFrom(2, 4), 10u);
  EXPECT_EQ(three.KeptFrom(3, 2), 0u);
  three.Trim(161);
  EXPECT_EQ(three.KeptFrom(3, 2), 10u);
  EXPECT_EQ(three.KeptFrom(3, 4), 10u);
  EXPECT_EQ(three.KeptFrom(1, 2), 0u) << "those that somebody waits for go last";
  three.Trim(100);
  EXPECT_EQ(three.KeptFrom(1, 2), 10u);
  EXPECT_EQ(three.KeptFrom(1, 4), 0u);
}

TEST(TrimHistory, RowsThatSomebodyHasNotBeenSentStay) {
  ThreeSessions three;
  three.keep_from = 4;
  three.Trim(0);
  for (const uint32_t session : {1u, 2u, 3u})
    for (const uint32_t layer : {2u, 4u}) EXPECT_EQ(three.KeptFrom(session, layer), 4u);
  EXPECT_EQ(three.table.history_bytes(), 3 * 2 * 6 * 8u);
}

// ---- the table ----

TEST(SessionTable, AnIdleSessionKeepsWhatEveryStageHoldsOfIt) {
  SessionTable table(2);
  std::vector<SessionId> released;
  Session& session = table.Admit(RequestFor(1, {1, 2, 3, 4, 5, 6}), released);
  session.completed = 4;
  At(session, Bound(1, 7, 0, 2), 5).sent = 6;
  At(session, Bound(2, 8, 2, 4), 2).sent = 4;  // behind
  Keep(session, 2, 0, 5);
  table.MakeIdle(session, Instant{1});
  EXPECT_EQ(session.tokens, (std::vector<int32_t>{1, 2, 3, 4}));
  EXPECT_EQ(session.Find(BindingId(1))->sent, 4u);
  EXPECT_EQ(session.Find(BindingId(2))->sent, 4u) << "what is on its way to it is still good";
  EXPECT_EQ(session.history.at(2).end(), 4u);
  // The next turn goes back for those alone that are further.
  Session& again = table.Admit(RequestFor(2, {1, 2, 3, 9}), released);
  EXPECT_EQ(again.id, session.id);
  EXPECT_EQ(again.active->cached_prompt_tokens, 3u);
  EXPECT_EQ(again.Find(BindingId(1))->held, 3u);
  EXPECT_EQ(again.Find(BindingId(2))->held, 2u);
  EXPECT_EQ(again.history.at(2).end(), 3u);
  EXPECT_THAT(released, IsEmpty());
}

// ---- what devices hold of an earlier core ----

ActiveRequest ResumedAs(RequestId id, std::vector<int32_t> prompt, SessionTrace trace) {
  ActiveRequest active = RequestFor(id, std::move(prompt));
  active.request.resume = trace;
  return active;
}

TEST(SessionClaims, WhoseLayersAreElsewhereEndsWhenItIsAskedFor) {
  SessionTable table(3);
  table.NoteClaim(7, {Bound(1, 7, 0, 2), 12, 4, {}}, Instant{60'000'000});
  table.claims().Forget([](const BoundStage& stage) { return stage.binding == BindingId(1); });
  std::vector<SessionId> released;
  const Session& session = table.Admit(ResumedAs(1, {1, 2, 3, 4}, {7, 11, 13}), released);
  EXPECT_NE(session.id, SessionId(7));
  EXPECT_THAT(released, testing::ElementsAre(SessionId(7)))
      << "devices would count it for ever, and refuse another one";
}

TEST(SessionClaims, ANewSessionGetsNoNumberThatADeviceHasInUse) {
  SessionTable table(4);
  table.NoteClaim(1, {Bound(1, 7, 0, 2), 12, 4, {}}, Instant{60'000'000});
  table.NoteClaim(2, {Bound(1, 7, 0, 2), 12, 4, {}}, Instant{60'000'000});
  std::vector<SessionId> released;
  EXPECT_EQ(table.Admit(ResumedAs(1, {1, 2, 3, 4, 5}, {2, 11, 13}), released).id, SessionId(2));
  EXPECT_EQ(table.Admit(RequestFor(2, {9, 9}), released).id, SessionId(3));
}

TEST(SessionClaims, GenerationsOfTwoLeadersAreOthers) {
  SessionTable one(2), other(2);
  one.CountGenerationsFrom(1000);
  other.CountGenerationsFrom(5000);
  std::vector<SessionId> released;
  Session& ours = one.Admit(RequestFor(1, {1, 2, 3}), released);
  Session& theirs = other.Admit(RequestFor(1, {1, 2, 3}), released);
  At(ours, Bound(1, 7, 0, 2), 3);
  At(theirs, Bound(1, 7, 0, 2), 3);
  ours.RewindStage(*ours.Find(BindingId(1)), 1);
  theirs.RewindStage(*theirs.Find(BindingId(1)), 1);
  const uint32_t foreign = theirs.Find(BindingId(1))->generation;
  EXPECT_GT(foreign, 5000u);
  EXPECT_TRUE(ours.Knows(ours.last_generation()));
  EXPECT_FALSE(ours.Knows(foreign));
  ours.RewindStage(*ours.Find(BindingId(1)), 0);
  EXPECT_GT(ours.Find(BindingId(1))->generation, foreign) << "so that its device takes it";
}

// ---- recurrent state, which knows few positions ----

// A stage that has computed `held` positions, with marks at some of them.
StageProgress& Marked(Session& session, const BoundStage& stage, uint32_t held,
                      std::set<uint32_t> marks) {
  StageProgress& progress = At(session, stage, held);
  progress.marks = std::move(marks);
  return progress;
}

TEST(RecurrentSession, AStageGoesBackToTheLastMark) {
  Session session;
  session.recurrent = true;
  StageProgress& stage = Marked(session, Bound(1, 7, 0, 3), 20, {4, 11, 15});
  session.RewindStage(stage, 15);
  EXPECT_EQ(stage.sent, 15u);
  session.RewindStage(stage, 14);
  EXPECT_EQ(stage.sent, 11u);
  EXPECT_THAT(stage.marks, ElementsAre(4, 11));
  session.RewindStage(stage, 3);
  EXPECT_EQ(stage.sent, 0u);
  EXPECT_THAT(stage.marks, IsEmpty());

  // A mark that a step under way will make cannot be gone back to yet, an earlier one can.
  StageProgress& under_way = Marked(session, Bound(2, 8, 3, 6), 20, {10, 24});
  under_way.sent = 30;
  session.RewindStage(under_way, 20);
  EXPECT_EQ(under_way.sent, 10u);
  EXPECT_THAT(under_way.marks, ElementsAre(10));
}

TEST(RecurrentSession, RunsEndAtMarksAndTheSecondLowestGoesFirst) {
  Session session;
  session.recurrent = true;
  session.mark_limit = 2;
  session.mark_positions = {5, 8, 13};
  StageProgress& stage = session.Track(Bound(1, 7, 0, 3));
  std::vector<std::pair<uint32_t, uint8_t>> runs;  // where they end, marks asked for
  while (stage.sent < 15) {
    const uint32_t count = std::min({4u, 15 - stage.sent, session.RowsToMark(stage.sent)});
    const uint8_t marks = session.Sent(stage, count);
    runs.emplace_back(stage.sent, marks);
  }
  using End = std::pair<uint32_t, uint8_t>;
  EXPECT_THAT(runs,
              ElementsAre(End(4, 0), End(5, 2), End(8, 2), End(12, 0), End(13, 2), End(15, 0)));
  EXPECT_THAT(stage.marks, ElementsAre(5, 13));
}

TEST(RecurrentSession, ABindingTakesOverTheMarksOfAllItsLayers) {
  Session session;
  session.recurrent = true;
  Marked(session, Bound(1, 7, 0, 2), 20, {4, 9, 15});
  Marked(session, Bound(2, 7, 2, 4), 19, {4, 15});
  const StageProgress& both = session.Track(Bound(3, 7, 0, 4));
  EXPECT_EQ(both.held, 15u);
  EXPECT_THAT(both.marks, ElementsAre(4, 15));

  Session apart;
  apart.recurrent = true;
  Marked(apart, Bound(1, 7, 0, 2), 20, {9});
  Marked(apart, Bound(2, 7, 2, 4), 9, {});
  EXPECT_EQ(apart.Track(Bound(3, 7, 0, 4)).held, 9u);
  EXPECT_EQ(apart.Track(Bound(4, 7, 0, 6)).held, 0u) << "it knows nothing of layers 4 and 5";
}

Request PromptOf(uint32_t size, std::vector<uint32_t> marks) {
  Request request;
  request.prompt_ids.resize(size);
  request.marks = std::move(marks);
  return request;
}

TEST(MarkPositions, AreThoseOfTheRequestAndEveryInterval) {
  EXPECT_THAT(MarkPositions(PromptOf(5000, {690, 4980, 4994}), 700, {400, 2000}),
              ElementsAre(400, 2048, 4096, 4994));
  EXPECT_THAT(MarkPositions(PromptOf(500, {90, 480}), 0, {}), ElementsAre(90, 480));
  EXPECT_THAT(MarkPositions(PromptOf(500, {}), 0, {}), ElementsAre(499)) << "nothing is named";
}

TEST(MarkPositions, AreWorthAStep) {
  EXPECT_THAT(MarkPositions(PromptOf(30, {10, 28}), 0, {}), IsEmpty());
  EXPECT_THAT(MarkPositions(PromptOf(200, {60, 130, 161, 190}), 0, {}), ElementsAre(60, 130, 190));
  EXPECT_THAT(MarkPositions(PromptOf(100, {91}), 70, {64}), ElementsAre(64));
}

// The first one named is where other chats with the same system prompt begin.
TEST(MarkPositions, TheFirstIsKeptHoweverShortTheMessage) {
  EXPECT_THAT(MarkPositions(PromptOf(100, {60, 91}), 0, {}), ElementsAre(60, 91));
  EXPECT_THAT(MarkPositions(PromptOf(100, {31, 60, 91}), 0, {}), ElementsAre(91))
      << "it is worth a step all the same";
  EXPECT_THAT(MarkPositions(PromptOf(100, {60, 91}), 60, {60}), ElementsAre(60))
      << "and kept by then";
}

TEST(MarkPositions, OutsideOfThePromptAreNone) {
  EXPECT_THAT(MarkPositions(PromptOf(40, {0, 40, 41, 4000}), 0, {}), IsEmpty());
  EXPECT_THAT(MarkPositions(PromptOf(1, {}), 0, {}), IsEmpty());
}

TEST(RecurrentSession, ANextTurnGoesOnFromAMark) {
  SessionTable table(3, true, 2);
  std::vector<SessionId> released;
  std::vector<int32_t> prompt(100);
  std::iota(prompt.begin(), prompt.end(), 1);
  Session& session = table.Admit(RequestFor(1, prompt), released);
  EXPECT_THAT(session.mark_positions, ElementsAre(99));
  StageProgress& stage = session.Track(Bound(1, 7, 0, 2));
  session.Sent(stage, session.RowsToMark(0));
  session.Sent(stage, 6);
  session.tokens.resize(105);
  session.completed = stage.held = 105;
  At(session, Bound(2, 8, 0, 2), 40);  // a standby that has not come as far
  table.MakeIdle(session, Instant{1});
  std::vector<int32_t> other = prompt;
  other.push_back(7777);
  Session& next = table.Admit(RequestFor(2, other), released);
  EXPECT_EQ(next.id, session.id);
  EXPECT_EQ(next.active->cached_prompt_tokens, 99u);
  EXPECT_EQ(next.Find(BindingId(1))->sent, 99u);
}

TEST(RecurrentSession, AStageStaysWhereItIsOrBeginsAgain) {
  Session session;
  session.recurrent = true;
  session.completed = 20;
  StageProgress& here = At(session, Bound(1, 7, 0, 3), 20);
  session.RewindStage(here, 20);
  EXPECT_EQ(here.sent, 20u);
  session.RewindStage(here, 19);
  EXPECT_EQ(here.sent, 0u);

  // A step that nobody has answered may have taken it further.
  StageProgress& sent = At(session, Bound(2, 8, 3, 6), 20);
  sent.sent = 21;
  session.RewindStage(sent, 20);
  EXPECT_EQ(sent.sent, 0u);

  // A step that failed left nothing behind.
  StageProgress& failed = At(session, Bound(3, 9, 6, 9), 20);
  failed.sent = 24;
  EXPECT_FALSE(session.RewindAfterFailure(failed));
  EXPECT_EQ(failed.sent, 20u);
}

TEST(RecurrentSession, ABindingTakesOverLayersThatAreAtOnePlace) {
  Session session;
  session.recurrent = true;
  At(session, Bound(1, 7, 0, 2), 20);
  At(session, Bound(2, 7, 2, 4), 20);
  EXPECT_EQ(session.Track(Bound(3, 7, 0, 4)).held, 20u);

  Session apart;
  apart.recurrent = true;
  At(apart, Bound(1, 7, 0, 2), 20);
  At(apart, Bound(2, 7, 2, 4), 19);
  EXPECT_EQ(apart.Track(Bound(3, 7, 0, 4)).held, 0u);

  Session under_way;
  under_way.recurrent = true;
  At(under_way, Bound(1, 7, 0, 2), 20).sent = 21;
  EXPECT_EQ(under_way.Track(Bound(3, 7, 0, 2)).held, 0u);
}

TEST(RecurrentSession, ANextTurnGoesOnFromTheEndOrNotAtAll) {
  SessionTable table(3, true);
  std::vector<SessionId> released;
  Session& session = table.Admit(RequestFor(1, {1, 2, 3, 4, 5, 6}), released);
  session.completed = 5;
  At(session, Bound(1, 7, 0, 2), 5);
  table.MakeIdle(session, Instant{1});
  Session& parted = table.Admit(RequestFor(2, {1, 2, 3, 4, 9, 9}), released);
  EXPECT_NE(parted.id, session.id);
  EXPECT_EQ(parted.active->cached_prompt_tokens, 0u);
  Session& next = table.Admit(RequestFor(3, {1, 2, 3, 4, 5, 9, 9}), released);
  EXPECT_EQ(next.id, session.id);
  EXPECT_EQ(next.active->cached_prompt_tokens, 5u);
  EXPECT_EQ(next.Find(BindingId(1))->sent, 5u);
}

}  // namespace
}  // namespace weft::swarm
