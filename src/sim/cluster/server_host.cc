// The leases of a simulated server: events, timers and questions to the database.
#include "sim/cluster/server_host.h"

#include <utility>

namespace weft::sim {
namespace {

// Clocks of servers run up to a tenth too fast or too slow.
constexpr double kSlowest = 0.9, kRange = 0.2;
// A core writes what it has measured when a minute of its clock ends.
constexpr Duration kMinute = Seconds(60);

}  // namespace

ServerHost::ServerHost(World& world, cluster::ServerId id)
    : world_(world),
      holder_{id, {}},
      node_(world.NodeOf(id)),
      rate_(kSlowest + kRange * world.random.Uniform()),
      offset_(kMinute * static_cast<int64_t>(world.random.Uniform() *
                                             static_cast<double>(world.scenario.clocks_apart.us) /
                                             static_cast<double>(kMinute.us))) {}

Instant ServerHost::LocalNow() const {
  const double us = static_cast<double>(world_.scheduler.now().us) * rate_;
  return Instant{static_cast<int64_t>(us)} + offset_;
}

void ServerHost::Start() {
  holder_.start = cluster::StartId(world_.next_start++);
  world_.network.SetPower(node_, true);
  process_ = std::make_shared<Process>(world_.scheduler);
  leases_ = std::make_unique<cluster::Leases>(holder_, world_.scenario.lease, LocalNow());
  fed_.clear();
  is_draining_ = false;
  armed_.reset();
  links_.clear();
  cells_.clear();
  lines_.clear();
  for (uint32_t i = 1; i <= world_.scenario.cells; ++i) {
    const cluster::CellId cell(i);
    Gateway gateway(world_.scenario.gateway, world_.random.Next(), world_.counts);
    cells_[cell].requests = std::make_unique<CellRequests>(std::move(gateway), RequestHooks(cell));
  }
  world_.network.Listen(node_, process_, [this](std::shared_ptr<Channel> channel, Node from) {
    Accept(std::move(channel), from);
  });
  world_.log(Name() + " starts");
  Feed(cluster::TimerFired{});
}

void ServerHost::Kill(bool with_power) {
  if (!is_alive()) return;
  world_.log(Name() + (with_power ? " is killed" : " has no power"));
  process_->Kill();
  if (with_power)
    world_.network.NoteDeath(*process_);
  else
    world_.network.SetPower(node_, false);
  cells_.clear();
  world_.server_has_died(id());
}

void ServerHost::Stop(Duration time) {
  if (!is_alive() || process_->is_stopped()) return;
  const Instant until = world_.scheduler.now() + time;
  world_.log(Name() + " is stopped for " + std::to_string(time.us / 1000) + " ms");
  process_->Stop(until);
  world_.scheduler.At(until, [process = process_] { process->GoOn(); });
}

void ServerHost::Drain() {
  if (!is_alive()) return;
  world_.log(Name() + " is drained");
  is_draining_ = true;
  process_->Do([this] { Feed(cluster::DrainAsked{}); });
}

const CoreCell* ServerHost::CoreOf(cluster::CellId cell) const {
  const auto found = cells_.find(cell);
  return !is_alive() || found == cells_.end() ? nullptr : found->second.core.get();
}

std::optional<cluster::Incarnation> ServerHost::Leads(cluster::CellId cell) const {
  const auto found = cells_.find(cell);
  if (!is_alive() || found == cells_.end() || !found->second.leads) return std::nullopt;
  return found->second.incarnation;
}

void ServerHost::Feed(cluster::Event event) {
  if (!process_->is_alive()) return;
  const Tampering& tampering = world_.scenario.tampering;
  if (tampering.on_event && !tampering.on_event(id(), event)) return;
  fed_.push_back(std::move(event));
  if (!is_handling_) HandleFed();
}

void ServerHost::HandleFed() {
  const Tampering& tampering = world_.scenario.tampering;
  is_handling_ = true;
  for (; !fed_.empty(); fed_.pop_front())
    for (cluster::Action& action : leases_->Handle(fed_.front(), LocalNow()))
      if (!tampering.on_action || tampering.on_action(id(), action))
        std::visit([this](const auto& each) { Carry(each); }, action);
  is_handling_ = false;
  Settle();
  ArmTimer();
}

void ServerHost::After(Duration delay, std::function<void()> what) {
  const double us = static_cast<double>(delay.us) / rate_;
  world_.scheduler.After(Microseconds(static_cast<int64_t>(us) + 1),
                         [process = process_, what = std::move(what)] { process->Do(what); });
}

void ServerHost::ArmTimer() {
  const Instant timer = leases_->next_timer();
  if (armed_ && *armed_ <= timer) return;
  armed_ = timer;
  const Instant now = LocalNow();
  After(timer > now ? timer - now : Duration{}, [this, timer] {
    if (armed_ != timer) return;
    armed_.reset();
    Feed(cluster::TimerFired{});
  });
}

void ServerHost::Carry(const cluster::ReadTables& action) {
  world_.AskDatabase(node_, process_, [this, action]() -> World::Answer {
    cluster::TablesRead read = world_.database.Read(action.query, world_.scheduler.now());
    return [this, read = std::move(read)] { Feed(read); };
  });
}

void ServerHost::Carry(const cluster::Take& action) {
  world_.log(Name() + " tries to take cell " + ToString(action.cell) + " from " +
             ToString(action.seen) + (action.has_evidence ? " with evidence" : " by silence"));
  world_.AskDatabase(node_, process_, [this, action, holder = holder_]() -> World::Answer {
    const auto given = world_.database.TakeCell(action, holder, world_.scheduler.now());
    if (given)
      world_.log("cell " + ToString(action.cell) + " is of server " + ToString(holder.server) +
                 " (" + ToString(*given) + ")");
    return [this, action, given] { Feed(cluster::TakeAnswered{action.query, action.cell, given}); };
  });
}

void ServerHost::Carry(const cluster::Renew& action) {
  world_.AskDatabase(node_, process_, [this, action, holder = holder_]() -> World::Answer {
    auto cells = world_.database.RenewCells(action.cells, holder, world_.scheduler.now());
    return [this, query = action.query, cells = std::move(cells)] {
      Feed(cluster::Renewed{query, cells});
    };
  });
}

void ServerHost::Carry(const cluster::PlaceWorkers& action) {
  cells_[action.cell].placed = action.to;
  for (const LineId line : LinesOf(action.cell, false)) Place(line);
}

void ServerHost::Carry(const cluster::SayHello& action) {
  for (const auto& [peer, link] : links_) {
    ServerEnd& to = world_.ServerAt(world_.NodeOf(peer));
    link.channel->Send(node_,
                       [&to, from = id(), hello = action.hello] { to.OnPeerHello(from, hello); });
  }
}

}  // namespace weft::sim
