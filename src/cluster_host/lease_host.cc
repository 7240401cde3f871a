#include "cluster_host/lease_host.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace weft::cluster_host {
namespace {

using cluster::CellId;
using cluster::CellState;
using cluster::Incarnation;
using cluster::ServerId;
using cluster::StartId;
using shared_store::SharedCell;
using shared_store::SharedServer;
using shared_store::SharedTables;
using wire::pb::LinkMessage;

LinkMessage ToMessage(const cluster::Hello& hello) {
  LinkMessage message;
  wire::pb::LinkHello& out = *message.mutable_hello();
  out.set_is_draining(hello.is_draining);
  for (const CellState& state : hello.cells) {
    auto& cell = *out.add_cells();
    cell.set_cell(state.cell.value());
    cell.set_leads(state.leads);
    cell.set_incarnation(state.incarnation.value());
    cell.set_up(state.up);
    cell.set_workers(state.workers);
    cell.set_given_to(state.given_to.value());
  }
  for (const CellId cell : hello.packages) out.add_packages(cell.value());
  return message;
}

cluster::Hello FromMessage(const wire::pb::LinkHello& message, StartId start) {
  cluster::Hello hello{start, message.is_draining(), {}, {}};
  for (const auto& cell : message.cells())
    hello.cells.push_back({CellId(uint32_t{cell.cell()}), cell.leads(),
                           Incarnation(uint64_t{cell.incarnation()}), cell.up(), cell.workers(),
                           ServerId(uint64_t{cell.given_to()})});
  for (const uint32_t cell : message.packages()) hello.packages.emplace_back(cell);
  return hello;
}

}  // namespace

LeaseHost::LeaseHost(net::EventLoop& loop, shared_store::LeaseStore& store, PeerLinks& links,
                     SharedServer self, const cluster::LeaseOptions& options, LeaseHostTimes times)
    : loop_(loop),
      store_(store),
      links_(links),
      self_(std::move(self)),
      times_(times),
      leases_({self_.id, self_.start}, options, MonotonicNow()),
      lease_timer_(loop),
      register_timer_(loop) {}

void LeaseHost::Start() {
  links_.OnMessage(LinkMessage::kHello,
                   WhileAlive([this](ServerId peer, StartId start, const LinkMessage& message) {
                     OnHello(peer, start, message.hello());
                   }));
  links_.OnPeer(WhileAlive([this](ServerId peer, bool is_up) {
    if (is_up) return Feed(cluster::LinkOpened{peer});
    heard_.erase(peer);
    Feed(cluster::LinkClosed{peer});
  }));
  links_.OnFailed(WhileAlive([this](ServerId peer, bool is_refused) {
    if (is_refused) return Feed(cluster::ConnectRefused{peer});
    Feed(cluster::ConnectFailed{peer});
  }));
  Register();
  Feed(cluster::TimerFired{});
}

void LeaseHost::Add(CellId cell, std::string model, LedCell& led) {
  cells_[cell] = std::make_unique<Cell>(loop_, cell, std::move(model), led);
  Feed(cluster::PackageFound{cell, true});
}

// ---- events and timers ----

void LeaseHost::Feed(cluster::Event event) {
  fed_.push_back(std::move(event));
  if (is_handling_) return;
  is_handling_ = true;
  for (; !fed_.empty(); fed_.pop_front())
    for (cluster::Action& action : leases_.Handle(fed_.front(), MonotonicNow()))
      std::visit([this](const auto& each) { Carry(each); }, action);
  is_handling_ = false;
  Settle();
  ArmTimer();
}

void LeaseHost::ArmTimer() {
  const Duration delay = std::max(leases_.next_timer() - MonotonicNow(), Microseconds(0));
  lease_timer_.FireAfter(delay, [this] { Feed(cluster::TimerFired{}); });
}

// What follows whatever has happened: workers know whom to turn to, and people who leads.
void LeaseHost::Settle() {
  for (const auto& [id, cell] : cells_) Settle(*cell);
  if (on_changed_) on_changed_();
}

void LeaseHost::Settle(Cell& cell) {
  if (cell.incarnation && cell.has_core) {
    std::vector<PeerAddress> successors = Successors(cell);
    if (successors != cell.told_successors) {
      cell.told_successors = std::move(successors);
      cell.led.Change(*cell.incarnation, cell.told_successors);
    }
  }
  const auto leader = FindLeader(cell.id);
  const std::string now = leader ? leader->name : "";
  if (now != cell.told_leader && !cell.incarnation) {
    if (leader)
      LogInfo("stands by for {}, which {} leads ({})", cell.model, leader->name, leader->url);
    else
      LogWarn("nobody is heard who leads {}", cell.model);
  }
  cell.told_leader = now;
}

void LeaseHost::OnWorkers(CellId cell, uint32_t workers, bool up) {
  if (!leads(cell)) return;
  At(cell).is_up = up;
  Feed(cluster::WorkersCounted{cell, workers, up});
}

