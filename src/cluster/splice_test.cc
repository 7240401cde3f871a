// One answer, two servers in turn: single rules, then every order of events that there is.
#include "cluster/splice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <set>
#include <sstream>
#include <string>

namespace weft::cluster {
namespace {

using testing::ElementsAre;
using Ending = Splice::Ending;
using Taken = Splice::Taken;

TEST(Leadership, TheHighestIncarnationIsAsked) {
  Leadership leadership;
  EXPECT_FALSE(leadership.leader().is_set());
  EXPECT_TRUE(leadership.OnFound(1, 10));
  EXPECT_FALSE(leadership.OnFound(1, 10)) << "it says so four times a second";
  EXPECT_TRUE(leadership.OnFound(2, 20));
  EXPECT_FALSE(leadership.OnFound(1, 10)) << "deposed";
  EXPECT_EQ(leadership.leader(), LinkId(2));
  EXPECT_FALSE(leadership.OnLost(1));
  EXPECT_TRUE(leadership.OnLost(2));
  EXPECT_FALSE(leadership.OnLost(2));
  EXPECT_FALSE(leadership.OnFound(1, 10)) << "its workers have seen 20";
  EXPECT_FALSE(leadership.leader().is_set());
}

TEST(Leadership, ANewLinkToTheSameLeaderIsAskedAndSoIsANewTimeOfLeading) {
  Leadership leadership;
  leadership.OnFound(1, 10);
  EXPECT_TRUE(leadership.OnFound(2, 10));
  EXPECT_TRUE(leadership.OnFound(2, 11));
  EXPECT_FALSE(leadership.OnFound(1, 10));
}

TEST(Splice, GivesEachTokenOnce) {
  Splice splice;
  const AttemptId first = splice.Ask();
  EXPECT_EQ(splice.OnToken(first, 0, 7), Taken::kGiven);
  EXPECT_EQ(splice.OnToken(first, 1, 8), Taken::kGiven);
  splice.Lose();
  EXPECT_FALSE(splice.is_asked());
  EXPECT_EQ(splice.OnToken(first, 2, 9), Taken::kStale);
  const AttemptId second = splice.Ask();
  EXPECT_EQ(splice.OnToken(second, 0, 7), Taken::kKnown);
  EXPECT_EQ(splice.OnToken(second, 1, 6), Taken::kKnown);
  EXPECT_EQ(splice.differences(), 1u);
  EXPECT_EQ(splice.OnToken(second, 2, 9), Taken::kGiven);
  EXPECT_THAT(splice.answer(), ElementsAre(7, 8, 9));
  EXPECT_EQ(splice.OnEnd(first, 3), Ending::kStale);
  EXPECT_EQ(splice.OnEnd(second, 3), Ending::kEnd);
  EXPECT_EQ(splice.OnEnd(second, 3), Ending::kStale) << "once";
}

TEST(Splice, AnswersThatFailEndWhereTheyAre) {
  Splice splice;
  EXPECT_EQ(splice.OnEnd(splice.Ask(), std::nullopt), Ending::kEnd);
}

TEST(Splice, AsksForWhatIsMissingAFewTimes) {
  Splice splice;
  AttemptId attempt = splice.Ask();
  EXPECT_EQ(splice.OnToken(attempt, 0, 7), Taken::kGiven);
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(splice.HasTriedEnough());
    if (i % 2 == 0)
      EXPECT_EQ(splice.OnToken(attempt, 2, 9), Taken::kTooFar);
    else
      EXPECT_EQ(splice.OnEnd(attempt, 2), Ending::kShort);
    attempt = splice.Ask();
  }
  EXPECT_TRUE(splice.HasTriedEnough());
  EXPECT_EQ(splice.OnToken(attempt, 1, 8), Taken::kGiven);
  EXPECT_FALSE(splice.HasTriedEnough()) << "something came";
}

// The answer is 100, 101. Three links come one after another: to a, to b, and to a once more.
// Each carries questions one way and answers the other, in order; when it breaks, what is on it is
// lost. A server computes a token at a time of the question that it got last. One
// message with a token gets lost alone, which no link does, and a machine must survive.
constexpr size_t kTokens = 2, kLinks = 3;
constexpr int kMostDrops = 1;

struct Question {
  AttemptId attempt;
  size_t known = 0;
};
struct Message {
  AttemptId attempt;
  size_t index = 0;  // kTokens: the end
};
struct Line {
  bool was_found = false, is_open = false;
  std::deque<Question> questions;
  Question job;  // attempt not set: none
  std::deque<Message> messages;
};

struct World {
  Leadership leadership;
  Splice splice;
  std::array<Line, kLinks> lines;
  int drops = 0;
  std::vector<size_t> given;
  int ends = 0;

