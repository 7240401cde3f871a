// Leases in a real PostgreSQL: each statement alone, two servers at once, a deposed leader's write,
// a database that is killed.
#include "shared_store/shared_leases.h"

#include <gmock/gmock.h>

#include "net/net_testing.h"
#include "postgres/postgres_testing.h"
#include "shared_store/cluster_tables.h"

namespace weft::shared_store {
namespace {

using cluster::CellId;
using cluster::Holder;
using cluster::Incarnation;
using cluster::ServerId;
using cluster::StartId;
using postgres::Connection;
using postgres::TestServer;
using testing::HasSubstr;

const std::vector<uint8_t> kCheck = {1, 2, 3};

class SharedLeasesTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!TestServer::Programs().empty() && postgres::Libpq::Load().ok())
      server_ = std::make_unique<TestServer>();
  }
  static void TearDownTestSuite() { server_.reset(); }

  void SetUp() override {
    if (server_ == nullptr) GTEST_SKIP() << "PostgreSQL is not installed";
    a_line_ = Connect();
    b_line_ = Connect();
    ASSERT_TRUE(Ask(*a_line_,
                    "drop table if exists placements, cells, models, servers, usage_hour, "
                    "key_loads, key_changes, keys, device_times, weft_cluster")
                    .ok());
    ASSERT_TRUE(Make(kCheck).ok());
    a_ = std::make_unique<SharedLeases>(*a_line_, Holder{1, 11}, Milliseconds(300));
    b_ = std::make_unique<SharedLeases>(*b_line_, Holder{2, 22}, Milliseconds(300));
  }

  std::unique_ptr<Connection> Connect() {
    postgres::ConnectionOptions options;
    options.url = server_->url();
    options.retry_interval = Milliseconds(20);
    auto connection = std::make_unique<Connection>(loop_, **postgres::Libpq::Load(), options);
    Await([&] { return connection->is_connected(); });
    return connection;
  }
  void Await(const std::function<bool()>& is_so) { net::RunUntil(loop_, is_so); }
  void Sleep(Duration duration) {
    net::EventLoop::Timer timer(loop_);
    timer.FireAfter(duration, [this] { loop_.Stop(); });
    loop_.Run();
  }
  // What `ask` tells the function that it is given.
  template <typename Told>
  Told Hear(const std::function<void(std::function<void(Told)>)>& ask) {
    std::optional<Told> told;
    ask([&](Told heard) { told = std::move(heard); });
    Await([&] { return told.has_value(); });
    return std::move(*told);
  }
  Result<postgres::Answer> Ask(Connection& connection, const std::string& sql) {
    return Hear<Result<postgres::Answer>>([&](auto then) { connection.Ask(sql, {}, then); });
  }
  Status Make(const std::vector<uint8_t>& check) {
    return Hear<Status>([&](auto then) { MakeTables(*a_line_, check, "school", then); });
  }
  CellId AddCell(const std::string& model = "tiny") {
    const std::vector<uint8_t> digest(model.begin(), model.end());
    return Hear<Result<CellId>>([&](auto then) { a_->AddCell(model, digest, {9}, {8}, then); })
        .value();
  }
  std::optional<Incarnation> Take(SharedLeases& leases, CellId cell, Incarnation seen,
                                  bool has_evidence = false, Incarnation above = {}) {
    return Hear<Result<std::optional<Incarnation>>>([&](auto then) {
             leases.Take({.cell = cell, .seen = seen, .has_evidence = has_evidence, .above = above},
                         then);
           })
        .value();
  }
  std::vector<CellId> Renew(SharedLeases& leases, CellId cell, Incarnation incarnation) {
    return Hear<Result<std::vector<CellId>>>([&](auto then) {
             leases.Renew({{cell, incarnation, true}}, then);
           })
        .value();
  }
  bool Write(SharedLeases& leases, CellId cell, Incarnation incarnation, uint8_t byte) {
    return Hear<Result<bool>>(
               [&](auto then) { leases.WritePlacement(cell, incarnation, {byte}, then); })
        .value();
  }
  std::vector<uint8_t> ReadPlacement(CellId cell) {
    return Hear<Result<std::vector<uint8_t>>>([&](auto then) { b_->ReadPlacement(cell, then); })
        .value();
  }
  SharedTables Read() {
    return Hear<Result<SharedTables>>([&](auto then) { b_->Read(then); }).value();
  }

  static std::unique_ptr<TestServer> server_;
  net::EventLoop loop_;
  std::unique_ptr<Connection> a_line_, b_line_;
  std::unique_ptr<SharedLeases> a_, b_;
};