void LeaseHost::OnWorkerSaw(CellId cell, Incarnation incarnation) {
  Feed(cluster::WorkerSaw{cell, incarnation});
}

// ---- the database ----

void LeaseHost::NoteAnswer(const Status& status) {
  if (status.ok()) {
    if (!std::exchange(database_problem_, std::nullopt)) return;
    LogInfo("the cluster's database answers again");
    for (const auto& [id, cell] : cells_)
      if (!cell->is_writing) WritePlacement(*cell, nullptr);
  } else if (!std::exchange(database_problem_, status.error().message())) {
    LogWarn("{} Leases stay as they are until the cluster's database answers.",
            status.error().message());
  }
}

// It goes on for as long as the server runs: others see when it was there last.
void LeaseHost::Register() {
  store_.Register(self_, WhileAlive([this](const Status& status) { NoteAnswer(status); }));
  register_timer_.FireAfter(times_.register_interval, [this] { Register(); });
}

void LeaseHost::Carry(const cluster::ReadTables& action) {
  store_.Read(WhileAlive([this, query = action.query](Result<SharedTables> tables) {
    NoteAnswer(tables.ok() ? OkStatus() : Status(tables.error()));
    if (!tables.ok()) return Feed(cluster::QueryFailed{query});
    OnTables(query, std::move(*tables));
  }));
}

void LeaseHost::OnTables(cluster::QueryId query, SharedTables tables) {
  tables_ = std::move(tables);
  cluster::TablesRead read{query, {}, {}};
  bool is_drained = false;
  for (const SharedServer& server : tables_.servers) {
    read.servers.push_back(server.id);
    addresses_[server.id] = {server.url, ToHex(server.fingerprint)};
    is_drained |= server.id == self_.id && server.start == self_.start && server.is_draining;
  }
  // Packages of other cells are not here: their leases are no matter of this server.
  for (const SharedCell& cell : tables_.cells)
    if (cells_.contains(cell.row.cell)) read.cells.push_back(cell.row);
  if (is_drained && !std::exchange(was_drained_, true)) {
    LogInfo("this server was told to go (weft cluster drain)");
    Feed(cluster::DrainAsked{});
  }
  Feed(std::move(read));
}

void LeaseHost::Carry(const cluster::Take& action) {
  store_.Take(action, WhileAlive([this, action](const Result<std::optional<Incarnation>>& taken) {
                if (!taken.ok()) return Feed(cluster::QueryFailed{action.query});
                Feed(cluster::TakeAnswered{action.query, action.cell, *taken});
              }));
}

void LeaseHost::Carry(const cluster::Renew& action) {
  store_.Renew(action.cells,
               WhileAlive([this, query = action.query](Result<std::vector<CellId>> renewed) {
                 if (!renewed.ok()) return Feed(cluster::QueryFailed{query});
                 Feed(cluster::Renewed{query, std::move(*renewed)});
               }));
}

// ---- cells ----

void LeaseHost::Carry(const cluster::Lead& action) {
  Cell& cell = At(action.cell);
  LogInfo("leads {} (incarnation {})", cell.model, action.incarnation.value());
  cell.incarnation = action.incarnation;
  cell.has_core = cell.is_up = false;
  cell.placement.reset();
  ++cell.term;
  ReadPlacement(cell);
}

void LeaseHost::ReadPlacement(Cell& cell) {
  const auto is_wanted = [&cell, term = cell.term] {
    return cell.incarnation && term == cell.term && !cell.has_core;
  };
  store_.ReadPlacement(
      cell.id, WhileAlive([this, &cell, is_wanted](const Result<std::vector<uint8_t>>& placement) {
        if (!is_wanted()) return;
        if (!placement.ok())
          return cell.read_timer.FireAfter(times_.read_again, [this, &cell, is_wanted] {
            if (is_wanted()) ReadPlacement(cell);
          });
        cell.has_core = true;
        cell.told_successors = Successors(cell);
        cell.led.Lead(*cell.incarnation, *placement, cell.told_successors);
      }));
}

void LeaseHost::Carry(const cluster::Raise& action) {
  Cell& cell = At(action.cell);
  LogInfo("goes on leading {} (incarnation {})", cell.model, action.incarnation.value());
  cell.incarnation = action.incarnation;
  if (cell.has_core) cell.led.Change(action.incarnation, cell.told_successors);
}

void LeaseHost::Carry(const cluster::StepDown& action) {
  Cell& cell = At(action.cell);
  LogInfo("leads {} no more", cell.model);
  cell.incarnation.reset();
  cell.placement.reset();
  ++cell.term;
  if (std::exchange(cell.has_core, false)) cell.led.StepDown(AddressOf(action.to));
}

void LeaseHost::Carry(const cluster::PlaceWorkers& action) {
  At(action.cell).led.PlaceWorkers(AddressOf(action.to));
}

