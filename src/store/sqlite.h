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

// A value is NULL, INTEGER, REAL, TEXT or BLOB.
using Value = std::variant<std::nullptr_t, int64_t, double, std::string, std::vector<uint8_t>>;

// Gives NULL where there is no number.
template <typename Number>
Value OrNull(const std::optional<Number>& number) {
  return number ? Value(static_cast<int64_t>(*number)) : Value(nullptr);
}

// What errors say of a database.
struct FileWords {
  std::string path;
  std::string without;  // what a new one in its place would be
};

// Rows are what a statement answers, one at a time. The connection outlives them.
class Rows {
 public:
  bool has_row() const { return has_row_; }
  Status Next();

  // Gives a column's value, and 0, "" or nullopt where it is of another type. REQUIRES: has_row(),
  // and there is such a column.
  int64_t Int(int column) const;
  std::optional<int64_t> OptionalInt(int column) const;
  double Real(int column) const;
  std::string Text(int column) const;
  ByteSpan Blob(int column) const;  // until Next
  // Gives a column's value, of whatever type.
  Value At(int column) const;

 private:
  friend class Database;
  using Handle = std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)>;
  Rows(Handle statement, const FileWords* words)
      : statement_(std::move(statement)), words_(words) {}

  Handle statement_;
  const FileWords* words_;  // of the database
  bool has_row_ = false;
};

struct DatabaseOptions {
  Duration busy_limit = Seconds(5);      // that a statement waits for other processes
  int longest_value_bytes = 1 << 20;     // of a row's; longer ones are kIo
  std::string without = "without keys";  // what a new file would be, for errors
};

// One thread at a time may use a connection.
class Database {
 public:
  // Opens the file at `path`. REQUIRES: there is a file; it may be empty.
  static Result<Database> Open(const std::filesystem::path& path, const DatabaseOptions& options);
  // Opens an empty database in memory, which ends with the connection.
  static Result<Database> InMemory(const DatabaseOptions& options);
  // Reads a file that may not be written, nor anything beside it, into memory. kUnavailable: it was
  // in use when its process ended, so that it cannot be read without writing.
  static Result<Database> CopyToMemory(const std::filesystem::path& path,
                                       const DatabaseOptions& options);

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
  const DatabaseOptions& options() const { return *options_; }

 private:
  using Handle = std::unique_ptr<sqlite3, int (*)(sqlite3*)>;
  Database(Handle handle, FileWords words, const DatabaseOptions& options)
      : handle_(std::move(handle)),
        words_(std::make_unique<const FileWords>(std::move(words))),
        options_(std::make_unique<const DatabaseOptions>(options)) {}
  static Result<Database> OpenAs(const std::string& name, int flags, FileWords words,
                                 const DatabaseOptions& options);

  Handle handle_;
  std::unique_ptr<const FileWords> words_;  // where rows find them
  std::unique_ptr<const DatabaseOptions> options_;
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

// A snapshot reads all tables as they are at one moment, until it ends.
class Snapshot {
 public:
  static Result<Snapshot> Begin(Database& database);
  Snapshot(Snapshot&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Snapshot& operator=(Snapshot&&) = delete;
  ~Snapshot();

 private:
  explicit Snapshot(Database* database) : database_(database) {}
  Database* database_;
};

}  // namespace weft::store
