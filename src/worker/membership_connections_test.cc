// What becomes of layers that are read when the connection breaks, and of what Connect said before.
// The rest of what a connection leaves behind is in tests/conformance/membership.
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
    for (const auto& [binding, positions] : bindings) {
      pb::HeldBinding& held = stock.bindings.emplace_back();
      held.set_id(binding);
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

TEST_F(ConnectionsTest, WhoComesBackNamesItsLayersAndTheSpeedOfBefore) {
  Join();
  Bind(3, 0, 2);
  Lost();
  EXPECT_THAT(Again(), ElementsAre("SILENCE 3000", "COMPUTE stock 3"));
  const auto& stock = std::get<TakeStock>(std::get<Compute>(actions_[1]).work);
  EXPECT_EQ(stock.bindings[0].ShortDebugString(), "id: 3 stage: 1 layers { end: 2 }");
  EXPECT_THAT(StockTaken({{3, 7}}), ElementsAre("connect [id: 3 sessions: 1 positions: 7]"));
  EXPECT_EQ(std::get<SendControl>(actions_[0]).message.connect().download_bytes_per_s(), 1e10);
}

TEST_F(ConnectionsTest, WhatWasReadIsNotHeld) {
  // While it is read.
  Join();
  Bind(1, 0, 2);
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
  // And the next one is read as ever.
  Again();
  StockTaken({{1, 1}});
  Told(PrepareMessage(6, 3, 5));
  EXPECT_THAT(FetchOver(), ElementsAre("READ 3-5"));
}

// The package is fetched by whoever fetches and reads: not beside them.
TEST_F(ConnectionsTest, AnotherPackageWaitsForWhatIsUnderWay) {
  Join();
  Told(PrepareMessage(1, 0, 2));
  FetchOver();
  Told(DownloadMessage({4}));
  EXPECT_THAT(Lost(),
              ElementsAre("KEEP 60000", "INTERRUPT FETCH", "COMPUTE keep", "INTERRUPT READ"));
  WorkOver();
  EXPECT_THAT(Again(InitOf("two")), ElementsAre("SILENCE 3000", "COMPUTE release all"));
  EXPECT_THAT(WorkOver(), IsEmpty());
  EXPECT_THAT(FetchInterrupted(), IsEmpty());
  EXPECT_THAT(Read(), ElementsAre("JOIN"));
}

}  // namespace
}  // namespace weft::worker
