// Requests of two servers of a cluster, in orders of events that no process can be made to have.
// Leases and links are real, on loopback. The database and the cores are the test's own.
#include "server/cluster_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/cluster_testing.h"

namespace weft::server {
namespace {

using cluster::Holder;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Server = FakeCoreServer;
using Client = TestClient;

class ClusterRequestsTest : public testing::Test {
 protected:
  void Until(const std::function<bool()>& is_so) { cluster_.Until(is_so); }
  void Turn(Duration time = Milliseconds(50)) { cluster_.Turn(time); }
  // Two servers, the first of which leads.
  void StartTwo(bool begins_at_once = true) {
    a_ = std::make_unique<Server>(cluster_, Holder{1, 11}, begins_at_once);
    Until([&] { return a_->host->leads(kTestCell) && a_->cell.leads_with.is_set(); });
    a_->host->OnWorkers(kTestCell, 1, true);
    b_ = std::make_unique<Server>(cluster_, Holder{2, 22});
    Until([&] { return a_->linked.links.IsUp(2) && b_->host->FindLeader(kTestCell).has_value(); });
  }
  static swarm::RequestId Ask(Server& gateway, Client& client, int32_t first = 2) {
    return client.Ask(gateway.generator, first);
  }
  void StepUntilEnd(Server& leader, const Client& client) {
    Until([&] {
      leader.core.Step();
      return !client.ends.empty();
    });
  }
  static std::vector<int32_t> Answer() { return Client::Answer(); }

