// One cell's lease as one server sees it. docs/cluster.md tells the rules with their reasons.
//
//   +---------+  a reason to take, and the row agrees: Lead   +---------+
//   | standby | --------------------------------------------> | leading | <----------+
//   +---------+                                               +---------+            |
//     ^     ^                                drain: HandOver   |       |             | taken again:
//     |     |  given: StepDown  +--------------+               |       |             | Raise
//     |     +------------------ | handing over | <-------------+       |             |
//     |                         +--------------+  (or back, if not     |             |
//     |                                           given)               |             |
//     |   a renewal says "not yours", or a hello or a worker knows of  |             |
//     |   a higher incarnation                                         v             |
//     |                                                         +-----------+        |
//     +-------------------------------------------------------- | contested | -------+
//        the other one has workers, or this one none: StepDown  +-----------+
//
// A contested leader goes on leading. Its workers speak with one server at a time, and refuse
// whoever has a lower incarnation than they have seen. So two leaders harm nobody. They only must
// not stay.
#pragma once

#include <optional>
#include <utility>

#include "base/clock.h"
#include "cluster/events.h"
#include "cluster/options.h"
#include "cluster/outbox.h"
#include "cluster/peers.h"

namespace weft::cluster {

class Lease {
 public:
  // `options` and `peers` outlive it.
  Lease(CellId cell, Holder self, const LeaseOptions& options, const Peers& peers)
      : cell_(cell), self_(self), options_(options), peers_(peers) {}

  // ---- facts ----
  void OnRow(const CellRow& row);
  // The tables were read, and the cell has no row any more: it was deleted.
  void OnRowGone(Instant now, Outbox& out);
  void OnTakeAnswered(const TakeAnswered& answer, Instant now, Outbox& out);
  void OnQueryFailed(QueryId query);
  // A renewal of this incarnation found another holder in the row.
  void OnNotMine(Incarnation incarnation);
  void OnWorkers(uint32_t workers, bool up);
  void OnWorkerSaw(Incarnation incarnation);
  void OnPackage(bool is_here) { has_package_ = is_here; }
  void OnHandedOver(bool is_given, Instant now, Outbox& out);

  // Does what follows from the facts. Call it after every event.
  void Decide(bool is_draining, Instant now, Outbox& out);

  // ---- what others ask ----
  bool leads() const { return state_ != State::kStandby; }
  // The row is believed to be this server's, so that it is to be renewed.
  bool is_renewed() const { return leads() && state_ != State::kContested; }
  bool wants_row() const { return wants_row_; }
  // The lease began or ended: peers should hear of it at once.
  bool TakeNews() { return std::exchange(has_news_, false); }
  Incarnation incarnation() const { return incarnation_; }
  bool up() const { return up_; }
  uint32_t workers() const { return workers_; }
  bool has_package() const { return has_package_; }
  // When Decide is wanted though nothing has happened.
  std::optional<Instant> next_timer() const;
  // What a hello says of the cell; nullopt: nothing.
  std::optional<CellState> Told(Instant now) const;

 private:
  enum class State { kStandby, kLeading, kContested, kHandingOver };
  // A reason to take the cell, and what its row has to be for that.
  struct Claim {
    Incarnation seen;
    bool has_evidence = false;
    bool by_refusals = false;  // the evidence that a firewall can forge
  };
  struct Asked {
    QueryId query;
    Claim claim;
    Instant until;
  };

  std::optional<Claim> ReasonToTake(Instant now) const;
  std::optional<Claim> ReasonToTakeAgain(Instant now) const;
  bool IsDeadBySilence(Instant now) const;
  bool BelievesRefusals(Instant now) const { return now >= distrusts_until_; }
  bool IsOnProbation(Instant now) const;
  void Ask(const Claim& claim, Instant now, Outbox& out);
  void Defend(Instant now, Outbox& out);
  void DecideContest(Instant now, Outbox& out);
  void BeginHandOver(Instant now, Outbox& out);
  void StepDownFor(ServerId other, Instant now, Outbox& out);
  void PlaceIfChanged(Instant now, Outbox& out);

  const CellId cell_;
  const Holder self_;
  const LeaseOptions& options_;
  const Peers& peers_;

  State state_ = State::kStandby;
  Incarnation incarnation_;  // while it leads
  uint32_t workers_ = 0;
  bool up_ = false;
  bool has_package_ = false;
  bool is_draining_ = false;
  bool has_news_ = false;

  std::optional<CellRow> row_;
  bool row_is_new_ = false;  // no take has been tried since it was read
  bool wants_row_ = false;
  std::optional<Asked> asked_;
  Incarnation highest_;  // that this server has heard of for the cell

  std::optional<Instant> took_by_refusals_;
  Instant distrusts_until_{INT64_MIN};
  Duration next_distrust_ = options_.distrust;

  ServerId placed_;  // the last PlaceWorkers
  std::optional<Holder> handing_to_;
  Instant hand_over_at_{INT64_MIN};
  struct Given {
    ServerId server;
    Incarnation incarnation;
    Instant until;
  };
  std::optional<Given> given_;
};

}  // namespace weft::cluster
