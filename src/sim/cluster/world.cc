#include "sim/cluster/world.h"

#include <utility>

namespace weft::sim {
namespace {

// A question that reached a stopped database is answered when that goes on, up to this age.
constexpr Duration kWaitsAtDatabase = Seconds(6);
constexpr Duration kLooksAgain = Milliseconds(200);

}  // namespace

World::World(uint64_t seed, const ClusterScenario& a_scenario)
    : scenario(a_scenario),
      random(seed * 0x9e3779b97f4a7c15ull + 7),
      network(scheduler, seed ^ 0x1e7307ull),
      database(scenario.database, scenario.lease.time_to_live) {
  for (uint32_t cell = 1; cell <= scenario.cells; ++cell)
    models.push_back(std::make_unique<CellModel>(seed, cluster::CellId(cell)));
}

Duration World::OneWay() {
  const double us = static_cast<double>(health.latency.us) * (0.25 + 0.75 * random.Uniform());
  return Microseconds(static_cast<int64_t>(us));
}

void World::AskDatabase(Node from, std::shared_ptr<Process> process,
                        std::function<Answer()> statement) {
  if (!network.Passes(from, kDatabaseNode)) return;
  const Instant until = scheduler.now() + kWaitsAtDatabase;
  scheduler.After(OneWay(), [=, this, process = std::move(process),
                             statement = std::move(statement)]() mutable {
    const bool is_kept = random.Below(3) == 0;
    RunStatement(from, std::move(process), std::move(statement), is_kept ? until : scheduler.now());
  });
}

void World::RunStatement(Node from, std::shared_ptr<Process> process,
                         std::function<Answer()> statement, Instant until) {
  if (health.is_away) {
    if (scheduler.now() >= until) return;
    scheduler.After(kLooksAgain, [=, this] { RunStatement(from, process, statement, until); });
    return;
  }
  const Answer answer = statement();
  scheduler.After(OneWay(), [this, from, process, answer] {
    if (network.Passes(kDatabaseNode, from)) process->Do(answer);
  });
}

}  // namespace weft::sim
