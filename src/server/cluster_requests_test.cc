// Requests of two servers of a cluster, in orders of events that no process can be made to have.
// Leases and links are real, on loopback. The database and the cores are the test's own.
#include "server/cluster_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster_host/lease_store_testing.h"
#include "cluster_host/peer_links_testing.h"
#include "server/fake_core_testing.h"

namespace weft::server {
namespace {

using cluster::Holder;
using cluster::Incarnation;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr cluster::CellId kCell = 7;

struct Client {
  std::vector<int32_t> ids;
  std::vector<swarm::FinishRequest> ends;
  int moved = 0;
};

// What ClusterCell does with requests when a lease begins or ends.
class RequestCell : public cluster_host::LedCell {
 public:
  void Lead(Incarnation incarnation, const std::vector<uint8_t>&,
            const std::vector<cluster_host::PeerAddress>&) override {
    leads_with = incarnation;
    if (begins_at_once) Begin();
  }
  void Begin() { requests->BeginLeading(leads_with); }
  void Change(Incarnation incarnation, const std::vector<cluster_host::PeerAddress>&) override {
    leads_with = incarnation;
    if (begins_at_once) Begin();
  }
  void StepDown(const cluster_host::PeerAddress&) override {
    requests->StopLeading();
    requests->OnLeaderChanged();
  }
  void PlaceWorkers(const cluster_host::PeerAddress&) override {}

  ClusterRequests* requests = nullptr;
  bool begins_at_once = true;  // else its core takes time to begin
  Incarnation leads_with;
};

class ClusterRequestsTest : public testing::Test {
 protected:
  struct Server {
    Server(ClusterRequestsTest& test, Holder self, bool begins_at_once = true)
        : linked(test.loop_, test.key_, self),
          store(test.loop_, test.tables_, self),
          generator({Seconds(20), 2}, test.loop_) {
      shared_store::SharedServer shared;
      shared.id = self.server;
      shared.start = self.start;
      shared.name = "server " + ToString(self.server);
      shared.url = linked.address().url;
      host = std::make_unique<cluster_host::LeaseHost>(test.loop_, store, linked.links, shared,
                                                       cluster::LeaseOptions());
      requests = std::make_unique<ClusterRequests>(
          test.loop_, *host, linked.links, kCell, generator, core,
          [](const std::string&) -> Result<ConstraintCache::Constraint> {
            return Error(ErrorCode::kUnsupported, "No constraint is expected.");
          });
      cell.requests = requests.get();
      cell.begins_at_once = begins_at_once;
      host->OnChanged([this] { requests->OnLeaderChanged(); });
      host->Start(kCell, "tiny", cell);
    }

    cluster_host::LinkedServer linked;
    cluster_host::FakeStore store;
    FakeCore core;
    ClusteredGenerator generator;
    RequestCell cell;
    std::unique_ptr<cluster_host::LeaseHost> host;
    std::unique_ptr<ClusterRequests> requests;
  };

  ClusterRequestsTest() {
    shared_store::SharedCell cell;
    cell.row = {kCell, {}, {}, true};
    cell.model = "tiny";
    tables_.shared.cells.push_back(cell);
  }
  void Until(const std::function<bool()>& is_so) { net::RunUntil(loop_, is_so); }
  void Turn(Duration time = Milliseconds(50)) {
    net::EventLoop::Timer stop(loop_);
    stop.FireAfter(time, [this] { loop_.Stop(); });
    loop_.Run();
  }
  // Two servers, the first of which leads.
  void StartTwo(bool begins_at_once = true) {
    a_ = std::make_unique<Server>(*this, Holder{1, 11}, begins_at_once);
    Until([&] { return a_->host->leads() && a_->cell.leads_with.is_set(); });
    a_->host->OnWorkers(1, true);
    b_ = std::make_unique<Server>(*this, Holder{2, 22});
    Until([&] { return a_->linked.links.IsUp(2) && b_->host->FindLeader().has_value(); });
  }
  // Ends the first server as a kill does.
  void KillA() {
    a_->requests.reset();
    a_->host.reset();
    a_.reset();
  }
  swarm::RequestId Ask(Server& gateway, Client& client, int32_t first = 2) {
    swarm::Request request;
    request.prompt_ids = {first, 3};
    request.max_tokens = 4;
    request.sampling.seed = 5;
    RequestCallbacks callbacks;
    callbacks.on_token = [&client](const auto& token) { client.ids.push_back(token.token_id); };
    callbacks.on_finish = [&client](const auto& end) { client.ends.push_back(end); };
    callbacks.on_moving = [&client] { ++client.moved; };
    return gateway.generator.Submit(std::move(request), std::move(callbacks));
  }
  void StepUntilEnd(Server& leader, const Client& client) {
    Until([&] {
      leader.core.Step();
      return !client.ends.empty();
    });
  }
  static std::vector<int32_t> Answer() { return {250, 251, 252, 253}; }

  net::EventLoop loop_;
  const cluster_host::ClusterKey key_ = cluster_host::ClusterKey::Random();
  cluster_host::Tables tables_;
  std::unique_ptr<Server> a_, b_;
};

TEST_F(ClusterRequestsTest, ALeaderThatIsLostBehindAcceptedHasPromisedAPlace) {
  StartTwo();
  Client client;
  const swarm::RequestId id = Ask(*b_, client);
  Until([&] { return b_->generator.has_accepted(id); });
  b_->core.queue_limit = 0;  // it takes nobody whom no leader has accepted
  KillA();
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
  KillA();
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
  KillA();
  Until([&] { return b_->core.open_count() == 1; });
  StepUntilEnd(*b_, first);
  EXPECT_EQ(first.ids, Answer());
}

// Without a leader a gateway keeps as many as may wait, and says why it takes no more.
TEST_F(ClusterRequestsTest, AGatewayWithoutALeaderHasAQueueOfItsOwn) {
  tables_.is_away = true;  // so that nobody takes the cell
  b_ = std::make_unique<Server>(*this, Holder{2, 22});
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
