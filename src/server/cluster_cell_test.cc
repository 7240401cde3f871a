// A cell whose lease begins and ends here: it is taken, led and lost, and answers go on elsewhere.
// Its core is a real one without devices, so requests wait in it. The other server's core is the
// test's own, and answers.
#include "server/cluster_cell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/cluster_testing.h"
#include "server/connect_testing.h"
#include "server/fake_socket_testing.h"
#include "server/server_testing.h"
#include "wire/elsewhere.h"

namespace weft::server {
namespace {

using cluster::Holder;
using cluster::Incarnation;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

ServedModel TinyModel() {
  ServedModel model;
  model.package.manifest.name = model.info.name = "tiny";
  model.info.layers.resize(3);
  model.info.hidden_columns = 8;
  model.info.vocabulary = 1000;
  model.text = TinyText();
  return model;
}

// What a server of the cluster has beside its place there.
struct CellServer : TestPlace {
  CellServer(TestCluster& cluster, Holder self) : TestPlace(cluster, self) {
    recovery = Recovery::Open(cluster.loop, {}).value();
    CellShared shared{options,
                      cluster.loop,
                      planning,
                      keys,
                      [](swarm::CoreOptions&) {},
                      false,
                      CellShared::Shared{"0123456789abcdef", "seed"}};
    cell = std::make_unique<Cell>(shared, TinyModel(), recovery->BeginCell({}).value());
    clustered = std::make_unique<ClusterCell>(cluster.loop, *cell, *host, linked.links, kTestCell,
                                              [this] { ++first_leads; });
    cell->OnChanged([this] { clustered->OnSwarmChanged(); });
    host->OnChanged([this] { clustered->OnLeaderChanged(); });
    host->Start();
    clustered->Begin();
  }
  // As a kill does. Nothing is told to anybody.
  ~CellServer() {
    clustered.reset();
    host.reset();
  }

  bool leads() const { return host->leads(kTestCell) && cell->host().leads(); }
  uint64_t incarnation() const { return host->incarnation(kTestCell)->value(); }
  size_t open_requests() const {
    size_t count = 0;
    for (const auto& [client, requests] : cell->host().OpenRequests()) count += requests;
    return count;
  }
  std::shared_ptr<FakeSocket> Join() {
    auto socket = std::make_shared<FakeSocket>();
    callbacks = clustered->Take({"10.0.0.1", false, std::nullopt, socket});
    return socket;
  }

  ServerOptions options;
  TaskQueue planning{1};
  KeyTable keys{"tiny"};
  int first_leads = 0;
  std::unique_ptr<Recovery> recovery;
  std::unique_ptr<Cell> cell;
  std::unique_ptr<ClusterCell> clustered;
  net::WebSocketCallbacks callbacks;  // of the worker that joined last
};

class ClusterCellTest : public testing::Test {
 protected:
  void Until(const std::function<bool()>& is_so) { cluster_.Until(is_so); }
  void Turn(Duration time = Milliseconds(50)) { cluster_.Turn(time); }
  // The first server, which leads.
  void StartLeading() {
    a_ = std::make_unique<CellServer>(cluster_, Holder{1, 11});
    Until([&] { return a_->leads(); });
  }
  // The second one, which stands by.
  void StartStandby() {
    b_ = std::make_unique<FakeCoreServer>(cluster_, Holder{2, 22});
    Until([&] { return a_->linked.links.IsUp(2) && b_->host->FindLeader(kTestCell).has_value(); });
  }
  // The other way round: the fake core leads, and the cell stands by.
  void StartBehind() {
    b_ = std::make_unique<FakeCoreServer>(cluster_, Holder{2, 22});
    Until([&] { return b_->host->leads(kTestCell) && b_->cell.leads_with.is_set(); });
    b_->host->OnWorkers(kTestCell, 1, true);
    a_ = std::make_unique<CellServer>(cluster_, Holder{1, 11});
    Until([&] {
      const auto leader = a_->host->FindLeader(kTestCell);
      return leader && leader->up && b_->linked.links.IsUp(1);
    });
  }
  void Drain(cluster::ServerId server) {
    for (auto& each : cluster_.tables.shared.servers)
      if (each.id == server) each.is_draining = true;
  }
  void StepUntilEnd(const TestClient& client) {
    Until([&] {
      b_->core.Step();
      return !client.ends.empty();
    });
  }
  std::string ElsewhereOfB() const {
    return "4307 " + wire::EncodeElsewhere({"ws" + b_->linked.address().url.substr(4), ""});
  }

