// Connection: statements for a PostgreSQL database, asked on the loop and answered there. It waits
// for nothing: statements go out in pipeline mode, one behind the other, and answers come in order.
//
//   connection.Ask("select name from servers where seen > $1", {since}, [](Result<Answer> answer) {
//     if (answer.ok()) for (const Row& row : answer->rows) Use(row.Text(0));
//   });
//
// Each statement is a transaction of its own. A line that breaks, or a statement without an answer
// in time, ends all that are under way with kUnavailable: whether they have happened is not known.
// The connection is made anew by itself; until then whatever is asked is refused at once.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/task_queue.h"
#include "net/loop.h"
#include "net/socket_watch.h"
#include "postgres/libpq.h"

namespace weft::postgres {

// NULL, a number, text, or bytea.
using Value = std::variant<std::nullptr_t, int64_t, double, std::string, std::vector<uint8_t>>;

class Row {
 public:
  explicit Row(std::vector<std::optional<std::string>> columns) : columns_(std::move(columns)) {}
  // Gives a column, and 0, "" or nothing where it is NULL or of another type. REQUIRES: there is
  // such a column.
  bool IsNull(size_t column) const { return !columns_[column].has_value(); }
  int64_t Int(size_t column) const;
  double Real(size_t column) const;
  bool Bool(size_t column) const { return Text(column) == "t"; }
  std::string Text(size_t column) const { return columns_[column].value_or(""); }
  std::vector<uint8_t> Bytes(size_t column) const;

 private:
  std::vector<std::optional<std::string>> columns_;  // as PostgreSQL writes them
};

struct Answer {
  std::vector<Row> rows;
  int64_t changed_rows = 0;  // of an insert, update or delete
};

struct ConnectionOptions {
  std::string url;  // "postgres://weft@db/weft", or libpq's "host=db user=weft"
  Duration connect_limit = Seconds(5);
  Duration answer_limit = Seconds(2);           // the server gives up then, and a second later we
  Duration retry_interval = Milliseconds(500);  // between attempts to connect
};

// Checks the address and whether the library is there. kInvalidArgument, kUnsupported.
Status CheckUrl(const std::string& url);

class Connection {
 public:
  using Then = std::function<void(Result<Answer>)>;

  // Begins to connect. `loop` outlives this. All of it is called on the loop.
  Connection(net::EventLoop& loop, const Libpq& libpq, ConnectionOptions options);
  // Nothing is called any more. Waits for an attempt to connect that is under way.
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Calls `then` once, on the loop, never before this returns. The codes of errors: kUnavailable,
  // no line, or no answer; kAlreadyExists, a row like that must be the only one; kPermissionDenied;
  // kInvalidArgument, a statement or value that the database does not take; kInvalidData, the
  // database has not the tables of ours.
  void Ask(std::string sql, std::vector<Value> values, Then then);
  bool is_connected() const { return connection_ != nullptr; }
  // Why it is not; "" before the first attempt has ended.
  const std::string& problem() const { return problem_; }
  // Called with true when the line is there, with false when it is lost or an attempt failed.
  void OnLine(std::function<void(bool)> on_line) { on_line_ = std::move(on_line); }

 private:
  struct Close {
    const Libpq* libpq;
    void operator()(PGconn* connection) const { libpq->PQfinish(connection); }
  };
  using Handle = std::unique_ptr<PGconn, Close>;
  struct Asked {
    Then then;
    Instant until;
    std::optional<Result<Answer>> answer;  // until its end is told
  };

  void BeginConnecting();
  void OnConnected(Handle made, const std::string& problem);
  void OnReadable();
  bool ReadResults();
  void Flush();
  void Break(const std::string& why);
  void WatchTime();
  void Refuse(Then then, const std::string& why);

  net::EventLoop& loop_;
  const Libpq& libpq_;
  const ConnectionOptions options_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  Handle connection_;
  std::unique_ptr<net::SocketWatch> watch_;  // of its socket
  bool is_flushing_ = false;
  std::deque<Asked> asked_;
  std::string problem_;
  std::function<void(bool)> on_line_;
  net::EventLoop::Timer retry_timer_, answer_timer_;
  // Last: its thread connects, which waits for names and handshakes.
  TaskQueue thread_;
};

}  // namespace weft::postgres
