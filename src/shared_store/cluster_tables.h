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
// version. kInvalidArgument: of another key.
void CheckTables(postgres::Connection& connection, std::vector<uint8_t> cluster_check, Done done);

}  // namespace weft::shared_store
