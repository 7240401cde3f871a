// Statements and answers with a real PostgreSQL: values there and back, errors, order, a line that
// breaks, a database that says nothing, and one that comes back.
#include "postgres/connection.h"

#include <gmock/gmock.h>

#include "net/net_testing.h"
#include "postgres/postgres_testing.h"

namespace weft::postgres {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Url, IsCheckedBeforeAnythingIsDone) {
  if (!Libpq::Load().ok()) GTEST_SKIP() << "libpq is not installed";
  EXPECT_TRUE(CheckUrl("postgres://weft@db/weft").ok());
  EXPECT_TRUE(CheckUrl("host=db user=weft").ok());
  const Status refused = CheckUrl("postgres//db");
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message(), HasSubstr("expected postgres://USER@HOST/DATABASE"));
}

class ConnectionTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!TestServer::Programs().empty() && Libpq::Load().ok())
      server_ = std::make_unique<TestServer>();
  }
  static void TearDownTestSuite() { server_.reset(); }
  void SetUp() override {
    if (server_ == nullptr) GTEST_SKIP() << "PostgreSQL is not installed";
  }
  std::unique_ptr<Connection> Connect(ConnectionOptions options = {}) {
    options.url = server_->url();
    auto connection = std::make_unique<Connection>(loop_, **Libpq::Load(), options);
    Await([&] { return connection->is_connected(); });
    return connection;
  }
  void Await(const std::function<bool()>& is_so) { net::RunUntil(loop_, is_so); }
  Result<Answer> Ask(Connection& connection, const std::string& sql,
                     std::vector<Value> values = {}) {
    std::optional<Result<Answer>> answer;
    connection.Ask(sql, std::move(values), [&](Result<Answer> got) { answer = std::move(got); });
    EXPECT_FALSE(answer) << "not before Ask has returned";
    Await([&] { return answer.has_value(); });
    return answer ? std::move(*answer) : Result<Answer>(Error(ErrorCode::kIo, "no answer"));
  }

  static std::unique_ptr<TestServer> server_;
  net::EventLoop loop_;
};

std::unique_ptr<TestServer> ConnectionTest::server_;

TEST_F(ConnectionTest, ValuesGoThereAndComeBack) {
  const auto connection = Connect();
  const std::vector<uint8_t> bytes = {0, 255, 39, 92, 10};
  const auto answer =
      Ask(*connection, "select $1::bigint, $2::float8, $3::text, $4::bytea, $5::text, $6::bool",
          {INT64_MIN, 0.1, std::string("it's \"ü\""), bytes, nullptr, std::string("true")});
  ASSERT_TRUE(answer.ok()) << answer.error().ToString();
  ASSERT_EQ(answer->rows.size(), 1u);
  const Row& row = answer->rows[0];
  EXPECT_EQ(row.Int(0), INT64_MIN);
  EXPECT_EQ(row.Real(1), 0.1);
  EXPECT_EQ(row.Text(2), "it's \"ü\"");
  EXPECT_EQ(row.Bytes(3), bytes);
  EXPECT_TRUE(row.IsNull(4));
  EXPECT_TRUE(row.Bool(5));
}

TEST_F(ConnectionTest, AnswersComeInOrderAndOneErrorHurtsNoOther) {
  const auto connection = Connect();
  std::vector<std::string> told;
  const auto ask = [&](const std::string& sql) {
    connection->Ask(sql, {}, [&](const Result<Answer>& answer) {
      told.push_back(!answer.ok()           ? std::string(ErrorCodeName(answer.error().code()))
                     : answer->rows.empty() ? std::to_string(answer->changed_rows)
                                            : answer->rows[0].Text(0));
    });
  };
  ask("create temporary table t (id int primary key)");
  ask("insert into t values (1), (2)");
  ask("insert into t values (1)");
  ask("select sum(id) from t");
  ask("select * from nothing");
  ask("select 1 +");
  ask("select 'last'");
  Await([&] { return told.size() == 7; });
  EXPECT_THAT(told, ElementsAre("0", "2", ErrorCodeName(ErrorCode::kAlreadyExists), "3",
                                ErrorCodeName(ErrorCode::kInvalidData),
                                ErrorCodeName(ErrorCode::kInvalidArgument), "last"));
}

