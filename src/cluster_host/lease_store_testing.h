// The tables of a cluster for tests, in this process, and a server's statements for them.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "net/loop.h"
#include "shared_store/shared_leases.h"

namespace weft::cluster_host {

// What the servers of a test share. It answers at once, or while it is away with an error.
struct Tables {
  shared_store::SharedTables shared;
  std::map<cluster::CellId, std::vector<uint8_t>> placements;
  bool is_away = false;
  cluster::Incarnation last{100u};
};

class FakeStore : public shared_store::LeaseStore {
 public:
  FakeStore(net::EventLoop& loop, Tables& tables, cluster::Holder self)
      : loop_(loop), tables_(tables), self_(self) {}

  void Register(const shared_store::SharedServer& server, Done done) override {
    Answer<bool>(
        [this, server]() -> Result<bool> {
          auto& servers = tables_.shared.servers;
          const auto found =
              std::ranges::find_if(servers, [&](const auto& each) { return each.id == server.id; });
          if (found == servers.end())
            servers.push_back(server);
          else
            found->start = server.start;
          return true;
        },
        [done](const Result<bool>& told) { done(told.ok() ? OkStatus() : Status(told.error())); });
  }
  void Read(Then<shared_store::SharedTables> done) override {
    Answer<shared_store::SharedTables>([this] { return tables_.shared; }, done);
  }
  void Take(const cluster::Take& take, Then<std::optional<cluster::Incarnation>> done) override {
    Answer<std::optional<cluster::Incarnation>>(
        [this, take]() -> std::optional<cluster::Incarnation> {
          auto& row = Row(take.cell);
          if (row.incarnation != take.seen || !(row.has_expired || take.has_evidence)) return {};
          ++tables_.last;
          row = {row.cell, tables_.last, self_, false};
          return tables_.last;
        },
        done);
  }
  void Renew(const std::vector<cluster::Renew::Cell>& cells,
             Then<std::vector<cluster::CellId>> done) override {
    Answer<std::vector<cluster::CellId>>(
        [this, cells] {
          std::vector<cluster::CellId> renewed;
          for (const auto& cell : cells)
            if (IsMine(cell.cell, cell.incarnation)) renewed.push_back(cell.cell);
          return renewed;
        },
        done);
  }
  void Give(cluster::CellId cell, cluster::Incarnation incarnation, cluster::Holder to,
            Then<bool> done) override {
    Answer<bool>(
        [this, cell, incarnation, to] {
          if (!IsMine(cell, incarnation)) return false;
          Row(cell).holder = to;
          Row(cell).has_expired = true;
          return true;
        },
        done);
  }
  void WritePlacement(cluster::CellId cell, cluster::Incarnation incarnation,
                      std::vector<uint8_t> body, Then<bool> done) override {
    ++writes;
    Answer<bool>(
        [this, cell, incarnation, body] {
          if (!IsMine(cell, incarnation)) return false;
          tables_.placements[cell] = body;
          return true;
        },
        done);
  }
  void ReadPlacement(cluster::CellId cell, Then<std::vector<uint8_t>> done) override {
    Answer<std::vector<uint8_t>>([this, cell] { return tables_.placements[cell]; }, done);
  }

  int writes = 0;

 private:
  cluster::CellRow& Row(cluster::CellId cell) {
    return std::ranges::find_if(tables_.shared.cells,
                                [cell](const auto& each) { return each.row.cell == cell; })
        ->row;
  }
  bool IsMine(cluster::CellId cell, cluster::Incarnation incarnation) {
    return Row(cell).holder == self_ && Row(cell).incarnation == incarnation;
  }
  template <typename Told>
  void Answer(std::function<Result<Told>()> ask, Then<Told> done) {
    loop_.Post([this, ask, done] {
      if (tables_.is_away) return done(Error(ErrorCode::kUnavailable, "The database is away."));
      done(ask());
    });
  }

  net::EventLoop& loop_;
  Tables& tables_;
  const cluster::Holder self_;
};

}  // namespace weft::cluster_host
