// The loop of a run, and what is checked as it goes on.
#include "sim/cluster/cluster_run.h"

#include <algorithm>
#include <utility>

namespace weft::sim {
namespace {

constexpr size_t kLogLines = 300;
constexpr Duration kSettles = Seconds(6);       // before the first fault
constexpr Duration kAnswersEnd = Seconds(120);  // after everything must be in order

}  // namespace

ClusterRun::ClusterRun(uint64_t seed, const ClusterScenario& scenario)
    : scenario_(scenario),
      world_(seed, scenario),
      clients_(world_, servers_, seed ^ 0xc11e47ull),
      random_(seed ^ 0xfa017ull) {
  world_.log = [this](const std::string& text) { Log(text); };
  world_.violate = [this](const std::string& text) { Violate(text); };
  world_.worker_has_joined = [this] {
    ++outcome_.moves;
    CheckWatches();
  };
  world_.worker_has_left = [this] {
    if (NobodyTakes(scenario_.faults))
      Violate("a worker has lost its leader, though all leaders were well");
  };
  world_.server_has_died = [this](cluster::ServerId server) { clients_.NoteDeath(server); };
  std::vector<cluster::ServerId> ids;
  for (uint32_t i = 0; i < scenario.servers; ++i) ids.push_back(cluster::ServerId(uint64_t{i} + 1));
  for (const cluster::ServerId id : ids) {
    world_.database.AddServer(id);
    servers_.push_back(std::make_unique<ServerHost>(world_, id));
    world_.servers.push_back(servers_.back().get());
  }
  Node node = kFirstWorker;
  for (uint32_t cell = 1; cell <= scenario.cells; ++cell) {
    world_.database.AddCell(cluster::CellId(cell));
    const CellModel& model = world_.ModelOf(cluster::CellId(cell));
    const std::string prefix = "worker " + std::to_string(cell) + ".";
    for (Device& device : MakeDevices(seed + cell, model, scenario.workers_of_cell, prefix)) {
      std::rotate(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(random_.Below(ids.size())),
                  ids.end());
      workers_.push_back(std::make_unique<ClusterWorker>(world_, node++, cluster::CellId(cell),
                                                         model, std::move(device), ids));
      world_.workers.push_back(workers_.back().get());
    }
  }
}

ClusterOutcome ClusterRun::Run() {
  Scheduler& scheduler = world_.scheduler;
  for (const auto& server : servers_)
    scheduler.After(Between(0, 1), [server = server.get()] { server->Start(); });
  for (const auto& worker : workers_)
    scheduler.After(Between(0, 2), [worker = worker.get()] { worker->Start(); });
  clients_.Start();
  world_.network.Watch();
  chaos_end_ = scheduler.now() + scenario_.chaos;
  scheduler.After(kSettles, [this] { ScheduleFault(); });
  scheduler.At(chaos_end_, [this] { Heal(); });
  const Instant end = chaos_end_ + scenario_.calm;
  while (outcome_.violations.empty() && scheduler.Step(end))
    if (world_.database.problem()) Violate(*world_.database.problem());
  CheckEnd();
  // Answers that were begun late have to wait for each other.
  while (outcome_.violations.empty() && clients_.AnyOpen() && scheduler.Step(end + kAnswersEnd)) {
  }
  CheckAnswers();
  outcome_.takes = world_.database.takes();
  outcome_.clients = clients_.counts();
  outcome_.gateways = world_.counts;
  return std::move(outcome_);
}

Duration ClusterRun::Between(double least_s, double most_s) {
  const double us = 1e6 * (least_s + (most_s - least_s) * random_.Uniform());
  return Microseconds(static_cast<int64_t>(us));
}

// ---- checks ----

void ClusterRun::WatchCells(ServerHost& lost, Duration limit, std::vector<Duration>& pauses) {
  for (uint32_t i = 1; i <= scenario_.cells; ++i) {
    const cluster::CellId cell(i);
    if (!lost.Leads(cell) || !AllFollow(cell, lost)) continue;
    watches_.push_back({cell, lost.holder(), world_.scheduler.now(), limit, &pauses});
    world_.scheduler.After(limit, [this, cell, begun = world_.scheduler.now()] {
      for (const Watch& watch : watches_)
        if (watch.cell == cell && watch.begun == begun && !watch.is_over)
          Violate("the workers of cell " + ToString(cell) + " have no leader after " +
                  std::to_string(watch.limit.us / 1000) + " ms");
    });
  }
}

void ClusterRun::CheckWatches() {
  for (Watch& watch : watches_) {
    if (watch.is_over) continue;
    ServerHost* leader = LeaderOf(watch.cell);
    if (leader == nullptr || leader->holder() == watch.lost) continue;
    if (!AllFollow(watch.cell, *leader)) continue;
    watch.is_over = true;
    watch.pauses->push_back(world_.scheduler.now() - watch.begun);
  }
}

bool ClusterRun::AllFollow(cluster::CellId cell, const ServerHost& server) const {
  return std::ranges::all_of(workers_, [&](const auto& worker) {
    return worker->cell() != cell || worker->leader() == server.id();
  });
}

// Gives the leader with the highest incarnation.
ServerHost* ClusterRun::LeaderOf(cluster::CellId cell) {
  ServerHost* leader = nullptr;
  for (const auto& server : servers_) {
    const auto incarnation = server->Leads(cell);
    if (incarnation && (leader == nullptr || *incarnation > *leader->Leads(cell)))
      leader = server.get();
  }
  return leader;
}

void ClusterRun::CheckEnd() {
  if (!outcome_.violations.empty()) return;
  for (uint32_t i = 1; i <= scenario_.cells; ++i) {
    const cluster::CellId cell(i);
    const std::string name = "cell " + ToString(cell);
    const auto leaders = std::ranges::count_if(
        servers_, [cell](const auto& server) { return server->Leads(cell).has_value(); });
    if (leaders != 1) {
      Violate(name + " has " + std::to_string(leaders) + " leaders");
      continue;
    }
    const ServerHost& leader = *LeaderOf(cell);
    const CoreCell* core = leader.CoreOf(cell);
    if (core == nullptr || !core->is_up())
      Violate(name + " is not up" + (core == nullptr ? "" : ": " + core->message()));
    if (!AllFollow(cell, leader)) Violate(name + " has workers that do not follow its leader");
    const cluster::CellRow row = world_.database.row(cell, world_.scheduler.now());
    if (row.holder != leader.holder() || row.incarnation != *leader.Leads(cell))
      Violate(name + " is led by " + leader.Name() + ", but the row names server " +
              ToString(row.holder.server));
  }
  const bool may_drop = scenario_.faults != ClusterFaults::kKill && !NobodyTakes(scenario_.faults);
  for (const auto& worker : workers_)
    if (!may_drop && worker->dropped() > 0) Violate("a worker has dropped its keys and values");
  if (world_.database.takes() > scenario_.most_takes)
    Violate("cells were taken " + std::to_string(world_.database.takes()) + " times, at most " +
            std::to_string(scenario_.most_takes) + " were expected");
}

void ClusterRun::CheckAnswers() {
  if (!outcome_.violations.empty()) return;
  clients_.CheckEnd();
  if (world_.counts.differences > 0) Violate("a token came otherwise than before");
  for (uint32_t i = 1; i <= scenario_.cells; ++i)
    for (const auto& server : servers_) {
      const CoreCell* core = server->CoreOf(cluster::CellId(i));
      if (core != nullptr && core->CountRequests() > 0)
        Violate(server->Name() + " has " + std::to_string(core->CountRequests()) +
                " requests of nobody");
    }
}

void ClusterRun::Violate(const std::string& text) {
  Log("violation: " + text);
  outcome_.violations.push_back(text);
}

void ClusterRun::Log(const std::string& text) {
  for (const char letter : text)
    outcome_.digest = outcome_.digest * 1099511628211ull + static_cast<uint8_t>(letter);
  outcome_.log.push_back(std::to_string(world_.scheduler.now().us / 1000) + " ms: " + text);
  if (outcome_.log.size() > kLogLines) outcome_.log.pop_front();
}

}  // namespace weft::sim
