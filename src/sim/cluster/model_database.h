// A database with the tables that leases need, and the statements that change them. Each runs whole
// and alone (it is linearisable). After a failover to a standby that was behind, the last commits
// are gone, and its clock is another one.
//
// Rules that a real database must keep can be taken out, so that tests see them missed.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cluster/events.h"
#include "swarm/placement.h"

namespace weft::sim {

class ModelDatabase {
 public:
  struct Rules {
    bool fences_writes = true;    // a write needs the row's incarnation and holder
    bool counts_by_clock = true;  // an incarnation is at least the clock in milliseconds
  };
  // What a leader keeps of its cell, for the next one; null: none has.
  using Placement = std::shared_ptr<const swarm::Placement>;

  ModelDatabase(Rules rules, Duration time_to_live) : rules_(rules), time_to_live_(time_to_live) {}

  void AddServer(cluster::ServerId server) { servers_.push_back(server); }
  void AddCell(cluster::CellId cell) { state_[cell].row.cell = cell; }

  // ---- statements ----
  cluster::TablesRead Read(cluster::QueryId query, Instant now) const;
  std::optional<cluster::Incarnation> TakeCell(const cluster::Take& take, cluster::Holder holder,
                                               Instant now);
  std::vector<cluster::CellId> RenewCells(const std::vector<cluster::Renew::Cell>& cells,
                                          cluster::Holder holder, Instant now);
  // False: the fence has stopped it.
  bool Write(cluster::CellId cell, cluster::Incarnation incarnation, cluster::Holder holder,
             Placement placement);
  bool Give(cluster::CellId cell, cluster::Incarnation incarnation, cluster::Holder holder,
            cluster::Holder to, Instant now);
  Placement placement(cluster::CellId cell) const { return state_.at(cell).placement; }

  // The last `commits` takes are lost, and the clock goes on with this difference.
  void GoBack(size_t commits, Duration clock_shift);

  // ---- for checks ----
  cluster::CellRow row(cluster::CellId cell, Instant now) const;
  uint64_t takes() const { return takes_; }  // that changed the holder, or its incarnation
  // A sentence about a write of a deposed leader, or about an incarnation that was given twice.
  const std::optional<std::string>& problem() const { return problem_; }

 private:
  struct Cell {
    cluster::CellRow row;
    Instant expires;
    Placement placement;
  };

  bool HasExpired(const Cell& cell, Instant now) const { return cell.expires < Clock(now); }
  Instant Clock(Instant now) const { return now + clock_shift_; }

  const Rules rules_;
  const Duration time_to_live_;
  std::vector<cluster::ServerId> servers_;
  std::map<cluster::CellId, Cell> state_;
  std::deque<std::map<cluster::CellId, Cell>> before_;  // the last takes
  Duration clock_shift_;
  uint64_t takes_ = 0;
  std::map<std::pair<cluster::CellId, cluster::Incarnation>, cluster::Holder> given_;
  std::optional<std::string> problem_;
};

}  // namespace weft::sim
