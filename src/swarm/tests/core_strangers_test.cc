// Connections before Connect: what they may say, and that they lock nobody out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "swarm/tests/core_testing.h"
#include "wire/expert_frame.h"

namespace weft::swarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

CoreOptions StrangerOptions(uint32_t per_address, uint32_t in_all = 192) {
  CoreOptions options = TestOptions();
  options.strangers_per_address = per_address;
  options.stranger_limit = in_all;
  return options;
}

std::vector<WorkerId> OpenMany(TestSwarm& swarm, int count, const std::string& address) {
  std::vector<WorkerId> ids;
  TestWorker worker;
  worker.address = address;
  for (int i = 0; i < count; ++i) ids.push_back(swarm.Open(worker));
  return ids;
}

int CountClosed(const TestSwarm& swarm, const std::vector<WorkerId>& ids) {
  int count = 0;
  for (const WorkerId id : ids) count += swarm.CloseReasons(id).empty() ? 0 : 1;
  return count;
}

void JoinOpened(TestSwarm& swarm, WorkerId id) {
  swarm.Control(id, swarm.ConnectOf(id));
}

TEST(Strangers, AnyFirstMessageButConnectCloses) {
  const std::string shards = "\x02" + std::string(100, 'x');
  ASSERT_TRUE(wire::IsShardMessage(AsBytes(shards)));
  for (const std::string& message :
       {shards, "WEFT" + std::string(100, 'x'), "WGEN" + std::string(100, 'x'),
        std::string("anything"), std::string()}) {
    SCOPED_TRACE(message.substr(0, 4));
    TestSwarm swarm;
    const WorkerId id = swarm.Open();
    swarm.Feed(WorkerData{id, Slice::OfText(message)});
    EXPECT_THAT(swarm.CloseReasons(id), ElementsAre("The first message was not Connect."));
  }
}

// With one limit for all connections the 256th was refused.
TEST(Strangers, SilentOnesDoNotLockWorkersOut) {
  TestSwarm swarm;
  OpenMany(swarm, 255, "10.0.0.66");
  OpenMany(swarm, 255, "10.0.0.66");
  const WorkerId worker = swarm.Join();
  swarm.Advance(Seconds(1));
  EXPECT_THAT(swarm.CloseReasons(worker), IsEmpty());
  EXPECT_TRUE(swarm.core().is_up());
}

TEST(Strangers, TheOldestOfAnAddressGoes) {
  TestSwarm swarm(StrangerOptions(3));
  const auto other = OpenMany(swarm, 3, "10.0.0.1");
  const auto ids = OpenMany(swarm, 5, "10.0.0.66");
  EXPECT_THAT(swarm.CloseReasons(ids[0]), ElementsAre(HasSubstr("before it said Connect")));
  EXPECT_THAT(swarm.CloseReasons(ids[1]), SizeIs(1));
  EXPECT_EQ(CountClosed(swarm, ids), 2);
  EXPECT_EQ(CountClosed(swarm, other), 0);
  EXPECT_EQ(swarm.core().sizes().workers, 6u);
}

TEST(Strangers, AddressesOfOneNetworkCountTogether) {
  TestSwarm swarm(StrangerOptions(1));
  const auto first = OpenMany(swarm, 1, "2001:db8::1");
  const auto second = OpenMany(swarm, 1, "2001:db8::2");
  const auto elsewhere = OpenMany(swarm, 1, "2001:db8:0:1::1");
  EXPECT_EQ(CountClosed(swarm, first), 1);
  EXPECT_EQ(CountClosed(swarm, second), 0);
  EXPECT_EQ(CountClosed(swarm, elsewhere), 0);
}

// Many addresses together: whose strangers are most makes room.
TEST(Strangers, ThoseWithTheMostMakeRoomForAll) {
  TestSwarm swarm(StrangerOptions(4, 6));
  const auto few = OpenMany(swarm, 2, "10.0.0.1");
  const auto many = OpenMany(swarm, 4, "10.0.0.66");
  const auto last = OpenMany(swarm, 1, "10.0.0.2");
  EXPECT_EQ(CountClosed(swarm, few), 0);
  EXPECT_EQ(CountClosed(swarm, many), 1);
  EXPECT_THAT(swarm.CloseReasons(many[0]), SizeIs(1));
  EXPECT_EQ(CountClosed(swarm, last), 0);
}

// Each measures its line for two seconds between Init and Connect.
TEST(Strangers, AClassBehindOneAddressJoinsAtOnce) {
  TestSwarm swarm;
  const auto tabs = OpenMany(swarm, 40, "192.0.2.7");
  swarm.Advance(Seconds(2));
  for (const WorkerId tab : tabs) JoinOpened(swarm, tab);
  swarm.Advance(Seconds(1));
  EXPECT_EQ(CountClosed(swarm, tabs), 0);
  EXPECT_EQ(swarm.core().sizes().workers, 40u);
}

// Whoever has joined is no stranger any more, however many of its address follow.
TEST(Strangers, WhoHasJoinedKeepsItsPlace) {
  TestSwarm swarm;
  const auto workers = OpenMany(swarm, 3, "192.0.2.7");
  for (const WorkerId id : workers) JoinOpened(swarm, id);
  OpenMany(swarm, 500, "192.0.2.7");
  EXPECT_EQ(CountClosed(swarm, workers), 0);
}

}  // namespace
}  // namespace weft::swarm
