// What every store of keys does: the same tests for a SQLite file and for a PostgreSQL database,
// with two that are open at once. Behind them what only the servers of a cluster share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/file_testing.h"
#include "base/secret.h"
#include "net/net_testing.h"
#include "postgres/postgres_testing.h"
#include "shared_store/cluster_tables.h"
#include "shared_store/shared_keys.h"
#include "store/store.h"

namespace weft::shared_store {
namespace {

using postgres::TestServer;
using store::HourlyUsage;
using store::Key;
using store::KeyLoad;
using store::KeyStore;
using store::NewKey;
using store::Role;
using store::Usage;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr int64_t kToday = 1'800'000'000'000;
constexpr int64_t kHour = 3'600'000;

NewKey Named(const std::string& name) {
  NewKey key;
  key.name = name;
  return key;
}

// A database with empty tables, and connections to it.
class SharedPlace {
 public:
  static void Begin() {
    if (!TestServer::Programs().empty() && postgres::Libpq::Load().ok())
      server_ = std::make_unique<TestServer>();
  }
  static void End() { server_.reset(); }
  static TestServer* server() { return server_.get(); }

  static void Empty() {
    net::EventLoop loop;
    const auto line = Connect(loop);
    bool is_made = false;
    line->Ask("do $$ begin drop schema public cascade; create schema public; end $$", {},
              [&](const Result<postgres::Answer>& dropped) {
                ASSERT_TRUE(dropped.ok()) << dropped.error().ToString();
                MakeTables(*line, {1, 2, 3}, "school", [&](const Status& made) {
                  ASSERT_TRUE(made.ok()) << made.error().ToString();
                  is_made = true;
                });
              });
    net::RunUntil(loop, [&] { return is_made; });
  }
  static std::unique_ptr<postgres::Connection> Connect(net::EventLoop& loop) {
    postgres::ConnectionOptions options;
    options.url = server_->url();
    options.retry_interval = Milliseconds(20);
    auto line = std::make_unique<postgres::Connection>(loop, **postgres::Libpq::Load(), options);
    net::RunUntil(loop, [&] { return line->is_connected(); });
    return line;
  }
  static std::unique_ptr<SharedKeys> OpenKeys() {
    auto loop = std::make_unique<net::EventLoop>();
    auto line = Connect(*loop);
    return std::make_unique<SharedKeys>(std::move(loop), std::move(line));
  }

 private:
  static std::unique_ptr<TestServer> server_;
};
std::unique_ptr<TestServer> SharedPlace::server_;

enum class Engine { kSqlite, kPostgres };

class KeyStoresTest : public testing::TestWithParam<Engine> {
 protected:
  static void SetUpTestSuite() { SharedPlace::Begin(); }
  static void TearDownTestSuite() { SharedPlace::End(); }

  void SetUp() override {
    if (GetParam() == Engine::kPostgres) {
      if (SharedPlace::server() == nullptr) GTEST_SKIP() << "PostgreSQL is not installed";
      SharedPlace::Empty();
    }
    one_ = Open();
    other_ = Open();
  }
  std::unique_ptr<KeyStore> Open() const {
    if (GetParam() == Engine::kPostgres) return SharedPlace::OpenKeys();
    return store::Store::Open(folder_.path() / "weft.db", store::OpenMode::kCreate, kToday).value();
  }
  int64_t Add(const std::string& name) {
    return one_->AddKey(Named(name), HashSecret(name), kToday).value().id;
  }