std::unique_ptr<TestServer> SharedLeasesTest::server_;

TEST_F(SharedLeasesTest, TablesAreMadeOnceAndBelongToAKey) {
  EXPECT_TRUE(Make(kCheck).ok()) << "again";
  const Status other = Make({4});
  EXPECT_EQ(other.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(other.error().message(), HasSubstr("another key"));
  const auto check = [&](const std::vector<uint8_t>& key) {
    return Hear<Status>([&](auto then) { CheckTables(*a_line_, key, then); });
  };
  EXPECT_TRUE(check(kCheck).ok());
  EXPECT_EQ(check({4}).error().code(), ErrorCode::kInvalidArgument);
  ASSERT_TRUE(Ask(*a_line_, "update weft_cluster set version = 99").ok());
  EXPECT_EQ(check(kCheck).error().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(Make(kCheck).error().code(), ErrorCode::kUnsupported);
  ASSERT_TRUE(Ask(*a_line_, "drop table weft_cluster").ok());
  EXPECT_EQ(check(kCheck).error().code(), ErrorCode::kNotFound);
}

TEST_F(SharedLeasesTest, TwoKeysAreValidWhileOneIsExchanged) {
  const std::vector<uint8_t> next = {5, 6};
  const auto check = [&](const std::vector<uint8_t>& key) {
    return Hear<Status>([&](auto then) { CheckTables(*a_line_, key, then); }).ok();
  };
  const auto change = [&](const KeyChecks& before, const KeyChecks& after) {
    return Hear<Result<bool>>([&](auto then) { ChangeKeyChecks(*a_line_, before, after, then); })
        .value();
  };
  EXPECT_TRUE(change({kCheck, {}}, {kCheck, next}));
  EXPECT_FALSE(change({kCheck, {}}, {kCheck, {9}})) << "somebody else was first";
  EXPECT_TRUE(check(kCheck) && check(next));
  EXPECT_EQ(Read().keys, (KeyChecks{kCheck, next}));
  EXPECT_TRUE(change({kCheck, next}, {next, {}}));
  EXPECT_TRUE(check(next));
  EXPECT_FALSE(check(kCheck));
  EXPECT_EQ(Hear<Result<KeyChecks>>([&](auto then) { ReadKeyChecks(*a_line_, then); }).value(),
            (KeyChecks{next, {}}));
}

// A name that is not one word, as a role may have.
TEST_F(SharedLeasesTest, ARoleThatRunsServersHasRowsAlone) {
  const auto grant = [&](const std::string& role) {
    return Hear<Status>([&](auto then) { GrantRows(*a_line_, role, then); });
  };
  EXPECT_THAT(grant("nobody").error().message(), HasSubstr("createuser -P nobody"));
  ASSERT_TRUE(Ask(*a_line_, "create role \"weft run\"").ok());
  ASSERT_TRUE(grant("weft run").ok());
  const CellId cell = AddCell();
  ASSERT_TRUE(Ask(*b_line_, "set role \"weft run\"").ok());
  SharedServer b;
  b.name = "b";
  EXPECT_TRUE(Hear<Status>([&](auto then) { b_->Register(b, then); }).ok());
  const auto incarnation = Take(*b_, cell, Read().cells[0].row.incarnation);
  ASSERT_TRUE(incarnation);
  EXPECT_TRUE(Write(*b_, cell, *incarnation, 1));
  EXPECT_TRUE(Ask(*b_line_,
                  "insert into keys (hash, name, role, models, created) values ('x', 'a', "
                  "'user', '', 0)")
                  .ok());
  for (const char* statement : {"drop table keys", "create table others (a int)",
                                "alter table keys add column b int", "truncate keys"})
    EXPECT_FALSE(Ask(*b_line_, statement).ok()) << statement;
  ASSERT_TRUE(Ask(*b_line_, "reset role").ok());
  ASSERT_TRUE(Ask(*a_line_, "drop owned by \"weft run\"").ok());
  ASSERT_TRUE(Ask(*a_line_, "drop role \"weft run\"").ok());
}

TEST_F(SharedLeasesTest, ServersAndCellsAreRead) {
  SharedServer a;
  a.name = "a";
  a.url = "https://a.school.lan";
  a.fingerprint = {7, 7};
  a.models = {"tiny", "gpt oss"};
  const auto register_as = [&](SharedLeases& leases, const SharedServer& server) {
    return Hear<Status>([&](auto then) { leases.Register(server, then); });
  };
  ASSERT_TRUE(register_as(*a_, a).ok());
  ASSERT_TRUE(register_as(*a_, a).ok()) << "it is still there";
  EXPECT_EQ(register_as(*b_, a).error().code(), ErrorCode::kAlreadyExists) << "its name is taken";
  const CellId cell = AddCell();
  const SharedTables tables = Read();
  ASSERT_EQ(tables.servers.size(), 1u);
  EXPECT_EQ(tables.servers[0].id, ServerId(1));
  EXPECT_EQ(tables.servers[0].url, a.url);
  EXPECT_EQ(tables.servers[0].fingerprint, a.fingerprint);
  EXPECT_EQ(tables.servers[0].models, a.models);
  EXPECT_TRUE(Serves(tables.servers[0], "gpt oss"));
  EXPECT_FALSE(Serves(tables.servers[0], "oss"));
  EXPECT_TRUE(Serves(SharedServer(), "oss")) << "one that names none may lead any";
  EXPECT_LT(tables.servers[0].seen, Seconds(5));
  ASSERT_EQ(tables.cells.size(), 1u);
  EXPECT_EQ(tables.cells[0].row.cell, cell);
  EXPECT_FALSE(tables.cells[0].row.holder.is_set());
  EXPECT_TRUE(tables.cells[0].row.has_expired);
  EXPECT_EQ(tables.cells[0].model, "tiny");
}

TEST_F(SharedLeasesTest, OneTakesAndOthersFindTheRowChanged) {
  const CellId cell = AddCell();
  const auto first = Take(*a_, cell, {});
  ASSERT_TRUE(first);
  EXPECT_GT(first->value(), 1'700'000'000'000u) << "at least the clock's milliseconds";
  EXPECT_FALSE(Take(*b_, cell, {})) << "the incarnation is another one by now";
  EXPECT_FALSE(Take(*b_, cell, *first)) << "it has not expired";
  const auto second = Take(*b_, cell, *first, /*has_evidence=*/true);
  ASSERT_TRUE(second);
  EXPECT_GT(*second, *first);
  EXPECT_TRUE(Renew(*a_, cell, *first).empty()) << "it is not a's any more";
  EXPECT_EQ(Renew(*b_, cell, *second).size(), 1u);
  Sleep(Milliseconds(320));
  EXPECT_TRUE(Read().cells[0].row.has_expired);
  const auto third = Take(*a_, cell, *second, false, Incarnation(second->value() + 1'000'000'000));
  ASSERT_TRUE(third);
  EXPECT_GT(third->value(), second->value() + 1'000'000'000);
}

TEST_F(SharedLeasesTest, OfTwoThatTakeAtOnceOneGetsIt) {
  for (int round = 0; round < 50; ++round) {
    const CellId cell = AddCell("model " + std::to_string(round));
    std::vector<std::optional<Incarnation>> told;
    for (SharedLeases* leases : {a_.get(), b_.get()})
      leases->Take({.cell = cell}, [&](const Result<std::optional<Incarnation>>& taken) {
        told.push_back(taken.value());
      });
    Await([&] { return told.size() == 2; });
    EXPECT_NE(told[0].has_value(), told[1].has_value());
  }
}

TEST_F(SharedLeasesTest, ADeposedLeaderWritesNothing) {
  const CellId cell = AddCell();
  const Incarnation first = *Take(*a_, cell, {});
  EXPECT_TRUE(Write(*a_, cell, first, 1));
  EXPECT_TRUE(Write(*a_, cell, first, 2));
  const Incarnation second = *Take(*b_, cell, first, true);
  EXPECT_FALSE(Write(*a_, cell, first, 3));
  EXPECT_EQ(ReadPlacement(cell), std::vector<uint8_t>{2}) << "what was acknowledged is there";
  EXPECT_TRUE(Write(*b_, cell, second, 4));
  EXPECT_EQ(ReadPlacement(cell), std::vector<uint8_t>{4});
}

// A write that is under way is finished before the lease changes hands.
TEST_F(SharedLeasesTest, ATakeWaitsForAWriteThatIsUnderWay) {
  const CellId cell = AddCell();
  const Incarnation first = *Take(*a_, cell, {});
  std::vector<std::string> order;
  a_line_->Ask("with mine as materialized (select id from cells where id = " + ToString(cell) +
                   " for share), slow as materialized (select pg_sleep(0.3) from mine) insert into "
                   "placements select id, 1, '\\x05' from mine, slow",
               {},
               [&](const auto& answer) { order.push_back(answer.ok() ? "written" : "failed"); });
  Sleep(Milliseconds(100));
  b_->Take({.cell = cell, .seen = first, .has_evidence = true}, [&](const auto& taken) {
    order.push_back(taken.ok() && *taken ? "taken" : "not taken");
  });
  Await([&] { return order.size() == 2; });
  EXPECT_THAT(order, testing::ElementsAre("written", "taken"));
  EXPECT_EQ(ReadPlacement(cell), std::vector<uint8_t>{5});
}

TEST_F(SharedLeasesTest, AGivenLeaseIsTheOthersAtOnce) {
  const CellId cell = AddCell();
  const Incarnation first = *Take(*a_, cell, {});
  const auto give = [&](SharedLeases& leases) {
    return Hear<Result<bool>>([&](auto then) {
             leases.Give(cell, first, Holder{2, 22}, then);
           })
        .value();
  };
  EXPECT_FALSE(give(*b_)) << "it is not b's to give";
  EXPECT_TRUE(give(*a_));
  EXPECT_EQ(Read().cells[0].row.holder, (Holder{2, 22}));
  EXPECT_TRUE(Take(*b_, cell, first)) << "without waiting";
}

TEST_F(SharedLeasesTest, AKilledDatabaseHasEveryLeaseAndPlacementThatItAcknowledged) {
  const CellId cell = AddCell();
  Incarnation incarnation = *Take(*a_, cell, {});
  int acknowledged = 0;
  bool is_cut = false;
  std::function<void(int)> write = [&](int number) {
    a_->WritePlacement(cell, incarnation, {static_cast<uint8_t>(number)},
                       [&, number](const Result<bool>& written) {
                         is_cut = !written.ok();
                         if (is_cut) return;
                         acknowledged = number;
                         write(number % 255 + 1);
                       });
  };
  write(1);
  Await([&] { return acknowledged > 20; });
  server_->Kill(SIGQUIT);
  Await([&] { return is_cut; });
  server_->Start();
  Await([&] { return a_line_->is_connected() && b_line_->is_connected(); });
  const std::vector<uint8_t> found = ReadPlacement(cell);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0] == acknowledged || found[0] == acknowledged % 255 + 1)
      << "the last one that was told of, or the one under way";
  EXPECT_EQ(Read().cells[0].row.incarnation, incarnation);
}

}  // namespace
}  // namespace weft::shared_store
