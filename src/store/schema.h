// The tables of a database, as migrations that only go forward.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/sqlite.h"

namespace weft::store {

struct Schema {
  int64_t application_id = 0;  // by which a file is known to be of this kind
  std::string name;            // of what it holds, for errors: "keys"
  // The statements of each version. One that was published is never changed: a change is a
  // migration behind it.
  std::vector<std::vector<std::string>> migrations;

  // The version that this program writes.
  int64_t latest_version() const { return static_cast<int64_t>(migrations.size()); }
};

// Keys and their usage (store.h).
const Schema& KeysSchema();
// What a server keeps of its cells for its next start (records.h).
const Schema& RecordsSchema();

// Of the tables that are there; 0: none.
Result<int64_t> SchemaVersion(Database& database);
// Brings them to the latest version. REQUIRES: a transaction is open, foreign keys are not looked
// after, and SchemaVersion is no later. (A table that is made anew is gone for a moment.) What
// another process has done since is not done again.
Status ApplyMigrations(Database& database, const Schema& schema, int64_t now_ms);

}  // namespace weft::store