void LeaseHost::NotePlacement(CellId id, std::vector<uint8_t> body) {
  if (!leads(id)) return;
  Cell& cell = At(id);
  cell.placement = std::move(body);
  if (cell.is_writing) return;
  const Duration wait =
      std::max(cell.written_at + times_.placement_interval - MonotonicNow(), Microseconds(0));
  cell.placement_timer.FireAfter(wait, [this, &cell] { WritePlacement(cell, nullptr); });
}

// `then` is called when the latest one is written, or was refused.
void LeaseHost::WritePlacement(Cell& cell, std::function<void()> then) {
  if (!cell.incarnation || !cell.placement) {
    if (then) then();
    return;
  }
  cell.is_writing = true;
  cell.written_at = MonotonicNow();
  const auto on_written = [this, &cell, term = cell.term, body = *cell.placement,
                           then](const Result<bool>& written) {
    cell.is_writing = false;
    // One that came meanwhile, or that an error has kept back, is written later.
    if (term == cell.term && written.ok() && cell.placement == body) cell.placement.reset();
    if (cell.placement)
      cell.placement_timer.FireAfter(times_.placement_interval,
                                     [this, &cell] { WritePlacement(cell, nullptr); });
    if (then) then();
  };
  store_.WritePlacement(cell.id, *cell.incarnation, *cell.placement, WhileAlive(on_written));
}

// Answers that are under way go on at the other server (server/clustered_generator.h).
void LeaseHost::Carry(const cluster::HandOver& action) {
  // One that serves another model has heard nothing of this cell.
  const auto to = std::ranges::find(tables_.servers, action.to.server, &SharedServer::id);
  Cell& cell = At(action.cell);
  if (to != tables_.servers.end() && !Serves(*to, cell.model))
    return Feed(cluster::HandedOver{action.cell, false});
  LogInfo("gives {} to another server", cell.model);
  WritePlacement(cell, WhileAlive([this, action] { Give(action); }));
}

void LeaseHost::Give(const cluster::HandOver& action) {
  store_.Give(action.cell, action.incarnation, action.to,
              WhileAlive([this, action](const Result<bool>& given) {
                Feed(cluster::HandedOver{action.cell, given.ok() && *given});
              }));
}

// ---- other servers ----

void LeaseHost::Carry(const cluster::SayHello& action) {
  const LinkMessage message = ToMessage(action.hello);
  for (const SharedServer& server : tables_.servers)
    if (server.id != self_.id) links_.Send(server.id, message);
}

void LeaseHost::OnHello(ServerId peer, StartId start, const wire::pb::LinkHello& message) {
  cluster::Hello hello = FromMessage(message, start);
  heard_[peer] = hello.cells;
  Feed(cluster::HelloCame{peer, std::move(hello)});
}

void LeaseHost::Carry(const cluster::Connect& action) {
  links_.Connect(action.peer, AddressOf(action.peer));
}

PeerAddress LeaseHost::AddressOf(ServerId server) const {
  const auto found = addresses_.find(server);
  return found == addresses_.end() ? PeerAddress() : found->second;
}

std::vector<PeerAddress> LeaseHost::Successors(const Cell& cell) const {
  std::vector<PeerAddress> successors;
  for (const ServerId server : leases_.successors(cell.id)) {
    const auto known = std::ranges::find(tables_.servers, server, &SharedServer::id);
    if (known != tables_.servers.end() && Serves(*known, cell.model))
      successors.push_back(AddressOf(server));
  }
  return successors;
}

std::string LeaseHost::NameOf(ServerId server) const {
  const auto known = std::ranges::find(tables_.servers, server, &SharedServer::id);
  return known == tables_.servers.end() ? "server " + ToString(server) : known->name;
}

std::optional<Incarnation> LeaseHost::incarnation(CellId cell) const {
  const auto found = cells_.find(cell);
  return found == cells_.end() ? std::nullopt : found->second->incarnation;
}

bool LeaseHost::leads_any() const {
  return std::ranges::any_of(cells_,
                             [](const auto& each) { return each.second->incarnation.has_value(); });
}

bool LeaseHost::SharesModels(const SharedServer& server) const {
  return std::ranges::any_of(self_.models,
                             [&](const std::string& model) { return Serves(server, model); });
}

std::optional<LeaseHost::Leader> LeaseHost::FindLeader(CellId cell) const {
  std::optional<std::pair<ServerId, CellState>> best;
  for (const auto& [server, states] : heard_)
    for (const CellState& state : states)
      if (state.cell == cell && state.leads &&
          (!best || state.incarnation > best->second.incarnation))
        best = {server, state};
  const auto own = incarnation(cell);
  if (own && (!best || *own > best->second.incarnation))
    return Leader{self_.id, self_.name, self_.url, *own, cells_.at(cell)->is_up};
  if (!best) return std::nullopt;
  return Leader{best->first, NameOf(best->first), UrlOf(best->first), best->second.incarnation,
                best->second.up};
}

}  // namespace weft::cluster_host
