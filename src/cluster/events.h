// What happens to the leases of a server, and what they want done. A host feeds events with its own
// monotonic time and carries out actions in order. Leases know no sockets, no SQL and no core.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "cluster/ids.h"

namespace weft::cluster {

// A lease as the database has it. It alone compares times, with its own clock.
struct CellRow {
  CellId cell;
  Incarnation incarnation;
  Holder holder;  // not set: nobody has led the cell yet
  bool has_expired = false;
};

// What a server tells of a cell that it leads, or has just given away.
struct CellState {
  CellId cell;
  bool leads = false;
  Incarnation incarnation;
  bool up = false;
  uint32_t workers = 0;
  ServerId given_to;  // whom a drain has given the cell to
};

struct Hello {
  StartId start;
  bool is_draining = false;
  std::vector<CellState> cells;
  std::vector<CellId> packages;  // that are on its disk, by the cells that run them
};

// ---- events ----
struct TimerFired {};  // Leases::next_timer() has come
// The link to a peer carries messages from now on.
struct LinkOpened {
  ServerId peer;
};
struct LinkClosed {
  ServerId peer;
};
// Nobody listens at the peer's address, as its machine says.
struct ConnectRefused {
  ServerId peer;
};
// The attempt got no answer in time, which says nothing about the peer.
struct ConnectFailed {
  ServerId peer;
};
struct HelloCame {
  ServerId peer;
  Hello hello;
};
// The answer to ReadTables.
struct TablesRead {
  QueryId query;
  std::vector<ServerId> servers;
  std::vector<CellRow> cells;
};
// The answer to Take; nullopt: the row was not as the statement wanted it, and has not changed.
struct TakeAnswered {
  QueryId query;
  CellId cell;
  std::optional<Incarnation> incarnation;
};
// The answer to Renew: the cells that are renewed. A cell that is missing has another holder.
struct Renewed {
  QueryId query;
  std::vector<CellId> cells;
};
// The database gave an error. An answer that does not come needs no event: leases have a clock.
struct QueryFailed {
  QueryId query;
};
// The answer to HandOver, always exactly one. False: the row has not been given, as far as the host
// knows.
struct HandedOver {
  CellId cell;
  bool is_given = false;
};
// The workers that this server's core of the cell has now, and whether a full plan serves.
struct WorkersCounted {
  CellId cell;
  uint32_t workers = 0;
  bool up = false;
};
// A worker came that has been told this incarnation by somebody.
struct WorkerSaw {
  CellId cell;
  Incarnation incarnation;
};
// This server has the cell's package on its disk, or has it no longer.
struct PackageFound {
  CellId cell;
  bool is_here = false;
};
// The owner wants this server to lead nothing any more.
struct DrainAsked {};

using Event = std::variant<TimerFired, LinkOpened, LinkClosed, ConnectRefused, ConnectFailed,
                           HelloCame, TablesRead, TakeAnswered, Renewed, QueryFailed, HandedOver,
                           WorkersCounted, WorkerSaw, PackageFound, DrainAsked>;

// ---- actions ----
// Reads the ids of all servers, and the rows of all cells. The answer is TablesRead.
struct ReadTables {
  QueryId query;
};
// Takes the cell if its row still has the incarnation `seen`, and has expired or need not. The new
// incarnation is above `seen`, above `above`, and at least the database's clock in milliseconds.
struct Take {
  QueryId query;
  CellId cell;
  Incarnation seen;
  bool has_evidence = false;  // the row need not have expired
  Incarnation above;
};
struct Renew {
  struct Cell {
    CellId cell;
    Incarnation incarnation;
    bool up = false;
    uint32_t workers = 0;  // for people who look
  };
  QueryId query;
  std::vector<Cell> cells;
};
// Starts the cell's core: reads its placement first, and gives parked workers to it.
struct Lead {
  CellId cell;
  Incarnation incarnation;
};
// The lease was taken again: the core that runs goes on with this incarnation.
struct Raise {
  CellId cell;
  Incarnation incarnation;
};
// Ends the cell's core. Its workers are sent to the server `to`, or to their successors if not set.
struct StepDown {
  CellId cell;
  ServerId to;
};
// Lets the core finish its steps, writes the placement, and makes `to` the row's holder.
struct HandOver {
  CellId cell;
  Incarnation incarnation;
  Holder to;
};
// Says what is to become of workers that come for the cell, and of those that are parked here. They
// are sent to `to`; or, where that is not set, they are parked for LeaseOptions::parking at most.
struct PlaceWorkers {
  CellId cell;
  ServerId to;
};
struct SayHello {
  Hello hello;  // for all peers with an open link
};
// Opens the link to this peer. The answer is LinkOpened, ConnectRefused or ConnectFailed.
struct Connect {
  ServerId peer;
};

using Action = std::variant<ReadTables, Take, Renew, Lead, Raise, StepDown, HandOver, PlaceWorkers,
                            SayHello, Connect>;

}  // namespace weft::cluster
