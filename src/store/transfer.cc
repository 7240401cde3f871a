#include "store/transfer.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "base/bytes.h"
#include "base/sentence.h"
#include "base/unix_time.h"

namespace weft::store {
namespace json = boost::json;

namespace {

// A name of a table or column in a statement.
std::string Quoted(std::string_view name) {
  std::string quoted = "\"";
  for (const char c : name) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

// The tables of the schema, not those of SQLite and of migrations.
Result<std::vector<std::string>> TablesOf(Database& database) {
  std::vector<std::string> tables;
  ASSIGN_OR_RETURN(Rows rows,
                   database.Ask("select name from sqlite_master where type = 'table' and name not "
                                "like 'sqlite!_%' escape '!' and name <> 'migrations' order by "
                                "name"));
  while (rows.has_row()) {
    tables.push_back(rows.Text(0));
    TRY(rows.Next());
  }
  return tables;
}

Result<std::vector<std::string>> ColumnsOf(Database& database, const std::string& table) {
  std::vector<std::string> columns;
  ASSIGN_OR_RETURN(Rows rows, database.Ask("select name from pragma_table_info(?)", {table}));
  while (rows.has_row()) {
    columns.push_back(rows.Text(0));
    TRY(rows.Next());
  }
  return columns;
}

json::value ToJson(const Value& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return *number;
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* text = std::get_if<std::string>(&value)) return json::value(*text);
  if (const auto* bytes = std::get_if<std::vector<uint8_t>>(&value))
    return json::object{{"hex", ToHex(*bytes)}};
  return nullptr;
}

std::optional<Value> FromJson(const json::value& value) {
  if (value.is_null()) return Value(nullptr);
  if (value.is_int64()) return Value(value.get_int64());
  if (value.is_double()) return Value(value.get_double());
  if (value.is_string()) return Value(std::string(value.get_string()));
  const json::object* object = value.if_object();
  const json::value* hex = object != nullptr ? object->if_contains("hex") : nullptr;
  if (hex == nullptr || !hex->is_string()) return std::nullopt;
  auto bytes = FromHex(std::string_view(hex->get_string()));
  if (!bytes) return std::nullopt;
  return Value(*std::move(bytes));
}

// The tables of this version, empty.
Status MakeTables(Database& database, const Schema& schema, int64_t version) {
  Schema of_version = schema;
  of_version.migrations.resize(static_cast<size_t>(version));
  return ApplyMigrations(database, of_version, UnixNowMs());
}

Status CopyTable(Database& from, Database& to, const std::string& table, int64_t& row_count) {
  ASSIGN_OR_RETURN(const std::vector<std::string> columns, ColumnsOf(from, table));
  std::string names, marks;
  for (const std::string& column : columns) {
    names += (names.empty() ? "" : ", ") + Quoted(column);
    marks += marks.empty() ? "?" : ", ?";
  }
  const std::string insert =
      "insert into " + Quoted(table) + " (" + names + ") values (" + marks + ")";
  ASSIGN_OR_RETURN(Rows rows, from.Ask("select " + names + " from " + Quoted(table)));
  while (rows.has_row()) {
    std::vector<Value> values;
    for (size_t i = 0; i < columns.size(); ++i) values.push_back(rows.At(static_cast<int>(i)));
    TRY(to.Run(insert, values));
    ++row_count;
    TRY(rows.Next());
  }
  return OkStatus();
}

}  // namespace

Result<TransferCount> ExportRows(Database& database, const Schema& schema,
                                 const std::function<Status(const std::string& line)>& write) {
  TransferCount count;
  ASSIGN_OR_RETURN(const Snapshot snapshot, Snapshot::Begin(database));
  TRY(write(
      json::serialize(json::object{{"weft", schema.name}, {"version", schema.latest_version()}})));
  ASSIGN_OR_RETURN(const std::vector<std::string> tables, TablesOf(database));
  for (const std::string& table : tables) {
    ASSIGN_OR_RETURN(const std::vector<std::string> columns, ColumnsOf(database, table));
    ASSIGN_OR_RETURN(Rows rows, database.Ask("select * from " + Quoted(table)));
    while (rows.has_row()) {
      json::object row;
      for (size_t i = 0; i < columns.size(); ++i)
        row[columns[i]] = ToJson(rows.At(static_cast<int>(i)));
      TRY(write(json::serialize(json::object{{"table", table}, {"row", std::move(row)}})));
      ++count.rows;
      TRY(rows.Next());
    }
    ++count.tables;
  }
  return count;
}

Result<RowsImport> RowsImport::Begin(Database& database, const Schema& schema) {
  ASSIGN_OR_RETURN(const std::vector<std::string> tables, TablesOf(database));
  for (const std::string& table : tables) {
    ASSIGN_OR_RETURN(const int64_t rows, database.AskNumber("select count(*) from (select 1 from " +
                                                            Quoted(table) + " limit 1)"));
    if (rows > 0)
      return Error(ErrorCode::kAlreadyExists,
                   "There are " + schema.name +
                       " in the database already: an import needs an "
                       "empty one. Move its file away, or name another.");
  }
  ASSIGN_OR_RETURN(Database staged, Database::InMemory(database.options()));
  return RowsImport(database, schema, std::move(staged));
}

Status RowsImport::AddHead(std::string_view name, int64_t version) {
  is_ours_ = name == schema_->name;
  if (!is_ours_) return OkStatus();
  if (version_ != 0)
    return Error(ErrorCode::kInvalidData,
                 Sentence("Line ", line_number_, " begins the ", schema_->name, " once more."));
  if (version < 1 || version > schema_->latest_version())
    return Error(
        ErrorCode::kUnsupported,
        Sentence("The ", schema_->name, " of line ", line_number_, " have the version ", version,
                 ", this program knows ", schema_->latest_version(), ": update weft."));
  version_ = version;
  TRY(MakeTables(staged_, *schema_, version));
  TRY(staged_.Run("pragma foreign_keys = off"));
  return ReadColumns();
}

Status RowsImport::ReadColumns() {
  ASSIGN_OR_RETURN(const std::vector<std::string> tables, TablesOf(staged_));
  for (const std::string& table : tables) {
    ASSIGN_OR_RETURN(columns_[table], ColumnsOf(staged_, table));
  }
  return OkStatus();
}

Status RowsImport::Add(std::string_view line) {
  ++line_number_;
  const auto no_line = [this](const std::string& what) {
    return Error(ErrorCode::kInvalidData, Sentence("Line ", line_number_,
                                                   " is no row of an "
                                                   "export: ",
                                                   what, "."));
  };
  boost::system::error_code error;
  const json::value parsed = json::parse(line, error);
  const json::object* object = error ? nullptr : parsed.if_object();
  if (object == nullptr) return no_line("it is no JSON object");
  const json::value* head = object->if_contains("weft");
  const json::value* version = object->if_contains("version");
  if (head != nullptr) {
    if (!head->is_string() || version == nullptr || !version->is_int64())
      return no_line("its name or version is missing");
    return AddHead(std::string_view(head->get_string()), version->get_int64());
  }
  if (!is_ours_) return OkStatus();
  const json::value* table = object->if_contains("table");
  const json::value* row = object->if_contains("row");
  if (table == nullptr || !table->is_string() || row == nullptr || !row->is_object())
    return no_line("'table' or 'row' is missing");
  const std::string name(table->get_string());
  const auto known = columns_.find(name);
  if (known == columns_.end()) return no_line("there is no table '" + name + "'");
  std::string names, marks;
  std::vector<Value> values;
  for (const auto& [key, value] : row->get_object()) {
    const std::string column(key);
    if (std::ranges::find(known->second, column) == known->second.end())
      return no_line("'" + name + "' has no column '" + column + "'");
    auto read = FromJson(value);
    if (!read) return no_line("the value of '" + column + "' is none");
    values.push_back(*std::move(read));
    names += (names.empty() ? "" : ", ") + Quoted(column);
    marks += marks.empty() ? "?" : ", ?";
  }
  const Status added = staged_.Run(
      "insert into " + Quoted(name) + " (" + names + ") values (" + marks + ")", values);
  ++count_.rows;
  return added.ok() ? added : no_line(added.error().message());
}

Result<TransferCount> RowsImport::Commit() {
  if (version_ == 0)
    return Error(ErrorCode::kNotFound, "There are no " + schema_->name + " in the export.");
  TRY(Migrate());
  TRY(CopyTables());
  return count_;
}

Status RowsImport::Migrate() {
  {
    ASSIGN_OR_RETURN(const Rows missing, staged_.Ask("pragma foreign_key_check"));
    if (missing.has_row())
      return Error(ErrorCode::kInvalidData, "A row of '" + missing.Text(0) +
                                                "' in the export belongs to one of '" +
                                                missing.Text(2) + "' that is not there.");
  }
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(staged_));
  TRY(ApplyMigrations(staged_, *schema_, UnixNowMs()));
  return transaction.Commit();
}

Status RowsImport::CopyTables() {
  ASSIGN_OR_RETURN(const std::vector<std::string> tables, TablesOf(*database_));
  TRY(database_->Run("pragma foreign_keys = off"));
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*database_));
  count_ = {static_cast<int64_t>(tables.size()), 0};
  for (const std::string& table : tables) TRY(CopyTable(staged_, *database_, table, count_.rows));
  TRY(transaction.Commit());
  return database_->Run("pragma foreign_keys = on");
}

}  // namespace weft::store
