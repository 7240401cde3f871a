// The tables of the store, as migrations that only go forward.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "store/sqlite.h"

namespace weft::store {

// "weft", by which a database is known to be ours.
inline constexpr int64_t kApplicationId = 0x77656674;

// The version that this program writes.
int64_t LatestVersion();
// Of the tables that are there; 0: none.
Result<int64_t> SchemaVersion(Database& database);
// Brings them to LatestVersion(). REQUIRES: a transaction is open, foreign keys are not looked
// after, and SchemaVersion is no later. (A table that is made anew is gone for a moment.) What
// another process has done since is not done again.
Status ApplyMigrations(Database& database, int64_t now_ms);

}  // namespace weft::store
