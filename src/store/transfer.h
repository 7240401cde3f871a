// Rows of a database as lines of JSON, to keep them elsewhere or to move them to another database.
//
//   {"weft":"keys","version":2}
//   {"table":"keys","row":{"id":1,"hash":{"hex":"9f86.."},"name":"maths","ended":null}}
//   ...
//
// A file may hold several databases one after the other. Bytes are written in hex.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "store/schema.h"
#include "store/sqlite.h"

namespace weft::store {

struct TransferCount {
  int64_t tables = 0, rows = 0;
};

// Gives every row of every table to `write`, a line at a time, without line ends. Other processes
// may write meanwhile; what is given is of one moment.
Result<TransferCount> ExportRows(Database& database, const Schema& schema,
                                 const std::function<Status(const std::string& line)>& write);

// Reads such lines into one database in a single transaction: all of them, or nothing. Lines of
// other databases of the file are passed over.
class RowsImport {
 public:
  // kAlreadyExists: the database has rows, which would mean something else behind the import.
  static Result<RowsImport> Begin(Database& database, const Schema& schema);

  // kInvalidData: it is no such line, or names a table, a column or a value that there is not.
  // kUnsupported: of a newer version than this program knows.
  Status Add(std::string_view line);
  // kNotFound: there was nothing of this database. kInvalidData: rows name others that are missing.
  Result<TransferCount> Commit();

 private:
  RowsImport(Database& database, const Schema& schema, Database staged)
      : database_(&database), schema_(&schema), staged_(std::move(staged)) {}

  Status AddHead(std::string_view name, int64_t version);
  Status ReadColumns();
  Status Migrate();
  Status CopyTables();

  Database* database_;
  const Schema* schema_;
  Database staged_;  // with the tables of the version that wrote the lines
  std::map<std::string, std::vector<std::string>, std::less<>> columns_;  // by table
  bool is_ours_ = false;  // the lines that come are of this database
  int64_t version_ = 0;   // of them; 0: none came
  int64_t line_number_ = 0;
  TransferCount count_;
};

}  // namespace weft::store
