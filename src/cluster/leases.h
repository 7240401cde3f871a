// Leases: all cells' leases as one server sees them, a deterministic machine like swarm::Core.
//
//   Handle(LinkClosed{a}, 0 ms)        -> Connect{a}
//   Handle(ConnectRefused{a}, 1 ms)
//   Handle(TimerFired{}, 251 ms)       -> Connect{a}
//   Handle(ConnectRefused{a}, 252 ms)  -> Take{cell 1, seen 7, with evidence}
//   Handle(TakeAnswered{8}, 254 ms)    -> Lead{cell 1, 8}, SayHello
//
// It asks the database to read the tables, to renew all that it leads, and to take a cell. One
// question of each kind is open at a time. An answer that does not come changes nothing.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "cluster/events.h"
#include "cluster/lease.h"
#include "cluster/options.h"
#include "cluster/outbox.h"
#include "cluster/peers.h"

namespace weft::cluster {

class Leases {
 public:
  // `self` has a start that no server ever had. The server begins to listen at `now`.
  Leases(Holder self, LeaseOptions options, Instant now);
  Leases(const Leases&) = delete;
  Leases& operator=(const Leases&) = delete;

  // `now` never goes backwards. Actions are to be carried out in order.
  std::vector<Action> Handle(const Event& event, Instant now);

  // When TimerFired is wanted next.
  Instant next_timer() const;

  // The servers to which the cell's workers turn when this one is lost, the best first.
  std::vector<ServerId> successors(CellId cell) const;

  // This server was told to lead nothing, and does not.
  bool is_drained() const;

 private:
  struct Question {
    QueryId query;
    Instant until;
  };

  void On(const TimerFired&) {}
  void On(const LinkOpened& event);
  void On(const LinkClosed& event) { peers_.OnClosed(event.peer, now_); }
  void On(const ConnectRefused& event) { peers_.OnRefused(event.peer, now_); }
  void On(const ConnectFailed& event) { peers_.OnFailed(event.peer, now_); }
  void On(const HelloCame& event) { peers_.OnHello(event.peer, event.hello, now_); }
  void On(const TablesRead& event);
  void On(const TakeAnswered& event);
  void On(const Renewed& event);
  void On(const QueryFailed& event);
  void On(const HandedOver& event);
  void On(const WorkersCounted& event);
  void On(const WorkerSaw& event);
  void On(const PackageFound& event);
  void On(const DrainAsked&) { is_draining_ = true; }

  // Finds or makes the cell's lease.
  Lease& At(CellId cell);
  // nullptr: nobody but a stranger has ever named the cell.
  Lease* Find(CellId cell);
  void Settle();
  void SayHelloIfDue();
  void ReadIfDue();
  void RenewIfDue();

  const Holder self_;
  const LeaseOptions options_;
  Instant now_;
  Peers peers_;
  std::map<CellId, Lease> leases_;
  Outbox out_;
  bool is_draining_ = false;

  Instant next_hello_, next_read_, next_renewal_;
  Instant last_read_{INT64_MIN};
  std::optional<Question> read_, renewal_;
  std::vector<Renew::Cell> renewing_;  // the cells of that renewal
};

}  // namespace weft::cluster
