// The tables that the servers of a cluster share, and how they come into a database.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "postgres/connection.h"

namespace weft::shared_store {

// The version of the tables that this program reads and writes.
int64_t LatestTables();

// Told once, on the loop.
using Done = std::function<void(Status)>;

// Makes the tables, or brings those of an earlier version up to this one. Two that do so at once
// do it one after the other. `cluster_check`: HMAC of a fixed text under the cluster's key, by
// which a server finds out that its key is another one's.
//
// kUnsupported: tables of a newer weft. kInvalidArgument: they were made with another key.
void MakeTables(postgres::Connection& connection, std::vector<uint8_t> cluster_check,
                const std::string& cluster_name, Done done);

// Checks what MakeTables has made. kNotFound: there are no tables. kUnsupported: of another
// version. kInvalidArgument: of another key than the one that counts and the one that is to.
void CheckTables(postgres::Connection& connection, std::vector<uint8_t> cluster_check, Done done);

// The checks of the key that counts, and of the one that is to; empty: there is none.
struct KeyChecks {
  std::vector<uint8_t> current, next;
  bool operator==(const KeyChecks&) const = default;
};
void ReadKeyChecks(postgres::Connection& connection, std::function<void(Result<KeyChecks>)> done);
// Puts these into the place of `before`. False: somebody else was first, and nothing has changed.
void ChangeKeyChecks(postgres::Connection& connection, const KeyChecks& before,
                     const KeyChecks& after, std::function<void(Result<bool>)> done);

// Lets a role of the database do what a running server does: read and write rows, and no more.
// kInvalidArgument: there is no such role. kPermissionDenied: the tables are another role's.
void GrantRows(postgres::Connection& connection, const std::string& role, Done done);

}  // namespace weft::shared_store
