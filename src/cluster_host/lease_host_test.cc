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
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr CellId kCell = 7, kOther = 8;
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
    Server(LeaseHostTest& test, Holder self, const std::vector<std::string>& models = {"tiny"})
        : linked(test.loop_, test.key_, self), store(test.loop_, test.tables_, self) {
      shared_store::SharedServer shared;
      shared.id = self.server;
      shared.start = self.start;
      shared.name = "server " + ToString(self.server);
      shared.url = linked.address().url;
      shared.models = models;
      LeaseHostTimes times;
      times.placement_interval = Milliseconds(50);
      times.read_again = Milliseconds(20);
      host = std::make_unique<LeaseHost>(test.loop_, store, linked.links, shared,
                                         cluster::LeaseOptions(), times);
      host->Start();
      if (models.front() == "tiny") host->Add(kCell, "tiny", cell);
      if (models.back() == "large") host->Add(kOther, "large", other);
    }
    LinkedServer linked;
    FakeStore store;
    FakeCell cell, other;
    std::unique_ptr<LeaseHost> host;
  };

  LeaseHostTest() {
    shared_store::SharedCell cell;
    cell.row = {kCell, {}, {}, true};
    cell.model = "tiny";
    tables_.shared.cells.push_back(cell);
    cell.row.cell = kOther;
    cell.model = "large";
    tables_.shared.cells.push_back(cell);
  }
  void Until(const std::function<bool()>& is_so) { RunUntil(loop_, is_so); }
  // Two servers, the first of which leads all that it serves, each with a worker.
  void StartTwo(const std::vector<std::string>& of_a = {"tiny"},
                const std::vector<std::string>& of_b = {"tiny"}) {
    a_ = std::make_unique<Server>(*this, Holder{1, 11}, of_a);
    for (const CellId cell : {kCell, kOther}) {
      if (cell == kOther && of_a.back() != "large") continue;
      Until([&] { return a_->host->leads(cell); });
      a_->host->OnWorkers(cell, 1, true);
    }
    b_ = std::make_unique<Server>(*this, Holder{2, 22}, of_b);
    Until([&] { return a_->linked.links.IsUp(2) && b_->host->FindLeader(kCell).has_value(); });
  }

  net::EventLoop loop_;
  const ClusterKey key_ = ClusterKey::Random();
  Tables tables_;
  std::unique_ptr<Server> a_, b_;
};

TEST_F(LeaseHostTest, TheFirstServerLeadsWithWhatWasPlaced) {
  tables_.placements[kCell] = {1, 2, 3};
  a_ = std::make_unique<Server>(*this, Holder{1, 11});
  Until([&] { return !a_->cell.said.empty(); });
  EXPECT_EQ(a_->cell.said.front(), "lead 3");
  EXPECT_EQ(a_->host->FindLeader(kCell)->name, "server 1");
  EXPECT_EQ(tables_.shared.cells[1].row.holder, Holder()) << "another model's cell is no matter";
}

TEST_F(LeaseHostTest, AnotherStandsByAndWorkersHearOfIt) {
  StartTwo();
  Until([&] { return !a_->cell.said.empty() && a_->cell.said.back() == "successors 1"; });
  Until([&] { return b_->host->FindLeader(kCell)->up; });
  EXPECT_FALSE(b_->host->leads(kCell));
  EXPECT_EQ(b_->host->FindLeader(kCell)->url, a_->linked.address().url);
  Until([&] {
    return !b_->cell.said.empty() && b_->cell.said.back() == "place " + a_->linked.address().url;
  });
}

TEST_F(LeaseHostTest, AKilledLeadersCellIsTakenAtOnce) {
  StartTwo();
  a_->host->NotePlacement(kCell, {4, 5});
  Until([&] { return tables_.placements[kCell].size() == 2; });
  a_.reset();
  Until([&] { return b_->host->leads(kCell); });
  Until([&] { return b_->cell.said.back().starts_with("lead"); });
  EXPECT_EQ(b_->cell.said.back(), "lead 2");
  EXPECT_EQ(tables_.shared.cells[0].row.holder, (Holder{2, 22}));
}

TEST_F(LeaseHostTest, PlacementsAreWrittenNowAndThen) {
  a_ = std::make_unique<Server>(*this, Holder{1, 11});
  a_->host->NotePlacement(kCell, {9});
  Until([&] { return a_->host->leads(kCell) && !a_->cell.said.empty(); });
  EXPECT_THAT(tables_.placements[kCell], IsEmpty()) << "before it leads it has none";
  for (uint8_t i = 1; i <= 100; ++i) a_->host->NotePlacement(kCell, {i});
  Until([&] { return tables_.placements[kCell] == Bytes{100}; });
  EXPECT_LE(a_->store.writes, 2);
  tables_.is_away = true;
  a_->host->NotePlacement(kCell, {101});
  Until([&] { return a_->store.writes >= 4; });
  tables_.is_away = false;
  Until([&] { return tables_.placements[kCell] == Bytes{101}; });
}

