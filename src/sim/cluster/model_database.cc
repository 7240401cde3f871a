#include "sim/cluster/model_database.h"

#include <algorithm>
#include <utility>

namespace weft::sim {
namespace {

constexpr size_t kKeptStates = 4;

}  // namespace

cluster::CellRow ModelDatabase::row(cluster::CellId cell, Instant now) const {
  cluster::CellRow row = state_.at(cell).row;
  row.has_expired = HasExpired(state_.at(cell), now);
  return row;
}

cluster::TablesRead ModelDatabase::Read(cluster::QueryId query, Instant now) const {
  cluster::TablesRead read{query, servers_, {}};
  for (const auto& [id, cell] : state_) read.cells.push_back(row(id, now));
  return read;
}

// The statement of docs/cluster.md:
//   update cells set incarnation = greatest(incarnation + 1, $above + 1, clock in ms), ...
//   where id = $cell and incarnation = $seen and (expires < now() or $evidence)
std::optional<cluster::Incarnation> ModelDatabase::TakeCell(const cluster::Take& take,
                                                            cluster::Holder holder, Instant now) {
  Cell& cell = state_.at(take.cell);
  if (cell.row.incarnation != take.seen) return std::nullopt;
  if (!HasExpired(cell, now) && !take.has_evidence) return std::nullopt;
  before_.push_back(state_);
  if (before_.size() > kKeptStates) before_.pop_front();
  cluster::Incarnation next = std::max(cell.row.incarnation, take.above).Next();
  const cluster::Incarnation clock(static_cast<uint64_t>(Clock(now).us / 1000));
  if (rules_.counts_by_clock) next = std::max(next, clock);
  cell.row.incarnation = next;
  cell.row.holder = holder;
  cell.expires = Clock(now) + time_to_live_;
  ++takes_;
  if (!given_.emplace(std::pair(take.cell, next), holder).second && !problem_)
    problem_ = "incarnation " + ToString(next) + " was given twice";
  return next;
}

std::vector<cluster::CellId> ModelDatabase::RenewCells(
    const std::vector<cluster::Renew::Cell>& cells, cluster::Holder holder, Instant now) {
  std::vector<cluster::CellId> renewed;
  for (const cluster::Renew::Cell& each : cells) {
    Cell& cell = state_.at(each.cell);
    if (cell.row.holder != holder || cell.row.incarnation != each.incarnation) continue;
    cell.expires = Clock(now) + time_to_live_;
    renewed.push_back(each.cell);
  }
  return renewed;
}

bool ModelDatabase::Write(cluster::CellId id, cluster::Incarnation incarnation,
                          cluster::Holder holder, Placement placement) {
  Cell& cell = state_.at(id);
  const bool is_mine = cell.row.holder == holder && cell.row.incarnation == incarnation;
  if (!is_mine && rules_.fences_writes) return false;
  if (!is_mine && !problem_)
    problem_ = "incarnation " + ToString(incarnation) + " wrote a row after " +
               ToString(cell.row.incarnation) + " was taken";
  cell.placement = std::move(placement);
  return true;
}

bool ModelDatabase::Give(cluster::CellId id, cluster::Incarnation incarnation,
                         cluster::Holder holder, cluster::Holder to, Instant now) {
  Cell& cell = state_.at(id);
  if (cell.row.holder != holder || cell.row.incarnation != incarnation) return false;
  cell.row.holder = to;
  cell.expires = Clock(now);
  return true;
}

// Times in rows stay what they were, so that they mean something else by the new clock.
void ModelDatabase::GoBack(size_t commits, Duration clock_shift) {
  clock_shift_ = clock_shift;
  for (; commits > 0 && !before_.empty(); --commits) {
    state_ = before_.back();
    before_.pop_back();
  }
}

}  // namespace weft::sim
