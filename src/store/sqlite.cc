#include "store/sqlite.h"

#include <sqlite3.h>

#include <utility>

namespace weft::store {
namespace {

// What SQLite said of its last call as an error.
Error ErrorOf(sqlite3* handle, int code, const FileWords& words) {
  const std::string why = handle == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(handle);
  const std::string file = "'" + words.path + "'";
  switch (code & 0xff) {  // without what extended codes add
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return {ErrorCode::kInvalidData,
              "The file " + file + " cannot be read as a database (" + why +
                  "); nothing in it was changed. Put a copy of before in its place, or move it "
                  "away, and a new one " +
                  words.without + " is begun."};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ErrorCode::kUnavailable,
              "Another process keeps the database " + file + " (" + why + "). Try again."};
    case SQLITE_CONSTRAINT:
      return {ErrorCode::kAlreadyExists,
              "The database " + file + " has that already: " + why + "."};
    case SQLITE_TOOBIG:
      return {ErrorCode::kLimitExceeded, "A value is too long for the database " + file + "."};
    case SQLITE_PERM:
    case SQLITE_READONLY:
      return {ErrorCode::kPermissionDenied,
              "The database " + file + " cannot be written: " + why + "."};
    default:
      return {ErrorCode::kIo, "The database " + file + " failed: " + why + "."};
  }
}

// What ends a path in a URI, or is a sign of one, as its code.
std::string EscapedForUri(const std::string& path) {
  std::string escaped;
  for (const char c : path) {
    if (c == '%')
      escaped += "%25";
    else if (c == '?')
      escaped += "%3f";
    else if (c == '#')
      escaped += "%23";
    else
      escaped += c;
  }
  return escaped;
}

int Bind(sqlite3_stmt* statement, int index, const Value& value) {
  if (const auto* number = std::get_if<int64_t>(&value))
    return sqlite3_bind_int64(statement, index, *number);
  if (const auto* number = std::get_if<double>(&value))
    return sqlite3_bind_double(statement, index, *number);
  if (const auto* text = std::get_if<std::string>(&value))
    return sqlite3_bind_text64(statement, index, text->data(), text->size(), SQLITE_TRANSIENT,
                               SQLITE_UTF8);
  // Of an empty one the pointer may be null, which would be NULL.
  if (const auto* bytes = std::get_if<std::vector<uint8_t>>(&value))
    return bytes->empty() ? sqlite3_bind_zeroblob(statement, index, 0)
                          : sqlite3_bind_blob64(statement, index, bytes->data(), bytes->size(),
                                                SQLITE_TRANSIENT);
  return sqlite3_bind_null(statement, index);
}

}  // namespace

Status Rows::Next() {
  const int code = sqlite3_step(statement_.get());
  has_row_ = code == SQLITE_ROW;
  if (code == SQLITE_ROW || code == SQLITE_DONE) return OkStatus();
  return ErrorOf(sqlite3_db_handle(statement_.get()), code, *words_);
}