TEST_F(LeaseHostTest, WithoutADatabaseALeaderGoesOn) {
  StartTwo();
  const auto before = a_->host->incarnation(kCell);
  tables_.is_away = true;
  Until([&] { return !a_->host->is_database_there() && !b_->host->is_database_there(); });
  net::EventLoop::Timer pause(loop_);
  pause.FireAfter(Seconds(1), [&] { loop_.Stop(); });
  loop_.Run();
  EXPECT_EQ(a_->host->incarnation(kCell), before);
  EXPECT_FALSE(b_->host->leads(kCell));
  tables_.is_away = false;
  Until([&] { return a_->host->is_database_there(); });
  EXPECT_EQ(a_->host->incarnation(kCell), before);
}

TEST_F(LeaseHostTest, ADrainedServerGivesItsCell) {
  StartTwo();
  tables_.shared.servers[0].is_draining = true;
  Until([&] { return b_->host->leads(kCell) && !a_->host->leads(kCell); });
  EXPECT_THAT(a_->cell.said, Contains("step down " + b_->linked.address().url));
}

TEST_F(LeaseHostTest, AWorkerThatHasSeenMoreHasTheCellTakenAgain) {
  a_ = std::make_unique<Server>(*this, Holder{1, 11});
  Until([&] { return a_->host->leads(kCell); });
  a_->host->OnWorkers(kCell, 1, true);
  const Incarnation before = *a_->host->incarnation(kCell);
  tables_.last = Incarnation(before.value() + 1000);
  a_->host->OnWorkerSaw(kCell, Incarnation(before.value() + 1000));
  Until([&] { return a_->host->incarnation(kCell) == Incarnation(before.value() + 1001); });
  EXPECT_THAT(a_->cell.said, Contains("successors 0"));
}

const std::vector<std::string> kBoth = {"tiny", "large"};

TEST_F(LeaseHostTest, TwoModelsHaveALeaseEach) {
  tables_.placements[kOther] = {1, 2, 3, 4};
  StartTwo(kBoth, kBoth);
  EXPECT_EQ(a_->cell.said.front(), "lead 0");
  EXPECT_EQ(a_->other.said.front(), "lead 4") << "each with its own placement";
  EXPECT_NE(a_->host->incarnation(kCell), a_->host->incarnation(kOther));
  a_->host->NotePlacement(kCell, {1});
  a_->host->NotePlacement(kOther, {2, 2});
  Until([&] { return tables_.placements[kCell].size() == 1; });
  Until([&] { return tables_.placements[kOther].size() == 2; });
  a_.reset();
  Until([&] { return b_->host->leads(kCell) && b_->host->leads(kOther); });
  Until([&] { return b_->other.said.back() == "lead 2" && b_->cell.said.back() == "lead 1"; });
}

TEST_F(LeaseHostTest, AServerLeadsOneModelAndStandsByForAnother) {
  StartTwo(kBoth, kBoth);
  // The other server has taken one of the two, as after a cut line, and this one has no workers.
  a_->host->OnWorkers(kOther, 0, false);
  tables_.shared.cells[1].row.holder = {2, 22};
  Until([&] { return !a_->host->leads(kOther) && b_->host->leads(kOther); });
  Until([&] { return a_->host->FindLeader(kOther).has_value(); });
  EXPECT_EQ(a_->host->FindLeader(kOther)->server, cluster::ServerId(2u));
  EXPECT_TRUE(a_->host->leads(kCell));
  EXPECT_TRUE(a_->host->leads_any());
  EXPECT_EQ(b_->host->FindLeader(kCell)->server, cluster::ServerId(1u));
  EXPECT_THAT(a_->cell.said, Not(Contains(HasSubstr("step down"))));
}

TEST_F(LeaseHostTest, ADrainedServerGivesEachCellToOneThatServesItsModel) {
  StartTwo(kBoth, {"tiny"});
  EXPECT_TRUE(a_->host->SharesModels(b_->host->self()));
  tables_.shared.servers[0].is_draining = true;
  Until([&] { return b_->host->leads(kCell) && !a_->host->leads(kCell); });
  net::EventLoop::Timer pause(loop_);
  pause.FireAfter(Seconds(1), [&] { loop_.Stop(); });
  loop_.Run();
  EXPECT_TRUE(a_->host->leads(kOther)) << "nobody else serves that model";
  EXPECT_THAT(b_->other.said, IsEmpty());
}

TEST_F(LeaseHostTest, WhoLeadsAModelThatIsNotServedHereIsKnown) {
  StartTwo(kBoth, {"tiny"});
  Until([&] { return b_->host->FindLeader(kOther).has_value(); });
  EXPECT_EQ(b_->host->FindLeader(kOther)->name, "server 1");
  EXPECT_FALSE(b_->host->leads(kOther));
}

}  // namespace
}  // namespace weft::cluster_host