  static LinkId LinkOf(size_t line) { return LinkId(line + 1); }
  bool is_over() const { return ends > 0; }

  void Ask() {
    const LinkId leader = leadership.leader();
    if (is_over() || !leader.is_set()) return;
    const AttemptId attempt = splice.Ask();
    lines[leader.value() - 1].questions.push_back({attempt, splice.answer().size()});
  }
  void Find(size_t line) {
    lines[line].was_found = lines[line].is_open = true;
    if (leadership.OnFound(LinkOf(line), Incarnation(10 * (line + 1)))) Ask();
  }
  void Break(size_t line) {
    lines[line] = {.was_found = true, .is_open = false, .questions = {}, .job = {}, .messages = {}};
    if (leadership.OnLost(LinkOf(line))) splice.Lose();
  }
  void Compute(size_t line) {
    Line& at = lines[line];
    if (!at.questions.empty()) {
      at.job = at.questions.front();
      at.questions.pop_front();
      return;
    }
    at.messages.push_back({at.job.attempt, at.job.known});
    if (at.job.known++ == kTokens) at.job = {};
  }
  void Deliver(size_t line) {
    const Message message = lines[line].messages.front();
    lines[line].messages.pop_front();
    if (message.index == kTokens) {
      const Ending ending = splice.OnEnd(message.attempt, kTokens);
      if (ending == Ending::kEnd) ++ends;
      if (ending == Ending::kShort) Ask();
      return;
    }
    const Taken taken =
        splice.OnToken(message.attempt, message.index, static_cast<int32_t>(100 + message.index));
    if (taken == Taken::kGiven) given.push_back(message.index);
    if (taken == Taken::kTooFar) Ask();
  }

  // All that can happen next, in whatever order.
  std::vector<World> Next() const {
    std::vector<World> next;
    const auto add = [&](auto&& change) {
      next.push_back(*this);
      change(next.back());
    };
    for (size_t i = 0; i < kLinks; ++i) {
      const Line& line = lines[i];
      if (!line.was_found && (i == 0 || lines[i - 1].was_found))
        add([i](World& world) { world.Find(i); });
      if (!line.is_open) continue;
      if (i + 1 < kLinks) add([i](World& world) { world.Break(i); });
      if (!line.questions.empty() || line.job.attempt.is_set())
        add([i](World& world) { world.Compute(i); });
      if (line.messages.empty()) continue;
      add([i](World& world) { world.Deliver(i); });
      if (drops < kMostDrops && line.messages.front().index < kTokens)
        add([i](World& world) {
          ++world.drops;
          world.lines[i].messages.pop_front();
        });
    }
    return next;
  }

  std::string Key() const {
    std::ostringstream key;
    key << leadership.leader() << ' ' << splice.is_asked() << ' ' << drops << ends << ' ';
    for (const size_t index : given) key << index;
    for (const Line& line : lines) {
      key << '|' << line.was_found << line.is_open << line.job.attempt << ',' << line.job.known;
      for (const Question& each : line.questions) key << 'q' << each.attempt << ',' << each.known;
      for (const Message& each : line.messages) key << 'm' << each.attempt << ',' << each.index;
    }
    return key.str();
  }
};

TEST(Splice, IsTheSameAnswerInEveryOrderOfEvents) {
  std::set<std::string> seen;
  std::vector<World> open(1);
  size_t ended = 0;
  while (!open.empty()) {
    const World world = std::move(open.back());
    open.pop_back();
    if (!seen.insert(world.Key()).second) continue;
    for (size_t i = 0; i < world.given.size(); ++i) ASSERT_EQ(world.given[i], i) << world.Key();
    ASSERT_EQ(world.splice.differences(), 0u);
    ASSERT_FALSE(world.splice.HasTriedEnough());
    ASSERT_LE(world.ends, 1);
    ASSERT_TRUE(world.ends == 0 || world.given.size() == kTokens) << world.Key();
    std::vector<World> next = world.Next();
    // The last link stays: when nothing more can happen, the answer is whole.
    if (next.empty()) {
      ASSERT_EQ(world.ends, 1) << world.Key();
      ++ended;
    }
    for (World& each : next) open.push_back(std::move(each));
  }
  EXPECT_GT(ended, 0u);
  EXPECT_GT(seen.size(), 5'000u);
}

}  // namespace
}  // namespace weft::cluster
