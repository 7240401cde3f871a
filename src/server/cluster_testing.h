// For tests: servers of a cluster whose core is the test's own. Leases and links are real, on
// loopback; the database is the test's.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cluster_host/lease_host.h"
#include "cluster_host/lease_store_testing.h"
#include "cluster_host/peer_links_testing.h"
#include "server/cluster_requests.h"
#include "server/fake_core_testing.h"

namespace weft::server {

inline constexpr cluster::CellId kTestCell = 7;

// What the servers of a test share: a loop, a key, and the tables with one cell.
struct TestCluster {
  TestCluster() {
    shared_store::SharedCell cell;
    cell.row = {kTestCell, {}, {}, true};
    cell.model = "tiny";
    tables.shared.cells.push_back(cell);
  }

  void Until(const std::function<bool()>& is_so) { net::RunUntil(loop, is_so); }
  void Turn(Duration time) {
    net::EventLoop::Timer stop(loop);
    stop.FireAfter(time, [this] { loop.Stop(); });
    loop.Run();
  }

  net::EventLoop loop;
  const cluster_host::ClusterKey key = cluster_host::ClusterKey::Random();
  cluster_host::Tables tables;
};

// A server's place in it: its port, its statements, and its leases.
struct TestPlace {
  TestPlace(TestCluster& cluster, cluster::Holder self)
      : linked(cluster.loop, cluster.key, self), store(cluster.loop, cluster.tables, self) {
    shared_store::SharedServer shared;
    shared.id = self.server;
    shared.start = self.start;
    shared.name = "server " + ToString(self.server);
    shared.url = linked.address().url;
    shared.models = {"tiny"};
    host = std::make_unique<cluster_host::LeaseHost>(cluster.loop, store, linked.links, shared,
                                                     cluster::LeaseOptions());
  }

  cluster_host::LinkedServer linked;
  cluster_host::FakeStore store;
  std::unique_ptr<cluster_host::LeaseHost> host;
};

// What ClusterCell does with requests when a lease begins or ends.
class RequestCell : public cluster_host::LedCell {
 public:
  void Lead(cluster::Incarnation incarnation, const std::vector<uint8_t>&,
            const std::vector<cluster_host::PeerAddress>&) override {
    leads_with = incarnation;
    if (begins_at_once) Begin();
  }
  void Begin() { requests->BeginLeading(leads_with); }
  void Change(cluster::Incarnation incarnation,
              const std::vector<cluster_host::PeerAddress>&) override {
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
  cluster::Incarnation leads_with;
};

// A server whose core gives the tokens that a test lets it give.
struct FakeCoreServer : TestPlace {
  FakeCoreServer(TestCluster& cluster, cluster::Holder self, bool begins_at_once = true)
      : TestPlace(cluster, self), generator({Seconds(20), 2}, cluster.loop) {
    requests = std::make_unique<ClusterRequests>(
        cluster.loop, *host, linked.links, kTestCell, generator, core,
        [](const std::string&) -> Result<ConstraintCache::Constraint> {
          return Error(ErrorCode::kUnsupported, "No constraint is expected.");
        });
    cell.requests = requests.get();
    cell.begins_at_once = begins_at_once;
    host->OnChanged([this] { requests->OnLeaderChanged(); });
    host->Start();
    host->Add(kTestCell, "tiny", cell);
  }
  // As a kill does. Nothing is told to anybody.
  ~FakeCoreServer() {
    requests.reset();
    host.reset();
  }

  FakeCore core;
  ClusteredGenerator generator;
  RequestCell cell;
  std::unique_ptr<ClusterRequests> requests;
};

// Of a request: what its client was told.
struct TestClient {
  std::vector<int32_t> ids;
  std::vector<swarm::FinishRequest> ends;
  int moved = 0;

  // FakeCore answers it with `Answer()`, for `first` = 2.
  swarm::RequestId Ask(Generator& generator, int32_t first = 2) {
    swarm::Request request;
    request.prompt_ids = {first, 3};
    request.max_tokens = 4;
    request.sampling.seed = 5;
    RequestCallbacks callbacks;
    callbacks.on_token = [this](const auto& token) { ids.push_back(token.token_id); };
    callbacks.on_finish = [this](const auto& end) { ends.push_back(end); };
    callbacks.on_moving = [this] { ++moved; };
    return generator.Submit(std::move(request), std::move(callbacks));
  }
  static std::vector<int32_t> Answer() { return {250, 251, 252, 253}; }
};

}  // namespace weft::server
