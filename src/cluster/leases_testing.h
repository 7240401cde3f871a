// A server of tests: its leases, and a database of one cell that answers at once unless it is away.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "cluster/leases.h"

namespace weft::cluster {

inline constexpr CellId kCell = 1;
// Peers of the server under test: the server 1 leads, and the server 3 stands by as this one does.
inline constexpr Holder kLeader{1, 10}, kSelf{2, 20}, kThird{3, 30};

class ServerUnderTest {
 public:
  explicit ServerUnderTest(CellRow first = {kCell, 7, kLeader, false}) : row(first) {
    leases_.emplace(kSelf, LeaseOptions{}, now);
    Feed(TimerFired{});
  }

  // Feeds it and answers what is asked, until nothing is. All actions are kept.
  void Feed(const Event& event) {
    for (const Action& action : leases_->Handle(event, now)) {
      actions.push_back(action);
      pending_.push_back(action);
    }
    while (!pending_.empty() && !is_away) {
      const Action action = pending_.front();
      pending_.erase(pending_.begin());
      Answer(action);
    }
    pending_.clear();
  }
  // Lets time pass, with all timers in it.
  void Pass(Duration time) {
    const Instant end = now + time;
    while (leases_->next_timer() <= end) {
      now = std::max(now, leases_->next_timer());
      for (const Peer& peer : talking_) Feed(HelloCame{peer.first.server, peer.second});
      Feed(TimerFired{});
    }
    now = end;
  }
  // A peer says this now, and again as long as time passes.
  void Hear(Holder peer, CellState state) {
    Hello hello{peer.start, false, {}, {}};
    if (state.cell == kCell) hello.cells.push_back(state);
    HearHello(peer, hello);
  }
  void HearHello(Holder peer, const Hello& hello) {
    Mute(peer);
    Feed(LinkOpened{peer.server});
    talking_.emplace_back(peer, hello);
    Feed(HelloCame{peer.server, hello});
  }
  void Mute(Holder peer) {
    std::erase_if(talking_, [peer](const Peer& each) { return each.first.server == peer.server; });
  }
  // The peer's process has gone: its link closes, and two connects are refused.
  void Refuse(Holder peer) {
    Mute(peer);
    Feed(LinkClosed{peer.server});
    Feed(ConnectRefused{peer.server});
    Pass(LeaseOptions{}.connect_again);
    Feed(ConnectRefused{peer.server});
  }
  // Makes it lead with so many workers, as if it had led for long.
  void BecomeLeader(uint32_t workers) {
    row = {kCell, row.incarnation, {kSelf.server, 19}, false};  // an earlier start of its own
    Pass(Seconds(1));
    ASSERT_TRUE(Last<Lead>());
    Feed(WorkersCounted{kCell, workers, workers > 0});
    actions.clear();
  }

  // Gives the last action of the kind since `actions` was cleared.
  template <class Kind>
  std::optional<Kind> Last() const {
    std::optional<Kind> last;
    for (const Action& action : actions)
      if (const auto* found = std::get_if<Kind>(&action)) last = *found;
    return last;
  }
  template <class Kind>
  size_t Count() const {
    size_t count = 0;
    for (const Action& action : actions) count += std::holds_alternative<Kind>(action) ? 1 : 0;
    return count;
  }
  const Leases& leases() const { return *leases_; }

  Instant now{100'000'000};
  bool is_away = false;  // the database
  CellRow row;
  bool has_row = true;
  std::vector<Action> actions;

 private:
  using Peer = std::pair<Holder, Hello>;

  void Answer(const Action& action) {
    if (const auto* read = std::get_if<ReadTables>(&action)) {
      TablesRead tables{read->query, {1, 2, 3}, {}};
      if (has_row) tables.cells.push_back(row);
      return Feed(tables);
    }
    if (const auto* renew = std::get_if<Renew>(&action)) {
      Renewed renewed{renew->query, {}};
      for (const Renew::Cell& cell : renew->cells)
        if (has_row && row.holder == kSelf && row.incarnation == cell.incarnation)
          renewed.cells.push_back(cell.cell);
      return Feed(renewed);
    }
    if (const auto* take = std::get_if<Take>(&action)) {
      const bool is_taken =
          take->seen == row.incarnation && (row.has_expired || take->has_evidence);
      if (is_taken) row = {kCell, std::max(row.incarnation, take->above).Next(), kSelf, false};
      const auto given = is_taken ? std::optional(row.incarnation) : std::nullopt;
      return Feed(TakeAnswered{take->query, take->cell, given});
    }
  }

  std::optional<Leases> leases_;
  std::vector<Action> pending_;
  std::vector<Peer> talking_;
};

// What a peer says that leads the cell.
inline CellState Leading(Incarnation incarnation, uint32_t workers) {
  return {kCell, true, incarnation, workers > 0, workers, {}};
}

}  // namespace weft::cluster
