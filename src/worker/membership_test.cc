// What is particular to a native worker's membership: what it offers, and layers that are read
// beside the steps. The rules that workers share are cases of tests/conformance/membership
// (membership_rulebook_test.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/membership_testing.h"

namespace weft::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(MembershipTest, JoinsWithWhatItOffers) {
  EXPECT_THAT(Told(InitMessage()), ElementsAre("SILENCE 3000", "JOIN"));
  JoinedPackage package;
  package.layer_count = kTestLayers;
  package.cached_layers = {2, 3};
  EXPECT_THAT(Told(Joined{package}), ElementsAre("connect"));
  const pb::Connect& connect = std::get<SendControl>(actions_[0]).message.connect();
  EXPECT_EQ(connect.kind(), "native");
  EXPECT_EQ(connect.cached_layers_size(), 2);
  EXPECT_EQ(connect.download_bytes_per_s(), 1e10);  // a local disk
}

TEST_F(MembershipTest, AReadThatFailsIsSaidAndForgotten) {
  Join();
  Told(PrepareMessage(2, 0, 2));
  FetchOver();
  EXPECT_THAT(Told(LayersRead{Error(ErrorCode::kOutOfMemory, "Full.")}),
              ElementsAre("failed 2 out_of_memory"));
  EXPECT_THAT(Step(1, 2), ElementsAre("step_failed 1 invalid_argument"));
  EXPECT_THAT(Told(PrepareMessage(3, 0, 2)), ElementsAre("FETCH 0 1"));
}

// Nobody waits for it.
TEST_F(MembershipTest, AStandbyBindingIsReadBehindTheOthers) {
  Join();
  Told(StandbyMessage(1, 0, 2));
  EXPECT_THAT(Told(PrepareMessage(3, 3, 4)), ElementsAre("INTERRUPT FETCH"));
  EXPECT_THAT(FetchInterrupted(), ElementsAre("FETCH 3"));
  EXPECT_THAT(FetchOver(), ElementsAre("FETCH 0 1", "READ 3-4"));
  EXPECT_THAT(FetchOver(), IsEmpty());  // one read at a time
  EXPECT_THAT(Told(PrepareMessage(4, 5, 6)), ElementsAre("FETCH 5"));
  EXPECT_THAT(FetchOver(), IsEmpty());
  EXPECT_THAT(Read(), ElementsAre("COMPUTE install 3-4"));
  EXPECT_THAT(WorkOver(Installed{1, 1}),
              ElementsAre("prepared { binding: 3 weight_factor: 1 used_bytes: 1 }", "READ 5-6"));
  Read();
  EXPECT_THAT(WorkOver(Installed{1, 1}),
              ElementsAre("prepared { binding: 4 weight_factor: 1 used_bytes: 1 }", "READ 0-2"));
}

TEST_F(MembershipTest, ARetiredBindingIsReadNoFurther) {
  Join();
  Told(PrepareMessage(2, 3, 5));
  EXPECT_THAT(FetchOver(), ElementsAre("READ 3-5"));
  Told(PrepareMessage(3, 0, 1));
  EXPECT_THAT(Told(RetireMessage({3}, 0, 6)), ElementsAre("COMPUTE keep 0-6", "INTERRUPT READ"));
  WorkOver();
  EXPECT_THAT(FetchOver(), IsEmpty());  // one read at a time
  EXPECT_THAT(Read(), ElementsAre("READ 0-1"));
  EXPECT_THAT(Read(), ElementsAre("COMPUTE install 0-1"));
}

// What is read counts on what is loaded, so nothing may be about to be unloaded.
TEST_F(MembershipTest, NothingIsReadWhileLayersAreToBeUnloaded) {
  Join();
  Bind(1, 0, kTestLayers);
  Step(1, 1);
  Told(Make([](pb::ServerMessage& m) { m.mutable_release(); }));
  Told(PrepareMessage(2, 0, 2));
  EXPECT_THAT(FetchOver(), IsEmpty());
  EXPECT_THAT(WorkOver(StepReply{}), ElementsAre("frame", "COMPUTE release all"));
  EXPECT_THAT(WorkOver(), ElementsAre("READ 0-2"));
}

// An engine of tabs takes its turns by itself.
TEST(MembershipGenerates, MoreThanABatchTakeTurns) {
  GenerateQueue generates;
  generates.Begin(2);
  for (const uint32_t sequence : {1u, 2u, 3u}) {
    wire::Generate generate;
    generate.sequence = sequence;
    generates.Add(generate);
    generates.Join(generate);
  }
  const auto take = [&] {
    std::vector<uint32_t> sequences;
    for (wire::Generate& generate : generates.Take().wanted) {
      sequences.push_back(generate.sequence);
      generates.GoOn(std::move(generate));
    }
    return sequences;
  };
  EXPECT_THAT(take(), ElementsAre(1, 2));
  EXPECT_THAT(take(), ElementsAre(3, 1));
  EXPECT_THAT(take(), ElementsAre(2, 3));
}

}  // namespace
}  // namespace weft::worker
