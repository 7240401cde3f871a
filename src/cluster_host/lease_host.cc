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
      register_timer_(loop),
      placement_timer_(loop),
      read_timer_(loop) {}

void LeaseHost::Start(CellId cell, std::string model, LedCell& led) {
  cell_ = cell;
  model_ = std::move(model);
  led_ = &led;
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
  if (leads() && has_core_) {
    std::vector<PeerAddress> successors = Successors();
    if (successors != told_successors_) {
      told_successors_ = std::move(successors);
      led_->Change(*led_incarnation_, told_successors_);
    }
  }
  const auto leader = FindLeader();
  const std::string now = leader ? leader->name : "";
  if (now != told_leader_ && !leads()) {
    if (leader)
      LogInfo("stands by for {}, which {} leads ({})", model_, leader->name, leader->url);
    else
      LogWarn("nobody is heard who leads {}", model_);
  }
  told_leader_ = now;
  if (on_changed_) on_changed_();
}

void LeaseHost::OnWorkers(uint32_t workers, bool up) {
  if (!leads()) return;
  is_up_ = up;
  Feed(cluster::WorkersCounted{cell_, workers, up});
}

void LeaseHost::OnWorkerSaw(Incarnation incarnation) {
  Feed(cluster::WorkerSaw{cell_, incarnation});
}

// ---- the database ----

void LeaseHost::NoteAnswer(const Status& status) {
  if (status.ok()) {
    if (!std::exchange(database_problem_, std::nullopt)) return;
    LogInfo("the cluster's database answers again");
    if (!is_writing_) WritePlacement(nullptr);
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
    if (cell.row.cell == cell_) read.cells.push_back(cell.row);
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

// ---- the cell ----

void LeaseHost::Carry(const cluster::Lead& action) {
  LogInfo("leads {} (incarnation {})", model_, action.incarnation.value());
  led_incarnation_ = action.incarnation;
  has_core_ = is_up_ = false;
  placement_.reset();
  ++term_;
  ReadPlacement();
}

void LeaseHost::ReadPlacement() {
  const auto is_wanted = [this, term = term_] { return leads() && term == term_ && !has_core_; };
  store_.ReadPlacement(cell_,
                       WhileAlive([this, is_wanted](const Result<std::vector<uint8_t>>& placement) {
                         if (!is_wanted()) return;
                         if (!placement.ok())
                           return read_timer_.FireAfter(times_.read_again, [this, is_wanted] {
                             if (is_wanted()) ReadPlacement();
                           });
                         has_core_ = true;
                         told_successors_ = Successors();
                         led_->Lead(*led_incarnation_, *placement, told_successors_);
                       }));
}

void LeaseHost::Carry(const cluster::Raise& action) {
  LogInfo("goes on leading {} (incarnation {})", model_, action.incarnation.value());
  led_incarnation_ = action.incarnation;
  if (has_core_) led_->Change(action.incarnation, told_successors_);
}

void LeaseHost::Carry(const cluster::StepDown& action) {
  LogInfo("leads {} no more", model_);
  led_incarnation_.reset();
  placement_.reset();
  ++term_;
  if (std::exchange(has_core_, false)) led_->StepDown(AddressOf(action.to));
}

void LeaseHost::Carry(const cluster::PlaceWorkers& action) {
  led_->PlaceWorkers(AddressOf(action.to));
}

void LeaseHost::NotePlacement(std::vector<uint8_t> body) {
  if (!leads()) return;
  placement_ = std::move(body);
  if (is_writing_) return;
  const Duration wait =
      std::max(written_at_ + times_.placement_interval - MonotonicNow(), Microseconds(0));
  placement_timer_.FireAfter(wait, [this] { WritePlacement(nullptr); });
}

// `then` is called when the latest one is written, or was refused.
void LeaseHost::WritePlacement(std::function<void()> then) {
  if (!leads() || !placement_) {
    if (then) then();
    return;
  }
  is_writing_ = true;
  written_at_ = MonotonicNow();
  store_.WritePlacement(
      cell_, *led_incarnation_, *placement_,
      WhileAlive([this, term = term_, body = *placement_, then](const Result<bool>& written) {
        is_writing_ = false;
        // One that came meanwhile, or that an error has kept back, is written later.
        if (term == term_ && written.ok() && placement_ == body) placement_.reset();
        if (placement_)
          placement_timer_.FireAfter(times_.placement_interval,
                                     [this] { WritePlacement(nullptr); });
        if (then) then();
      }));
}

// Answers that are under way go on at the other server (server/clustered_generator.h).
void LeaseHost::Carry(const cluster::HandOver& action) {
  // One that serves another model has heard nothing of this cell.
  const auto to = std::ranges::find(tables_.servers, action.to.server, &SharedServer::id);
  if (to != tables_.servers.end() && !ServesModel(*to))
    return Feed(cluster::HandedOver{action.cell, false});
  LogInfo("gives {} to another server", model_);
  WritePlacement(WhileAlive([this, action] { Give(action); }));
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
  heard_.erase(peer);
  for (const CellState& state : hello.cells)
    if (state.cell == cell_) heard_[peer] = state;
  Feed(cluster::HelloCame{peer, std::move(hello)});
}

void LeaseHost::Carry(const cluster::Connect& action) {
  links_.Connect(action.peer, AddressOf(action.peer));
}

PeerAddress LeaseHost::AddressOf(ServerId server) const {
  const auto found = addresses_.find(server);
  return found == addresses_.end() ? PeerAddress() : found->second;
}

std::vector<PeerAddress> LeaseHost::Successors() const {
  std::vector<PeerAddress> successors;
  for (const ServerId server : leases_.successors(cell_)) {
    const auto known = std::ranges::find(tables_.servers, server, &SharedServer::id);
    if (known != tables_.servers.end() && ServesModel(*known))
      successors.push_back(AddressOf(server));
  }
  return successors;
}

std::string LeaseHost::NameOf(ServerId server) const {
  const auto known = std::ranges::find(tables_.servers, server, &SharedServer::id);
  return known == tables_.servers.end() ? "server " + ToString(server) : known->name;
}

std::optional<LeaseHost::Leader> LeaseHost::FindLeader() const {
  std::optional<std::pair<ServerId, CellState>> best;
  for (const auto& [server, state] : heard_)
    if (state.leads && (!best || state.incarnation > best->second.incarnation))
      best = {server, state};
  if (leads() && (!best || *led_incarnation_ > best->second.incarnation))
    return Leader{self_.id, self_.name, self_.url, *led_incarnation_, is_up_};
  if (!best) return std::nullopt;
  return Leader{best->first, NameOf(best->first), UrlOf(best->first), best->second.incarnation,
                best->second.up};
}

}  // namespace weft::cluster_host