  TestCluster cluster_;
  cluster_host::Tables& tables_ = cluster_.tables;
  std::unique_ptr<Server> a_, b_;
};

TEST_F(ClusterRequestsTest, ALeaderThatIsLostBehindAcceptedHasPromisedAPlace) {
  StartTwo();
  Client client;
  const swarm::RequestId id = Ask(*b_, client);
  Until([&] { return b_->generator.has_accepted(id); });
  b_->core.queue_limit = 0;  // it takes nobody whom no leader has accepted
  a_.reset();
  Until([&] { return !b_->core.submitted.empty(); });
  EXPECT_EQ(client.moved, 1);
  EXPECT_TRUE(b_->core.submitted[0].was_accepted);
  EXPECT_THAT(b_->core.submitted[0].answer_ids, IsEmpty());
  StepUntilEnd(*b_, client);
  EXPECT_EQ(client.ids, Answer());
  EXPECT_THAT(client.ends, SizeIs(1));
}

TEST_F(ClusterRequestsTest, ALinkThatIsReplacedInMidAnswerBeginsTheRequestAgain) {
  StartTwo();
  Client client;
  Ask(*b_, client);
  Until([&] {
    if (a_->core.open_count() > 0 && client.ids.size() < 2) a_->core.Step();
    return client.ids.size() >= 2;
  });
  const size_t known = client.ids.size();
  const size_t ups = a_->linked.told.size();
  a_->linked.links.Connect(2, b_->linked.address());  // the lower id's link stays
  Until([&] { return a_->linked.told.size() > ups && a_->core.submitted.size() == 2; });
  EXPECT_EQ(a_->core.submitted[1].answer_ids.size(), known);
  EXPECT_EQ(a_->core.open_count(), 1u) << "what the former link asked for is cancelled";
  EXPECT_TRUE(a_->core.submitted[1].was_accepted);
  StepUntilEnd(*a_, client);
  EXPECT_EQ(client.ids, Answer());
  EXPECT_EQ(b_->generator.counts().differences, 0u);
}

TEST_F(ClusterRequestsTest, ADrainMovesARequestThatStillWaits) {
  StartTwo();
  a_->core.up = false;
  Client at_a, at_b;
  Ask(*a_, at_a);
  Ask(*b_, at_b);
  Until([&] { return a_->core.open_count() == 2; });
  tables_.shared.servers[0].is_draining = true;
  Until([&] { return b_->core.open_count() == 2; });
  EXPECT_EQ(a_->core.open_count(), 1u)
      << "of its own clients' requests its core is ended by its owner";
  StepUntilEnd(*b_, at_a);
  StepUntilEnd(*b_, at_b);
  EXPECT_EQ(at_a.ids, Answer());
  EXPECT_EQ(at_b.ids, Answer());
  EXPECT_FALSE(at_a.ends[0].error || at_b.ends[0].error);
}

TEST_F(ClusterRequestsTest, WhatComesBeforeTheCoreWaitsForIt) {
  StartTwo(/*begins_at_once=*/false);
  Client client;
  const swarm::RequestId id = Ask(*b_, client);
  Turn();
  EXPECT_THAT(a_->core.submitted, IsEmpty());
  EXPECT_FALSE(b_->generator.has_accepted(id));
  a_->cell.Begin();
  Until([&] { return b_->generator.has_accepted(id); });
  EXPECT_THAT(a_->core.submitted, SizeIs(1)) << "once";
  StepUntilEnd(*a_, client);
  EXPECT_EQ(client.ids, Answer());
  EXPECT_EQ(client.moved, 0);
}

TEST_F(ClusterRequestsTest, WhatCameEarlyIsForgottenWithTheLease) {
  StartTwo(/*begins_at_once=*/false);
  Client client;
  Ask(*b_, client);
  Turn();
  tables_.shared.servers[0].is_draining = true;
  Until([&] { return b_->core.open_count() == 1; });
  StepUntilEnd(*b_, client);
  EXPECT_EQ(client.ids, Answer());
  EXPECT_THAT(a_->core.submitted, IsEmpty());
}

TEST_F(ClusterRequestsTest, ACancelThatComesEarlyIsNotOvertaken) {
  StartTwo(/*begins_at_once=*/false);
  Client client;
  const swarm::RequestId id = Ask(*b_, client);
  Turn();
  b_->generator.Cancel(id);
  Turn();
  a_->cell.Begin();
  Until([&] { return !client.ends.empty(); });
  EXPECT_EQ(client.ends[0].reason, swarm::FinishReason::kCancelled);
  EXPECT_EQ(a_->core.open_count(), 0u);
}

TEST_F(ClusterRequestsTest, ACancelWhileItMovesIsTheEndAndAsksNobody) {
  StartTwo();
  Client client;
  const swarm::RequestId id = Ask(*b_, client);
  Until([&] {
    if (a_->core.open_count() > 0) a_->core.Step();
    return !client.ids.empty();
  });
  const size_t given = client.ids.size();
  a_.reset();
  Until([&] { return client.moved == 1; });
  b_->generator.Cancel(id);
  ASSERT_THAT(client.ends, SizeIs(1));
  EXPECT_EQ(client.ends[0].reason, swarm::FinishReason::kCancelled);
  EXPECT_EQ(client.ends[0].generated_tokens, given);
  Until([&] { return b_->cell.leads_with.is_set(); });
  Turn();
  EXPECT_THAT(b_->core.submitted, IsEmpty());
  EXPECT_THAT(client.ends, SizeIs(1));
}

TEST_F(ClusterRequestsTest, AFullQueueRefusesTheNewAndTakesTheMoved) {
  StartTwo();
  a_->core.queue_limit = 1;
  Client first, refused;
  const swarm::RequestId id = Ask(*b_, first);
  Until([&] { return b_->generator.has_accepted(id); });
  Ask(*b_, refused, 4);
  Until([&] { return !refused.ends.empty(); });
  EXPECT_TRUE(refused.ends[0].has_no_room);
  EXPECT_THAT(refused.ends[0].error->message(), HasSubstr("queue is full"));
  b_->core.queue_limit = 0;
  a_.reset();
  Until([&] { return b_->core.open_count() == 1; });
  StepUntilEnd(*b_, first);
  EXPECT_EQ(first.ids, Answer());
}

// Without a leader a gateway keeps as many as may wait, and says why it takes no more.
TEST_F(ClusterRequestsTest, AGatewayWithoutALeaderHasAQueueOfItsOwn) {
  tables_.is_away = true;  // so that nobody takes the cell
  b_ = std::make_unique<Server>(cluster_, Holder{2, 22});
  Client waiting[2], refused;
  Ask(*b_, waiting[0]);
  Ask(*b_, waiting[1]);
  Ask(*b_, refused);
  ASSERT_THAT(refused.ends, SizeIs(1));
  EXPECT_TRUE(refused.ends[0].has_no_room);
  EXPECT_THAT(refused.ends[0].error->message(), HasSubstr("No server leads"));
  tables_.is_away = false;
  Until([&] { return b_->core.open_count() == 2; });
  StepUntilEnd(*b_, waiting[0]);
  StepUntilEnd(*b_, waiting[1]);
  EXPECT_EQ(waiting[1].ids, Answer());
}

}  // namespace
}  // namespace weft::server
