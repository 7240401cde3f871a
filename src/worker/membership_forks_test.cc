// Forks as a table of events and actions, and what a stage host makes of them.
#include "wire/fork_frame.h"
#include "worker/membership_testing.h"

namespace weft::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class MembershipForksTest : public MembershipTest {
 protected:
  Said Fork(uint32_t epoch, uint32_t session, uint32_t positions = 9) {
    return Told(wire::EncodeFork({epoch, 1, 1, session, 2, positions}));
  }
};

TEST_F(MembershipForksTest, AForkKeepsItsPlaceAmongTheStepsAndIsNotAnswered) {
  Join();
  Bind(3, 0, 2);
  EXPECT_THAT(Step(1, 3), ElementsAre("COMPUTE step 1"));
  EXPECT_THAT(Fork(3, 2), IsEmpty());
  EXPECT_THAT(Step(2, 3), IsEmpty());
  EXPECT_THAT(WorkOver(StepReply{}), ElementsAre("frame", "COMPUTE fork 1 into 2 at 9 0-2"));
  EXPECT_THAT(WorkOver(Done{}), ElementsAre("COMPUTE step 2"));
  EXPECT_THAT(WorkOver(StepReply{}), ElementsAre("frame"));
  EXPECT_THAT(Fork(4, 3), IsEmpty());                // of no binding
  EXPECT_THAT(Fork(3, kMeasureSession), IsEmpty());  // its step will be refused
}

TEST_F(MembershipForksTest, AForkOutOfPlaceOrMalformedEndsTheConnection) {
  EXPECT_THAT(Fork(1, 2), ElementsAre("FINISH invalid_data"));
  EXPECT_THAT(Problem(), HasSubstr("before Init"));
  membership_ = std::make_unique<Membership>(Offer());
  Join();
  Bind(3, 0, 2);
  EXPECT_THAT(Fork(3, 2, 0), ElementsAre("FINISH invalid_data"));
  EXPECT_THAT(Problem(), HasSubstr("0 positions"));
}

}  // namespace
}  // namespace weft::worker
