// A connection to SQLite and its statements give Results. They know no tables (store.h).
//
//   ASSIGN_OR_RETURN(Rows rows, database.Ask("select id from keys where name = ?", {name}));
//   while (rows.has_row()) { Use(rows.Int(0)); TRY(rows.Next()); }
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace weft::store {

// A value is NULL, INTEGER, TEXT or BLOB.
using Value = std::variant<std::nullptr_t, int64_t, std::string, std::vector<uint8_t>>;

// Gives NULL where there is no number.
template <typename Number>
Value OrNull(const std::optional<Number>& number) {
  return number ? Value(static_cast<int64_t>(*number)) : Value(nullptr);
}

// Rows are what a statement answers, one at a time. The connection outlives them.
class Rows {
 public:
  bool has_row() const { return has_row_; }
  Status Next();

  // Gives a column's value, and 0, "" or nullopt where it is of another type. REQUIRES: has_row(),
  // and there is such a column.
  int64_t Int(int column) const;
  std::optional<int64_t> OptionalInt(int column) const;
  std::string Text(int column) const;
  ByteSpan Blob(int column) const;  // until Next

 private:
  friend class Database;
  using Handle = std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)>;
  Rows(Handle statement, std::string path)
      : statement_(std::move(statement)), path_(std::move(path)) {}

  Handle statement_;
  std::string path_;  // of the database, for errors
  bool has_row_ = false;
};

// One thread at a time may use a connection.
class Database {
 public:
  // Opens the file at `path`. `busy_limit` says how long a statement waits for other processes.
  // REQUIRES: there is a file; it may be empty.
  static Result<Database> Open(const std::filesystem::path& path, Duration busy_limit);

  // Runs a statement. Errors of all statements are sentences with the file's name and what to do.
  // kInvalidData: it is no database, or a damaged one. kUnavailable: other processes kept it.
  // kAlreadyExists: a row like that must be the only one. kPermissionDenied, kIo: the disk refused.
  Result<Rows> Ask(std::string_view sql, const std::vector<Value>& values = {});
  // Runs a statement whose rows nobody needs.
  Status Run(std::string_view sql, const std::vector<Value>& values = {});
  // Gives the one number of the one row that the statement gives.
  Result<int64_t> AskNumber(std::string_view sql, const std::vector<Value>& values = {});
  // Gives the id of the row that was inserted last.
  int64_t last_id() const;

 private:
  using Handle = std::unique_ptr<sqlite3, int (*)(sqlite3*)>;
  Database(Handle handle, std::string path) : handle_(std::move(handle)), path_(std::move(path)) {}

  Handle handle_;
  std::string path_;
};

// A transaction writes all that happens until Commit, or with an error nothing of it. It takes the
// lock to write at once: one that begins by reading could be refused later.
class Transaction {
 public:
  static Result<Transaction> Begin(Database& database);
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  Status Commit();

 private:
  explicit Transaction(Database* database) : database_(database) {}
  Database* database_;  // nullptr: it is over
};

}  // namespace weft::store
