// The host of leases with a database, a cell and peers of the test's own.
#include "cluster_host/lease_host.h"

#include <gmock/gmock.h>

#include "cluster_host/lease_store_testing.h"
#include "cluster_host/peer_links_testing.h"

namespace weft::cluster_host {
namespace {

using cluster::CellId;
using cluster::Holder;
using cluster::Incarnation;
using testing::Contains;
using testing::IsEmpty;

constexpr CellId kCell = 7;
using Bytes = std::vector<uint8_t>;

// Says what it was told.
class FakeCell : public LedCell {
 public:
  void Lead(Incarnation, const Bytes& placement, const std::vector<PeerAddress>&) override {
    said.push_back("lead " + std::to_string(placement.size()));
  }
  void Change(Incarnation, const std::vector<PeerAddress>& successors) override {
    said.push_back("successors " + std::to_string(successors.size()));
  }
  void StepDown(const PeerAddress& to) override { said.push_back("step down " + to.url); }
  void PlaceWorkers(const PeerAddress& to) override { said.push_back("place " + to.url); }
  std::vector<std::string> said;
};

class LeaseHostTest : public testing::Test {
 protected:
  struct Server {
    Server(LeaseHostTest& test, Holder self)
        : linked(test.loop_, test.key_, self), store(test.loop_, test.tables_, self) {
      shared_store::SharedServer shared;
      shared.id = self.server;
      shared.start = self.start;
      shared.name = "server " + ToString(self.server);
      shared.url = linked.address().url;
      LeaseHostTimes times;
      times.placement_interval = Milliseconds(50);
      times.read_again = Milliseconds(20);
      host = std::make_unique<LeaseHost>(test.loop_, store, linked.links, shared,
                                         cluster::LeaseOptions(), times);
      host->Start(kCell, "tiny", cell);
    }
    LinkedServer linked;
    FakeStore store;
    FakeCell cell;
    std::unique_ptr<LeaseHost> host;
  };

  LeaseHostTest() {
    shared_store::SharedCell cell;
    cell.row = {kCell, {}, {}, true};
    cell.model = "tiny";
    tables_.shared.cells.push_back(cell);
    // Another model's, which nobody here serves.
    cell.row.cell = 8;
    tables_.shared.cells.push_back(cell);
  }
  void Until(const std::function<bool()>& is_so) { RunUntil(loop_, is_so); }
  // Two servers, the first of which leads with a worker.
  void StartTwo() {
    a_ = std::make_unique<Server>(*this, Holder{1, 11});
    Until([&] { return a_->host->leads(); });
    a_->host->OnWorkers(1, true);
    b_ = std::make_unique<Server>(*this, Holder{2, 22});
    Until([&] { return a_->linked.links.IsUp(2) && b_->host->FindLeader().has_value(); });
  }

  net::EventLoop loop_;
  const ClusterKey key_ = ClusterKey::Random();
  Tables tables_;
  std::unique_ptr<Server> a_, b_;
};

TEST_F(LeaseHostTest, TheFirstServerLeadsWithWhatWasPlaced) {
  tables_.placement = {1, 2, 3};
  a_ = std::make_unique<Server>(*this, Holder{1, 11});
  Until([&] { return !a_->cell.said.empty(); });
  EXPECT_EQ(a_->cell.said.front(), "lead 3");
  EXPECT_EQ(a_->host->FindLeader()->name, "server 1");
  EXPECT_EQ(tables_.shared.cells[1].row.holder, Holder()) << "another model's cell is no matter";
}

TEST_F(LeaseHostTest, AnotherStandsByAndWorkersHearOfIt) {
  StartTwo();
  Until([&] { return !a_->cell.said.empty() && a_->cell.said.back() == "successors 1"; });
  Until([&] { return b_->host->FindLeader()->up; });
  EXPECT_FALSE(b_->host->leads());
  EXPECT_EQ(b_->host->FindLeader()->url, a_->linked.address().url);
  Until([&] {
    return !b_->cell.said.empty() && b_->cell.said.back() == "place " + a_->linked.address().url;
  });
}

TEST_F(LeaseHostTest, AKilledLeadersCellIsTakenAtOnce) {
  StartTwo();
  a_->host->NotePlacement({4, 5});
  Until([&] { return tables_.placement.size() == 2; });
  a_.reset();
  Until([&] { return b_->host->leads(); });
  Until([&] { return b_->cell.said.back().starts_with("lead"); });
  EXPECT_EQ(b_->cell.said.back(), "lead 2");
  EXPECT_EQ(tables_.shared.cells[0].row.holder, (Holder{2, 22}));
}

TEST_F(LeaseHostTest, PlacementsAreWrittenNowAndThen) {
  a_ = std::make_unique<Server>(*this, Holder{1, 11});
  a_->host->NotePlacement({9});
  Until([&] { return a_->host->leads() && !a_->cell.said.empty(); });
  EXPECT_THAT(tables_.placement, IsEmpty()) << "before it leads it has none";
  for (uint8_t i = 1; i <= 100; ++i) a_->host->NotePlacement({i});
  Until([&] { return tables_.placement == Bytes{100}; });
  EXPECT_LE(a_->store.writes, 2);
  tables_.is_away = true;
  a_->host->NotePlacement({101});
  Until([&] { return a_->store.writes >= 4; });
  tables_.is_away = false;
  Until([&] { return tables_.placement == Bytes{101}; });
}

TEST_F(LeaseHostTest, WithoutADatabaseALeaderGoesOn) {
  StartTwo();
  const auto before = a_->host->incarnation();
  tables_.is_away = true;
  Until([&] { return !a_->host->is_database_there() && !b_->host->is_database_there(); });
  net::EventLoop::Timer pause(loop_);
  pause.FireAfter(Seconds(1), [&] { loop_.Stop(); });
  loop_.Run();
  EXPECT_EQ(a_->host->incarnation(), before);
  EXPECT_FALSE(b_->host->leads());
  tables_.is_away = false;
  Until([&] { return a_->host->is_database_there(); });
  EXPECT_EQ(a_->host->incarnation(), before);
}

TEST_F(LeaseHostTest, ADrainedServerGivesItsCell) {
  StartTwo();
  tables_.shared.servers[0].is_draining = true;
  Until([&] { return b_->host->leads() && !a_->host->leads(); });
  EXPECT_THAT(a_->cell.said, Contains("step down " + b_->linked.address().url));
}

TEST_F(LeaseHostTest, AWorkerThatHasSeenMoreHasTheCellTakenAgain) {
  a_ = std::make_unique<Server>(*this, Holder{1, 11});
  Until([&] { return a_->host->leads(); });
  a_->host->OnWorkers(1, true);
  const Incarnation before = *a_->host->incarnation();
  tables_.last = Incarnation(before.value() + 1000);
  a_->host->OnWorkerSaw(Incarnation(before.value() + 1000));
  Until([&] { return a_->host->incarnation() == Incarnation(before.value() + 1001); });
  EXPECT_THAT(a_->cell.said, Contains("successors 0"));
}

}  // namespace
}  // namespace weft::cluster_host