int64_t Rows::Int(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::optional<int64_t> Rows::OptionalInt(int column) const {
  if (sqlite3_column_type(statement_.get(), column) == SQLITE_NULL) return std::nullopt;
  return Int(column);
}

double Rows::Real(int column) const {
  return sqlite3_column_double(statement_.get(), column);
}

std::string Rows::Text(int column) const {
  // The pointer first: asking for it may convert the value, and with that its length.
  const unsigned char* text = sqlite3_column_text(statement_.get(), column);
  const int byte_count = sqlite3_column_bytes(statement_.get(), column);
  if (text == nullptr) return {};
  return std::string(AsText({text, static_cast<size_t>(byte_count)}));
}

ByteSpan Rows::Blob(int column) const {
  if (sqlite3_column_type(statement_.get(), column) != SQLITE_BLOB) return {};
  const void* bytes = sqlite3_column_blob(statement_.get(), column);
  const int byte_count = sqlite3_column_bytes(statement_.get(), column);
  return {static_cast<const uint8_t*>(bytes), static_cast<size_t>(byte_count)};
}

Value Rows::At(int column) const {
  switch (sqlite3_column_type(statement_.get(), column)) {
    case SQLITE_INTEGER:
      return Int(column);
    case SQLITE_FLOAT:
      return Real(column);
    case SQLITE_TEXT:
      return Text(column);
    case SQLITE_BLOB: {
      const ByteSpan bytes = Blob(column);
      return std::vector<uint8_t>(bytes.begin(), bytes.end());
    }
    default:
      return nullptr;
  }
}

Result<Database> Database::OpenAs(const std::string& name, int flags, FileWords words,
                                  const DatabaseOptions& options) {
  sqlite3* opened = nullptr;
  const int code = sqlite3_open_v2(name.c_str(), &opened, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  Database database(Handle(opened, sqlite3_close), std::move(words), options);
  if (code != SQLITE_OK) return ErrorOf(opened, code, *database.words_);
  sqlite3_extended_result_codes(opened, 1);
  sqlite3_busy_timeout(opened, static_cast<int>(options.busy_limit.us / 1000));
  // Views and triggers that somebody put into the file call no functions that do anything, and no
  // value of it takes much memory.
  sqlite3_db_config(opened, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(opened, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_limit(opened, SQLITE_LIMIT_LENGTH, options.longest_value_bytes);
  return database;
}

Result<Database> Database::Open(const std::filesystem::path& path, const DatabaseOptions& options) {
  return OpenAs(path.string(), SQLITE_OPEN_READWRITE, {path.string(), options.without}, options);
}

Result<Database> Database::InMemory(const DatabaseOptions& options) {
  return OpenAs(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                {"in memory", options.without}, options);
}

// A file is whole without its log (PATH-wal) once that was written into it, as at an orderly end.
// Read as one that nobody changes, it needs neither the log nor a lock.
Result<Database> Database::CopyToMemory(const std::filesystem::path& path,
                                        const DatabaseOptions& options) {
  const FileWords words{path.string(), options.without};
  std::error_code error;
  if (std::filesystem::file_size(path.string() + "-wal", error) > 0 && !error)
    return Error(ErrorCode::kUnavailable, "The database '" + path.string() +
                                              "' cannot be read as long as nothing can be written "
                                              "beside it.");
  const std::string name = "file:" + EscapedForUri(path.string()) + "?immutable=1";
  ASSIGN_OR_RETURN(const Database file,
                   OpenAs(name, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, words, options));
  ASSIGN_OR_RETURN(Database copy, InMemory(options));
  sqlite3_backup* const backup =
      sqlite3_backup_init(copy.handle_.get(), "main", file.handle_.get(), "main");
  if (backup == nullptr) return ErrorOf(copy.handle_.get(), SQLITE_ERROR, words);
  const int copied = sqlite3_backup_step(backup, -1);
  sqlite3_backup_finish(backup);
  if (copied != SQLITE_DONE) return ErrorOf(nullptr, copied, words);
  return copy;
}

Result<Rows> Database::Ask(std::string_view sql, const std::vector<Value>& values) {
  sqlite3_stmt* prepared = nullptr;
  int code = sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()), &prepared,
                                nullptr);
  Rows rows(Rows::Handle(prepared, sqlite3_finalize), words_.get());
  for (size_t i = 0; i < values.size() && code == SQLITE_OK; ++i)
    code = Bind(prepared, static_cast<int>(i) + 1, values[i]);
  if (code != SQLITE_OK) return ErrorOf(handle_.get(), code, *words_);
  TRY(rows.Next());
  return rows;
}

Status Database::Run(std::string_view sql, const std::vector<Value>& values) {
  ASSIGN_OR_RETURN(Rows rows, Ask(sql, values));
  while (rows.has_row()) TRY(rows.Next());
  return OkStatus();
}

Result<int64_t> Database::AskNumber(std::string_view sql, const std::vector<Value>& values) {
  ASSIGN_OR_RETURN(const Rows rows, Ask(sql, values));
  return rows.has_row() ? rows.Int(0) : 0;
}

int64_t Database::last_id() const {
  return sqlite3_last_insert_rowid(handle_.get());
}

Result<Snapshot> Snapshot::Begin(Database& database) {
  TRY(database.Run("begin"));
  return Snapshot(&database);
}

Snapshot::~Snapshot() {
  if (database_ != nullptr) (void)database_->Run("rollback");
}

Result<Transaction> Transaction::Begin(Database& database) {
  TRY(database.Run("begin immediate"));
  return Transaction(&database);
}

Transaction::~Transaction() {
  // What fails here ends with the connection.
  if (database_ != nullptr) (void)database_->Run("rollback");
}

Status Transaction::Commit() {
  TRY(database_->Run("commit"));
  database_ = nullptr;
  return OkStatus();
}

}  // namespace weft::store