  TestCluster cluster_;
  std::unique_ptr<CellServer> a_;
  std::unique_ptr<FakeCoreServer> b_;
};

TEST_F(ClusterCellTest, ACellThatNobodyLeadsIsTaken) {
  a_ = std::make_unique<CellServer>(cluster_, Holder{1, 11});
  EXPECT_FALSE(a_->cell->host().leads());
  EXPECT_STREQ(a_->clustered->FindReasonNotReady()->state, "down");
  EXPECT_EQ(a_->first_leads, 0);
  Until([&] { return a_->leads(); });
  EXPECT_EQ(a_->first_leads, 1);
  EXPECT_EQ(cluster_.tables.shared.cells[0].row.holder, (Holder{1, 11}));
  EXPECT_THAT(a_->clustered->FindReasonNotReady()->reason, HasSubstr("No devices"))
      << "its own core says why";
}

TEST_F(ClusterCellTest, AWorkerThatComesBeforeTheLeaseWaitsForTheCore) {
  a_ = std::make_unique<CellServer>(cluster_, Holder{1, 11});
  const auto socket = a_->Join();
  EXPECT_THAT(socket->closed, IsEmpty());
  Until([&] { return a_->leads(); });
  a_->callbacks.on_message(ConnectMessage());
  EXPECT_THAT(a_->cell->host().snapshot().workers, SizeIs(1));
  EXPECT_GT(socket->sent, 0);
  const auto direct = a_->Join();
  a_->callbacks.on_message(ConnectMessage());
  EXPECT_THAT(a_->cell->host().snapshot().workers, SizeIs(2)) << "now they come at once";
  EXPECT_THAT(socket->closed, IsEmpty());
}

TEST_F(ClusterCellTest, AStandbySendsWorkersToTheLeader) {
  StartBehind();
  const auto socket = a_->Join();
  EXPECT_THAT(socket->closed, ElementsAre(ElsewhereOfB()));
  EXPECT_FALSE(a_->clustered->FindReasonNotReady()) << "the leader answers";
  EXPECT_EQ(a_->cell->host().message(), "server 2 leads this model, and this server stands by.");
}

TEST_F(ClusterCellTest, AKilledLeadersCellIsTakenWithAnAnswerThatGoesOn) {
  StartBehind();
  TestClient client;
  client.Ask(*a_->cell->clustered());
  Until([&] {
    if (b_->core.open_count() > 0 && client.ids.size() < 2) b_->core.Step();
    return client.ids.size() == 2;
  });
  b_.reset();
  Until([&] { return a_->leads() && a_->open_requests() == 1; });
  EXPECT_EQ(client.moved, 1);
  EXPECT_THAT(client.ends, IsEmpty());
  EXPECT_EQ(a_->first_leads, 1);
  // Its core has no devices. The next leader gives the rest, behind what the client has.
  b_ = std::make_unique<FakeCoreServer>(cluster_, Holder{2, 23});
  Until([&] { return a_->linked.links.IsUp(2); });
  Drain(1);
  Until([&] { return b_->core.open_count() == 1; });
  EXPECT_THAT(b_->core.submitted[0].answer_ids, SizeIs(2));
  EXPECT_TRUE(b_->core.submitted[0].was_accepted);
  StepUntilEnd(client);
  EXPECT_EQ(client.ids, TestClient::Answer());
  EXPECT_FALSE(client.ends[0].error);
  EXPECT_EQ(client.ends[0].generated_tokens, 4u);
}

TEST_F(ClusterCellTest, ALeaseThatIsGivenTakesWorkersAndRequestsAlong) {
  StartLeading();
  const auto socket = a_->Join();
  a_->callbacks.on_message(ConnectMessage());
  StartStandby();
  TestClient at_a, at_b;
  at_a.Ask(*a_->cell->clustered());
  at_b.Ask(b_->generator);
  Until([&] { return a_->open_requests() == 2; });
  Drain(1);
  Until([&] { return b_->core.open_count() == 2; });
  EXPECT_FALSE(a_->cell->host().leads());
  EXPECT_THAT(socket->closed, ElementsAre(ElsewhereOfB()));
  StepUntilEnd(at_a);
  StepUntilEnd(at_b);
  EXPECT_EQ(at_a.ids, TestClient::Answer());
  EXPECT_EQ(at_b.ids, TestClient::Answer());
  EXPECT_FALSE(at_a.ends[0].error || at_b.ends[0].error);
  // Who comes later is sent there at once.
  EXPECT_THAT(a_->Join()->closed, ElementsAre(ElsewhereOfB()));
}

// Another server has the row, so this one is fenced, whatever it thinks. It has no workers.
TEST_F(ClusterCellTest, ALeaseThatIsLostEndsTheCore) {
  StartLeading();
  StartStandby();
  TestClient client;
  client.Ask(*a_->cell->clustered());
  EXPECT_EQ(a_->open_requests(), 1u);
  const uint64_t before = a_->incarnation();
  auto& row = cluster_.tables.shared.cells[0].row;
  cluster_.tables.last = Incarnation(before + 10);
  row = {kTestCell, cluster_.tables.last, {2, 22}, false};
  Until([&] { return !a_->cell->host().leads() && b_->core.open_count() == 1; });
  EXPECT_FALSE(a_->host->leads(kTestCell));
  EXPECT_GT(b_->host->incarnation(kTestCell)->value(), before + 10);
  // What the deposed leader would write is refused.
  bool is_written = true;
  a_->store.WritePlacement(kTestCell, Incarnation(before), {1},
                           [&](const Result<bool>& written) { is_written = *written; });
  Until([&] { return !is_written; });
  EXPECT_THAT(cluster_.tables.placements[kTestCell], Not(ElementsAre(1)));
  StepUntilEnd(client);
  EXPECT_EQ(client.ids, TestClient::Answer());
}

// A worker that has been told more by another server is not led with less.
TEST_F(ClusterCellTest, AWorkerThatHasSeenMoreRaisesTheCoreThatRuns) {
  StartLeading();
  const auto socket = a_->Join();
  a_->callbacks.on_message(ConnectMessage());
  Until([&] { return a_->cell->host().snapshot().workers.size() == 1; });
  TestClient client;
  client.Ask(*a_->cell->clustered());
  const uint64_t before = a_->incarnation();
  // Others hear of workers a moment after they come.
  Turn(Milliseconds(200));
  a_->host->OnWorkerSaw(kTestCell, Incarnation(before + 1000));
  cluster_.tables.last = Incarnation(before + 1000);
  Until([&] { return a_->leads() && a_->incarnation() > before + 1000; });
  EXPECT_EQ(a_->open_requests(), 1u) << "the core goes on with what it has";
  EXPECT_EQ(client.moved, 0);
  EXPECT_THAT(socket->closed, IsEmpty());
  EXPECT_EQ(a_->first_leads, 1);
}

TEST_F(ClusterCellTest, APlacementIsWrittenAndTheNextLeaderReadsIt) {
  StartLeading();
  const auto socket = a_->Join();
  a_->callbacks.on_message(ConnectMessage());
  Until([&] { return !cluster_.tables.placements[kTestCell].empty(); });
  store::pb::Placement placement;
  const auto& bytes = cluster_.tables.placements[kTestCell];
  ASSERT_TRUE(placement.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  EXPECT_EQ(placement.swarm_id(), "0123456789abcdef");
  a_.reset();
  a_ = std::make_unique<CellServer>(cluster_, Holder{1, 12});
  Until([&] { return a_->leads(); });
}

TEST_F(ClusterCellTest, APlacementThatCannotBeParsedIsNoPlacement) {
  cluster_.tables.placements[kTestCell] = {0xff, 0xff, 0xff};
  StartLeading();
  EXPECT_EQ(a_->first_leads, 1);
  EXPECT_THAT(a_->cell->host().snapshot().workers, IsEmpty());
}

TEST_F(ClusterCellTest, AServerThatStopsLetsRequestsOfOthersGoOn) {
  StartLeading();
  StartStandby();
  TestClient client;
  client.Ask(b_->generator);
  Until([&] { return a_->open_requests() == 1; });
  a_->clustered->StopServing();
  a_->cell->EndRequests(Error(ErrorCode::kUnavailable, "The server is stopping."));
  Until([&] { return client.moved == 1; });
  EXPECT_THAT(client.ends, IsEmpty());
  EXPECT_STREQ(a_->clustered->FindReasonNotReady()->state, "stopping");
  a_.reset();
  Until([&] { return b_->core.open_count() == 1; });
  StepUntilEnd(client);
  EXPECT_EQ(client.ids, TestClient::Answer());
}

TEST_F(ClusterCellTest, AWorkerThatNamesAnotherCellIsNotLetIn) {
  a_ = std::make_unique<CellServer>(cluster_, Holder{1, 11});
  RouteParts parts;
  a_->clustered->AddParts(parts);
  net::HttpRequest request;
  request.remote_is_loopback = true;
  EXPECT_FALSE(parts.admit_worker(request));
  request.query = "cell=7";
  EXPECT_FALSE(parts.admit_worker(request));
  for (const char* query : {"cell=8", "cell=seven", "cell=4294967303"}) {
    request.query = query;
    const auto refusal = parts.admit_worker(request);
    ASSERT_TRUE(refusal) << query;
    EXPECT_EQ(refusal->status, 404);
  }
}

}  // namespace
}  // namespace weft::server
