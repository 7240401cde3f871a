// What passes between devices at the speed of who takes it: by pair, by turns, held back.
#include "server/shard_relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace weft::server {
namespace {

using swarm::WorkerId;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr size_t kMessage = 1000;

class ShardRelayTest : public testing::Test {
 protected:
  // Windows of two messages and a bit, pairs of four.
  ShardRelayTest()
      : relay_(loop_,
               {.send =
                    [this](WorkerId receiver, std::vector<Slice> pieces) {
                      taken_[receiver].push_back(Text(pieces));
                      hands_[receiver].push_back(std::move(pieces));
                    },
                .hold =
                    [this](WorkerId sender, bool held) {
                      held_.push_back((held ? "hold " : "release ") + ToString(sender));
                    }},
               {.window_bytes = 3000,
                .all_windows_bytes = 6000,
                .pair_bytes = 5500,
                .all_bytes = 20'000}) {}

  static std::string Text(const std::vector<Slice>& pieces) {
    std::string text;
    for (const Slice& piece : pieces) text += AsText(piece.bytes());
    return text.substr(0, text.find('.'));
  }
  // A message that begins with `name`, in two pieces.
  void Pass(WorkerId sender, WorkerId receiver, std::string name, size_t byte_count = kMessage) {
    name += '.';
    std::string rest(byte_count - name.size(), 'x');
    relay_.Pass(sender, receiver, {Slice::OfText(std::move(name)), Slice::OfText(std::move(rest))});
  }
  // The receiver is done with the oldest of what it was handed.
  void Take(WorkerId receiver) {
    hands_[receiver].erase(hands_[receiver].begin());
    RunPosted();
  }
  void RunPosted() {
    loop_.Post([this] { loop_.Stop(); });
    loop_.Run();
  }

  net::EventLoop loop_;
  std::map<WorkerId, std::vector<std::string>> taken_;
  std::map<WorkerId, std::vector<std::vector<Slice>>> hands_;
  std::vector<std::string> held_;
  ShardRelay relay_;
};

TEST_F(ShardRelayTest, AReceiverIsHandedWhatItHasRoomForAndTheRestAsItTakes) {
  for (const char* name : {"a", "b", "c", "d"}) Pass(1, 9, name);
  EXPECT_THAT(taken_[9], ElementsAre("a", "b"));
  Take(9);
  EXPECT_THAT(taken_[9], ElementsAre("a", "b", "c"));
  Take(9);
  Take(9);
  EXPECT_THAT(taken_[9], ElementsAre("a", "b", "c", "d"));
  EXPECT_EQ(relay_.waiting_bytes(), 0u);
  EXPECT_THAT(held_, IsEmpty());
}

TEST_F(ShardRelayTest, OneThatIsLongerThanTheWindowGoesAlone) {
  Pass(1, 9, "long", 50'000);
  Pass(1, 9, "next");
  EXPECT_THAT(taken_[9], ElementsAre("long"));
  Take(9);
  EXPECT_THAT(taken_[9], ElementsAre("long", "next"));
}

TEST_F(ShardRelayTest, WhoSendsMoreThanIsTakenIsHeldBackUntilHalfOfItHasGone) {
  for (int i = 0; i < 6; ++i) Pass(1, 9, std::to_string(i));
  EXPECT_THAT(held_, IsEmpty());
  Pass(1, 9, "6");  // the fifth that waits
  EXPECT_THAT(held_, ElementsAre("hold 1"));
  for (int i = 0; i < 2; ++i) Take(9);
  EXPECT_THAT(held_, ElementsAre("hold 1"));
  for (int i = 0; i < 2; ++i) Take(9);
  EXPECT_THAT(held_, ElementsAre("hold 1", "release 1"));
}

TEST_F(ShardRelayTest, SendersTakeTurnsAndOneThatFloodsHoldsUpNobodyElse) {
  for (int i = 0; i < 7; ++i) Pass(1, 9, "flood");
  Pass(2, 9, "polite");
  EXPECT_THAT(held_, ElementsAre("hold 1"));
  Take(9);
  EXPECT_THAT(taken_[9], ElementsAre("flood", "flood", "polite"));
  Pass(1, 8, "other");
  EXPECT_THAT(taken_[8], ElementsAre("other"));
}

TEST_F(ShardRelayTest, AllReceiversTogetherAreHandedSoMuch) {
  for (const WorkerId receiver : {WorkerId(7), WorkerId(8), WorkerId(9)})
    for (int i = 0; i < 2; ++i) Pass(1, receiver, "x");
  EXPECT_THAT(taken_[9], IsEmpty()) << "four messages are in the hands of the others";
  Take(7);
  EXPECT_THAT(taken_[9], ElementsAre("x"));
}

TEST_F(ShardRelayTest, WhoHasGoneLeavesNothingBehind) {
  for (int i = 0; i < 7; ++i) Pass(1, 9, "x");
  for (int i = 0; i < 7; ++i) Pass(2, 9, "y");
  EXPECT_THAT(held_, ElementsAre("hold 1", "hold 2"));
  relay_.Forget(1);
  Take(9);
  Take(9);
  EXPECT_THAT(taken_[9], ElementsAre("x", "x", "y", "y"));
  relay_.Forget(9);
  EXPECT_EQ(relay_.waiting_bytes(), 0u);
  EXPECT_THAT(held_, ElementsAre("hold 1", "hold 2", "release 2"));
  RunPosted();
  EXPECT_THAT(taken_[9], ElementsAre("x", "x", "y", "y"));
}

// A worker in this process gives slices up on threads of its own.
TEST_F(ShardRelayTest, SlicesCountThemselvesOnAnyThread) {
  for (int i = 0; i < 200; ++i) Pass(1, 9, std::to_string(i));
  for (size_t done = 0; done < 200;) {
    ASSERT_LT(done, taken_[9].size()) << "something waits, and the receiver has nothing";
    std::vector<std::vector<Slice>> given = std::exchange(hands_[9], {});
    done += given.size();
    std::thread([given = std::move(given)]() mutable { given.clear(); }).join();
    RunPosted();
  }
  EXPECT_EQ(taken_[9].back(), "199");
}

TEST(ShardRelay, SlicesMayOutliveIt) {
  net::EventLoop loop;
  std::vector<std::vector<Slice>> hands;
  {
    ShardRelay relay(
        loop,
        {.send = [&](WorkerId, std::vector<Slice> pieces) { hands.push_back(std::move(pieces)); },
         .hold = [](WorkerId, bool) {}},
        {.window_bytes = 1});
    for (int i = 0; i < 3; ++i) relay.Pass(1, 9, {Slice::OfText("abc")});
  }
  hands.clear();
  loop.Post([&] { loop.Stop(); });
  loop.Run();
  EXPECT_THAT(hands, IsEmpty());
}

}  // namespace
}  // namespace weft::server