TEST_F(ConnectionTest, ManyStatementsThatAreLargerThanTheLineTakes) {
  const auto connection = Connect();
  const std::string text(1 << 20, 'x');
  size_t answers = 0;
  for (int i = 0; i < 20; ++i)
    connection->Ask("select length($1)", {text}, [&](const Result<Answer>& answer) {
      ASSERT_TRUE(answer.ok()) << answer.error().ToString();
      EXPECT_EQ(answer->rows[0].Int(0), 1 << 20);
      ++answers;
    });
  Await([&] { return answers == 20; });
}

TEST_F(ConnectionTest, AStatementThatTakesTooLongEndsAlone) {
  ConnectionOptions options;
  options.answer_limit = Milliseconds(200);
  const auto connection = Connect(options);
  const auto slow = Ask(*connection, "select pg_sleep(5)");
  ASSERT_FALSE(slow.ok());
  EXPECT_EQ(slow.error().code(), ErrorCode::kUnavailable);
  EXPECT_TRUE(Ask(*connection, "select 1").ok());
}

TEST_F(ConnectionTest, AKilledDatabaseEndsWhatIsUnderWayAndIsFoundAgain) {
  ConnectionOptions options;
  options.retry_interval = Milliseconds(20);
  const auto connection = Connect(options);
  ASSERT_TRUE(Ask(*connection, "create table if not exists kept (id int)").ok());
  ASSERT_TRUE(Ask(*connection, "insert into kept values (1)").ok());
  std::optional<Result<Answer>> cut;
  std::vector<bool> lines;
  connection->OnLine([&](bool is_there) { lines.push_back(is_there); });
  connection->Ask("select pg_sleep(1)", {},
                  [&](Result<Answer> answer) { cut = std::move(answer); });
  server_->Kill(SIGQUIT);
  Await([&] { return cut.has_value(); });
  EXPECT_EQ(cut->error().code(), ErrorCode::kUnavailable);
  const auto refused = Ask(*connection, "select 1");
  EXPECT_EQ(refused.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error().message(), HasSubstr("There is no line to the database"));
  server_->Start();
  Await([&] { return connection->is_connected(); });
  EXPECT_FALSE(lines.front());
  EXPECT_TRUE(lines.back());
  EXPECT_EQ(Ask(*connection, "select count(*) from kept")->rows[0].Int(0), 1)
      << "what was acknowledged is there";
}

TEST_F(ConnectionTest, ADatabaseThatStandsStillIsGivenUp) {
  ConnectionOptions options;
  options.answer_limit = Milliseconds(100);
  const auto connection = Connect(options);
  server_->Pause(true);
  const auto answer = Ask(*connection, "select 1");
  EXPECT_EQ(answer.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(answer.error().message(), HasSubstr("did not answer"));
  EXPECT_FALSE(connection->is_connected());
  server_->Pause(false);
}

TEST_F(ConnectionTest, WhoeverIsToldMayEndIt) {
  auto connection = Connect();
  bool is_told = false;
  connection->Ask("select 1", {}, [&](const Result<Answer>&) { connection.reset(); });
  if (connection) connection->Ask("select 2", {}, [&](const Result<Answer>&) { is_told = true; });
  Await([&] { return connection == nullptr; });
  EXPECT_FALSE(is_told);
}

TEST_F(ConnectionTest, AnAddressThatNobodyAnswersIsNamed) {
  ConnectionOptions options;
  options.url = "host=127.0.0.1 port=" + std::to_string(FreePort()) + " user=weft";
  Connection connection(loop_, **Libpq::Load(), options);
  Await([&] { return !connection.problem().empty(); });
  EXPECT_THAT(connection.problem(), HasSubstr("Connection refused"));
}

}  // namespace
}  // namespace weft::postgres
