// Which dispatches wait and which go: cancelled, overtaken, refused.
#include "worker/expert_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "worker/expert_testing.h"

namespace weft::worker {
namespace {

using testing::ElementsAre;

using Names = std::vector<std::string>;

Names NamesOf(std::span<const wire::ExpertFrame> frames) {
  Names names;
  for (const wire::ExpertFrame& frame : frames)
    names.push_back((frame.failed ? "failed " : "") +
                    std::to_string(frame.sequence & ~wire::kBatchBit) + "/" +
                    std::to_string(frame.layer) + ":" + std::to_string(frame.expert));
  return names;
}

class ExpertQueueTest : public testing::Test {
 protected:
  ExpertQueueTest() { queue_.Hold({{1, {0, 3}}, {2, {5}}}); }
  Names Told(uint32_t peer, std::vector<wire::ExpertFrame> frames) {
    return NamesOf(queue_.Take(peer, frames));
  }
  Names Next() {
    const auto work = queue_.Next();
    return work ? NamesOf(work->dispatches) : Names();
  }
  ExpertQueue queue_;
};

TEST_F(ExpertQueueTest, AMessageIsComputedTogetherAndWhatIsNotHeldIsRefused) {
  EXPECT_THAT(Told(7, {Dispatch(1, 1, 0), Dispatch(1, 1, 1), Dispatch(1, 2, 5), Dispatch(1, 3, 0)}),
              ElementsAre("failed 1/1:1", "failed 1/3:0"));
  EXPECT_EQ(queue_.count(), 2u);
  EXPECT_THAT(Next(), ElementsAre("1/1:0", "1/2:5"));
  EXPECT_TRUE(queue_.empty());
  EXPECT_THAT(queue_.hubs(), ElementsAre(7u));
}

TEST_F(ExpertQueueTest, ACancelTakesWhatItNamesFromThatHubAlone) {
  Told(7, {Dispatch(1, 1, 0), Dispatch(1, 1, 3), Dispatch(1, 2, 5)});
  Told(8, {Dispatch(1, 1, 3)});
  Told(7, {wire::CancelFrame(1, 1, 3)});
  Told(7, {wire::CancelFrame(2, 1, 0)});
  EXPECT_THAT(Next(), ElementsAre("1/1:0", "1/2:5"));
  EXPECT_THAT(Next(), ElementsAre("1/1:3"));
  Told(7, {Dispatch(2, 1, 0), Dispatch(2, 1, 3)});
  Told(7, {wire::CancelFrame(2, 1, wire::kAnyExpert)});
  EXPECT_TRUE(queue_.empty());
}

TEST_F(ExpertQueueTest, NewerWorkOvertakesOlderOfItsOwnBatchAlone) {
  Told(7, {Dispatch(1, 1, 0)});
  Told(7, {Dispatch(1 | wire::kBatchBit, 1, 3)});
  Told(8, {Dispatch(1, 2, 5)});
  Told(7, {Dispatch(2, 2, 5)});
  EXPECT_THAT(Next(), ElementsAre("1/1:3"));
  EXPECT_THAT(Next(), ElementsAre("1/2:5"));
  EXPECT_THAT(Next(), ElementsAre("2/2:5"));
  // A second copy of the same sequence takes no place.
  Told(7, {Dispatch(3, 1, 0)});
  Told(7, {Dispatch(3, 1, 3)});
  EXPECT_THAT(Next(), ElementsAre("3/1:0"));
  EXPECT_THAT(Next(), ElementsAre("3/1:3"));
}

// Copies of a sequence take no other's place, so that they could fill this device's memory.
TEST_F(ExpertQueueTest, OfAHubNoMoreWaitsThanTwoBatchesOfTheLongestMessages) {
  wire::ExpertFrame half = Dispatch(1, 1, 0);
  half.tokens = 1024;
  half.hidden = wire::kMaxShardRowBytes / 2 / 1024 / sizeof(float);
  for (int i = 0; i < 4; ++i) EXPECT_THAT(Told(7, {half}), ElementsAre());
  EXPECT_THAT(Told(7, {half, Dispatch(1, 1, 3)}), ElementsAre("failed 1/1:0", "failed 1/1:3"));
  EXPECT_THAT(Told(8, {half}), ElementsAre()) << "others have room of their own";
  Next();
  EXPECT_THAT(Told(7, {half}), ElementsAre());
}

TEST_F(ExpertQueueTest, LessMayBeHeldAtOnceAndMoreOnlyOnceItIsThere) {
  queue_.HoldOnly({{1, {3, 4}}});
  EXPECT_TRUE(queue_.Holds(1, 3));
  EXPECT_FALSE(queue_.Holds(1, 0));
  EXPECT_FALSE(queue_.Holds(1, 4));
  EXPECT_FALSE(queue_.Holds(2, 5));
  queue_.Hold({{1, {3, 4}}});
  EXPECT_TRUE(queue_.Holds(1, 4));
}

}  // namespace
}  // namespace weft::worker
