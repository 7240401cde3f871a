// The numbers by which servers of a cluster name each other, their cells and their leases.
#pragma once

#include "base/strong_id.h"

namespace weft::cluster {

using CellId = StrongId<struct CellTag>;                // a row of the table `cells`
using ServerId = StrongId<struct ServerTag, uint64_t>;  // of a state folder; the same at each start
using StartId = StrongId<struct StartTag, uint64_t>;    // random, another one at each start
// The number of a time of leading. The database gives it, and for one cell it only rises.
using Incarnation = StrongId<struct IncarnationTag, uint64_t>;
// A question to the database, numbered by the server that asks.
using QueryId = StrongId<struct QueryTag, uint64_t>;

// Who has a lease: one start of one server. A server that starts again is another holder.
struct Holder {
  ServerId server;
  StartId start;
  auto operator<=>(const Holder&) const = default;
  bool is_set() const { return server.is_set(); }
};

}  // namespace weft::cluster