  const TemporaryFolder folder_;
  std::unique_ptr<KeyStore> one_, other_;
};

TEST_P(KeyStoresTest, KeysComeBackAsTheyWereMade) {
  NewKey wanted;
  wanted.name = "maths";
  wanted.role = Role::kAdmin;
  wanted.models = {"weft-tiny", "Qwen/Qwen3-0.6B:q4"};
  wanted.limits = {60, 4'000'000'000'000 / 8, 2};
  wanted.expires_ms = kToday + kHour;
  ASSERT_TRUE(one_->AddKey(wanted, HashSecret("secret"), kToday).ok());
  ASSERT_TRUE(one_->AddKey(Named("art"), HashSecret("other"), kToday + 1).ok());
  const auto keys = other_->Keys().value();
  ASSERT_THAT(keys, SizeIs(2));
  EXPECT_EQ(keys[0].name, "maths");
  EXPECT_EQ(keys[0].role, Role::kAdmin);
  EXPECT_THAT(keys[0].models, ElementsAre("weft-tiny", "Qwen/Qwen3-0.6B:q4"));
  EXPECT_EQ(keys[0].limits, wanted.limits);
  EXPECT_EQ(keys[0].expires_ms, kToday + kHour);
  EXPECT_EQ(keys[0].hash, HashSecret("secret"));
  EXPECT_EQ(keys[0].created_ms, kToday);
  EXPECT_FALSE(keys[0].ended_ms);
  EXPECT_EQ(keys[1].limits, store::KeyLimits());
  EXPECT_TRUE(keys[1].models.empty());
  EXPECT_FALSE(keys[1].expires_ms);
  EXPECT_NE(keys[0].id, keys[1].id);
}

TEST_P(KeyStoresTest, EachRoleComesBack) {
  for (const char* role : {"user", "admin", "metrics", "helper"}) {
    NewKey wanted = Named(role);
    wanted.role = store::ParseRole(role).value();
    ASSERT_TRUE(one_->AddKey(wanted, HashSecret(role), kToday).ok()) << role;
  }
  const auto keys = other_->Keys().value();
  EXPECT_THAT(keys, SizeIs(store::kRoleCount));
  for (const Key& key : keys) EXPECT_EQ(RoleName(key.role), key.name);
}

TEST_P(KeyStoresTest, ANameIsOfOneKeyUntilThatHasEnded) {
  const int64_t first = Add("maths");
  const auto again = other_->AddKey(Named("maths"), HashSecret("2"), kToday);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code(), ErrorCode::kAlreadyExists);
  EXPECT_THAT(again.error().message(), HasSubstr("weft keys end maths"));
  EXPECT_EQ(other_->EndKey("maths", kToday + 5)->ended_ms, kToday + 5);
  const auto ended_twice = one_->EndKey("maths", kToday + 6);
  EXPECT_EQ(ended_twice.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(ended_twice.error().message(), HasSubstr("ended 2027-01-15T08:00:00Z already"));
  EXPECT_NE(one_->AddKey(Named("maths"), HashSecret("2"), kToday)->id, first);
  EXPECT_THAT(one_->EndKey("mahts", kToday).error().message(), HasSubstr("Did you mean 'maths'?"));
  EXPECT_THAT(one_->Keys().value(), SizeIs(2));
  EXPECT_FALSE(one_->AddKey(Named("a b"), HashSecret("3"), kToday).ok());
}

TEST_P(KeyStoresTest, OfManyThatMakeOneNameOneDoes) {
  constexpr int kEach = 20;
  int own = 0, others = 0;
  const auto make = [&](KeyStore& store, const char* secret, int& made) {
    for (int i = 0; i < kEach; ++i)
      if (store
              .AddKey(Named("n" + std::to_string(i)), HashSecret(secret + std::to_string(i)),
                      kToday)
              .ok())
        ++made;
  };
  std::thread thread([&] { make(*other_, "b", others); });
  make(*one_, "a", own);
  thread.join();
  EXPECT_EQ(own + others, kEach);
  EXPECT_THAT(one_->Keys().value(), SizeIs(kEach));
}

TEST_P(KeyStoresTest, UsageAddsUpByHour) {
  const int64_t key = Add("a");
  const int64_t hour = store::HourOf(kToday);
  const auto add = [&](KeyStore& store, int64_t hour_ms, int64_t of, const char* server,
                       Usage usage) {
    const HourlyUsage row{hour_ms, of, usage};
    return store.AddUsage({&row, 1}, "weft-tiny", server, kToday);
  };
  ASSERT_TRUE(add(*one_, hour, key, "8080", {1, 100, 40, 7}).ok());
  ASSERT_TRUE(add(*one_, hour, key, "8080", {2, 200, 10, 5}).ok());
  ASSERT_TRUE(add(*other_, hour, key, "8081", {1, 10, 0, 1}).ok());
  ASSERT_TRUE(add(*one_, hour - kHour, key, "8080", {5, 500, 0, 50}).ok());
  ASSERT_TRUE(add(*one_, hour, key + 1000, "8080", {1, 1, 1, 1}).ok()) << "of no key: not kept";
  const auto today = other_->UsageSince(hour).value();
  ASSERT_THAT(today, SizeIs(1));
  EXPECT_EQ(today.at(key), (Usage{4, 310, 50, 13}));
  EXPECT_EQ(today.at(key).counted_tokens(), 273);
  EXPECT_EQ(one_->UsageSince(hour - kHour)->at(key).requests, 9);
  EXPECT_THAT(one_->AllUsage().value(), SizeIs(3));
  // What is older than it is kept goes with the next.
  ASSERT_TRUE(add(*one_, hour - store::kUsageKeptMs - kHour, key, "8080", {100, 0, 0, 0}).ok());
  ASSERT_TRUE(add(*one_, hour, key, "8080", {0, 0, 0, 0}).ok());
  EXPECT_EQ(one_->UsageSince(0)->at(key).requests, 9);
}

TEST_P(KeyStoresTest, ABatchHasManyKeysAndModels) {
  const int64_t a = Add("a"), b = Add("b");
  const int64_t hour = store::HourOf(kToday);
  const std::vector<HourlyUsage> rows = {{hour, a, {1, 2, 0, 4}, "odd \"name\", {\\}"},
                                         {hour, a, {1, 2, 0, 4}, ""},
                                         {hour, b, {5, 6, 0, 8}, "other"}};
  ASSERT_TRUE(one_->AddUsage(rows, "weft-tiny", "a:8080", kToday).ok());
  EXPECT_EQ(other_->UsageSince(hour)->at(a), (Usage{2, 4, 0, 8}));
  EXPECT_EQ(other_->UsageSince(hour)->at(b), (Usage{5, 6, 0, 8}));
  std::set<std::string> models;
  const auto usage = other_->AllUsage().value();
  for (const auto& [row, server] : usage) models.insert(row.model);
  EXPECT_THAT(models, ElementsAre("odd \"name\", {\\}", "other", "weft-tiny"));
}

TEST_P(KeyStoresTest, OthersChangesAreNoticed) {
  const int64_t key = Add("own");
  int64_t before = other_->DataVersion().value();
  EXPECT_EQ(other_->DataVersion().value(), before);
  Add("a");
  EXPECT_NE(other_->DataVersion().value(), before);
  before = other_->DataVersion().value();
  ASSERT_TRUE(one_->EndKey("a", kToday).ok());
  EXPECT_NE(other_->DataVersion().value(), before);
  before = other_->DataVersion().value();
  const HourlyUsage row{store::HourOf(kToday), key, {1, 1, 1, 1}};
  ASSERT_TRUE(one_->AddUsage({&row, 1}, "m", "s", kToday).ok());
  EXPECT_NE(other_->DataVersion().value(), before);
}

INSTANTIATE_TEST_SUITE_P(Engines, KeyStoresTest,
                         testing::Values(Engine::kSqlite, Engine::kPostgres), [](const auto& each) {
                           return each.param == Engine::kSqlite ? "Sqlite" : "Postgres";
                         });

class SharedKeysTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { SharedPlace::Begin(); }
  static void TearDownTestSuite() { SharedPlace::End(); }
  void SetUp() override {
    if (SharedPlace::server() == nullptr) GTEST_SKIP() << "PostgreSQL is not installed";
    SharedPlace::Empty();
    a_ = SharedPlace::OpenKeys();
    b_ = SharedPlace::OpenKeys();
  }
  std::unique_ptr<SharedKeys> a_, b_;
};

TEST_F(SharedKeysTest, ServersTellEachOtherWhatTheyUseOfLimits) {
  const int64_t key = a_->AddKey(Named("maths"), HashSecret("1"), kToday)->id;
  const KeyLoad used{key, 7, 2}, unknown{key + 1000, 1, 1};
  EXPECT_TRUE(a_->ShareLoads("a", std::vector{used, unknown})->loads.empty());
  EXPECT_THAT(b_->ShareLoads("b", {})->loads, ElementsAre(used));
  ASSERT_TRUE(b_->ShareLoads("b", std::vector{KeyLoad{key, 1, 1}}).ok());
  const auto third = SharedPlace::OpenKeys();
  EXPECT_THAT(third->ShareLoads("c", {})->loads, ElementsAre(KeyLoad{key, 8, 3}));
  ASSERT_TRUE(a_->ShareLoads("a", {}).ok());
  EXPECT_THAT(third->ShareLoads("c", {})->loads, ElementsAre(KeyLoad{key, 1, 1}));
}

TEST_F(SharedKeysTest, KeysOfAnotherStoreAreTakenOverOnce) {
  ASSERT_TRUE(b_->AddKey(Named("own"), HashSecret("own"), kToday).ok());
  const TemporaryFolder folder;
  const auto file =
      store::Store::Open(folder.path() / "weft.db", store::OpenMode::kCreate, kToday).value();
  const int64_t id = file->AddKey(Named("maths"), HashSecret("1"), kToday)->id;
  ASSERT_TRUE(file->AddKey(Named("gone"), HashSecret("2"), kToday).ok());
  ASSERT_TRUE(file->EndKey("gone", kToday + 1).ok());
  const HourlyUsage row{store::HourOf(kToday), id, {1, 2, 0, 4}};
  ASSERT_TRUE(file->AddUsage({&row, 1}, "m", "8080", kToday).ok());
  const auto keys = file->Keys().value();
  const auto usage = file->AllUsage().value();
  EXPECT_EQ(a_->TakeOver(keys, usage).value(), 2);
  EXPECT_EQ(a_->TakeOver(keys, usage).value(), 0) << "they are there";
  const auto found = b_->Keys().value();
  ASSERT_THAT(found, SizeIs(3));
  EXPECT_EQ(found[1].hash, HashSecret("1"));
  EXPECT_EQ(found[2].ended_ms, kToday + 1);
  EXPECT_EQ(b_->UsageSince(0)->at(found[1].id), (Usage{1, 2, 0, 4}));
  // Another one of the same name.
  ASSERT_TRUE(file->AddKey(Named("own"), HashSecret("3"), kToday).ok());
  const auto refused = a_->TakeOver(file->Keys().value(), {});
  EXPECT_EQ(refused.error().code(), ErrorCode::kAlreadyExists);
  EXPECT_THAT(refused.error().message(), HasSubstr("'own'"));
}

TEST_F(SharedKeysTest, ADatabaseThatComesBackIsUsedAgain) {
  ASSERT_TRUE(a_->AddKey(Named("maths"), HashSecret("1"), kToday).ok());
  SharedPlace::server()->Kill(SIGQUIT);
  EXPECT_EQ(a_->Keys().error().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(a_->AddKey(Named("art"), HashSecret("2"), kToday).error().code(),
            ErrorCode::kUnavailable);
  SharedPlace::server()->Start();
  const Instant until = MonotonicNow() + Seconds(30);
  while (!a_->Keys().ok() && MonotonicNow() < until) {
  }
  ASSERT_TRUE(a_->Keys().ok());
  EXPECT_THAT(a_->Keys().value(), SizeIs(1)) << "what was acknowledged is there";
}

}  // namespace
}  // namespace weft::shared_store
