// What goes wrong in a run of several servers, and how it is healed at its end.
#include <algorithm>

#include "sim/cluster/cluster_run.h"

namespace weft::sim {
namespace {

constexpr Duration kQuick = Milliseconds(2);  // a database that is well
constexpr Duration kLooksAtDrain = Seconds(1);

}  // namespace

void ClusterRun::ScheduleFault() {
  if (!is_chaos_) return;
  ++outcome_.faults;
  Fault();
  const bool one_by_one = scenario_.faults == ClusterFaults::kKill;
  world_.scheduler.After(one_by_one ? Between(14, 20) : Between(2, 12),
                         [this] { ScheduleFault(); });
}

void ClusterRun::Fault() {
  switch (scenario_.faults) {
    case ClusterFaults::kAll:
      return FaultOfAll();
    case ClusterFaults::kReject:
      return random_.Uniform() < 0.4 ? RefuseSomething() : FaultOfAll();
    case ClusterFaults::kDatabase:
      return FaultOfDatabase();
    case ClusterFaults::kKill:
      return FaultOfKill();
    case ClusterFaults::kLoss:
      return FaultOfLoss();
    case ClusterFaults::kRelay:
      return FaultOfRelay();
  }
}

void ClusterRun::FaultOfAll() {
  const Duration time = Between(0.5, 25);
  const Instant until = world_.scheduler.now() + time;
  switch (random_.Below(10)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return CutSomething(until);
    case 4:
      return Isolate(until);
    case 5:
      return AnyServer().Stop(std::min(time, Seconds(12)));
    case 6:
      return KillAndRestart(AnyServer(), true, time);
    case 7:
      return KillAndRestart(AnyServer(), false, time);
    case 8:
      return DrainAndRestart(AnyServer(), time);
    default:
      return FaultOfDatabase();
  }
}

// A line between two servers, a server and the database or a server and a worker; one way or both.
void ClusterRun::CutSomething(Instant until) {
  const Node server = world_.NodeOf(AnyServer().id());
  Node other = kDatabaseNode;
  const uint64_t kind = random_.Below(3);
  if (kind == 1) other = world_.NodeOf(AnyServer().id());
  if (kind == 2) other = kFirstWorker + static_cast<Node>(random_.Below(workers_.size()));
  if (other == server) return;
  const uint64_t ways = random_.Below(4);
  Log("fault: cut between " + std::to_string(server + 1) + " and " + std::to_string(other + 1) +
      (ways < 2    ? ""
       : ways == 2 ? ", there"
                   : ", back"));
  if (ways != 3) world_.network.Cut(server, other, until);
  if (ways != 2) world_.network.Cut(other, server, until);
}

// A firewall between two servers, or a server and a worker.
void ClusterRun::RefuseSomething() {
  const Node server = world_.NodeOf(AnyServer().id());
  Node other = world_.NodeOf(AnyServer().id());
  if (random_.Below(4) == 0)
    other = kFirstWorker + static_cast<Node>(random_.Below(workers_.size()));
  if (other == server) return;
  Log("fault: a firewall between " + std::to_string(server + 1) + " and " +
      std::to_string(other + 1));
  world_.network.Refuse(server, other, world_.scheduler.now() + Between(0.5, 25));
}

// A server reaches neither peers nor the database, and half of the time no worker.
void ClusterRun::Isolate(Instant until) {
  const Node server = world_.NodeOf(AnyServer().id());
  const bool from_workers = random_.Below(2) == 0;
  Log("fault: server " + std::to_string(server + 1) + " is alone" +
      (from_workers ? "" : " with workers"));
  world_.network.CutBoth(server, kDatabaseNode, until);
  for (Node peer = 0; peer < servers_.size(); ++peer)
    if (peer != server) world_.network.CutBoth(server, peer, until);
  for (Node i = 0; from_workers && i < workers_.size(); ++i)
    world_.network.CutBoth(server, kFirstWorker + i, until);
}

void ClusterRun::FaultOfDatabase() {
  const double what = random_.Uniform();
  if (what < 0.4) {
    const Duration time =
        scenario_.faults == ClusterFaults::kDatabase ? Between(5, 60) : Between(0.5, 25);
    Log("fault: the database is away for " + std::to_string(time.us / 1000) + " ms");
    world_.health.is_away = true;
    world_.scheduler.After(time, [this] { world_.health.is_away = false; });
  } else if (what < 0.6) {
    const Node server = world_.NodeOf(AnyServer().id());
    Log("fault: server " + std::to_string(server + 1) + " does not reach the database");
    world_.network.CutBoth(server, kDatabaseNode, world_.scheduler.now() + Between(5, 30));
  } else {
    const int64_t choices[] = {1, 2, 5, 200, 500, 2000, 5000};
    world_.health.latency = Milliseconds(choices[random_.Below(std::size(choices))]);
    Log("fault: the database takes " + std::to_string(world_.health.latency.us / 1000) + " ms");
  }
}

void ClusterRun::FaultOfKill() {
  ServerHost* leader = AnyLeader();
  if (leader == nullptr) return;
  const double what = random_.Uniform();
  if (what < 0.7) {
    WatchCells(*leader, scenario_.longest_kill, outcome_.kills);
    KillAndRestart(*leader, true, Between(0.5, 9));
  } else if (what < 0.8) {
    WatchCells(*leader, scenario_.longest_drain, outcome_.drains);
    DrainAndRestart(*leader, Between(4, 9));
  } else if (what < 0.9) {
    WatchCells(*leader, scenario_.longest_power_loss, outcome_.power_losses);
    KillAndRestart(*leader, false, Between(9, 11));
  } else {
    KillAll();
  }
}

void ClusterRun::KillAll() {
  const Duration time = Between(0.2, 4);
  for (const auto& server : servers_) server->Kill(true);
  world_.scheduler.After(time, [this] {
    for (const auto& server : servers_)
      if (!server->is_alive()) server->Start();
    for (uint32_t i = 1; i <= scenario_.cells; ++i) {
      watches_.push_back({cluster::CellId(i),
                          {},
                          world_.scheduler.now(),
                          scenario_.longest_restart,
                          &outcome_.restarts});
      world_.scheduler.After(scenario_.longest_restart, [this, at = watches_.size() - 1] {
        if (!watches_[at].is_over)
          Violate("the workers of cell " + ToString(watches_[at].cell) +
                  " have no leader long after all servers have started");
      });
    }
    CheckWatches();
  });
}

void ClusterRun::FaultOfLoss() {
  if (random_.Below(2) == 0) return KillAndRestart(AnyServer(), true, Between(1, 8));
  const size_t commits = 1 + random_.Below(3);
  const Duration shift = Between(-5, 5);
  Log("fault: the database loses its last " + std::to_string(commits) + " takes, its clock is " +
      std::to_string(shift.us / 1000) + " ms off");
  world_.database.GoBack(commits, shift);
}

// A line between two servers, one way or both; or all lines of a server to its peers.
void ClusterRun::FaultOfRelay() {
  const Node server = world_.NodeOf(AnyServer().id());
  const Node other = world_.NodeOf(AnyServer().id());
  const Instant until = world_.scheduler.now() + Between(0.5, 25);
  const bool is_alone = random_.Below(4) == 0;
  Log("fault: cut between " + std::to_string(server + 1) + " and " +
      (is_alone ? "all other servers" : std::to_string(other + 1)));
  for (Node peer = 0; peer < servers_.size(); ++peer) {
    if (peer == server || (!is_alone && peer != other)) continue;
    const uint64_t ways = random_.Below(4);
    if (ways != 3) world_.network.Cut(server, peer, until);
    if (ways != 2) world_.network.Cut(peer, server, until);
  }
}

ServerHost& ClusterRun::AnyServer() {
  return *servers_[random_.Below(servers_.size())];
}

ServerHost* ClusterRun::AnyLeader() {
  return LeaderOf(cluster::CellId(1 + random_.Below(scenario_.cells)));
}

void ClusterRun::KillAndRestart(ServerHost& server, bool with_power, Duration time) {
  if (!server.is_alive()) return;
  server.Kill(with_power);
  world_.scheduler.After(time, [this, &server] {
    if (!server.is_alive() && stays_away_ != &server) server.Start();
  });
}

// Its owner ends the server soon after it leads nothing more, or when patience is over.
void ClusterRun::DrainAndRestart(ServerHost& server, Duration time) {
  if (!server.is_alive() || server.is_draining()) return;
  server.Drain();
  WaitForDrain(server, server.holder(), world_.scheduler.now() + time * 2, time);
}

void ClusterRun::WaitForDrain(ServerHost& server, cluster::Holder drained, Instant until,
                              Duration time) {
  world_.scheduler.After(kLooksAtDrain, [=, this, &server] {
    if (server.holder() != drained || !server.is_alive()) return;
    if (server.is_drained() || world_.scheduler.now() >= until)
      return KillAndRestart(server, true, time);
    WaitForDrain(server, drained, until, time);
  });
}

void ClusterRun::Heal() {
  Log("all is well");
  is_chaos_ = false;
  clients_.Stop();
  world_.network.Heal();
  world_.health = {false, kQuick};
  // In some runs one server never comes back.
  const bool may_stay_away = scenario_.faults != ClusterFaults::kKill &&
                             !NobodyTakes(scenario_.faults) && scenario_.servers > 2;
  if (may_stay_away && random_.Below(3) == 0) {
    stays_away_ = &AnyServer();
    stays_away_->Kill(false);
  }
  for (const auto& server : servers_) {
    if (server->is_draining()) server->Kill(true);
    if (!server->is_alive() && server.get() != stays_away_) server->Start();
  }
}

}  // namespace weft::sim
