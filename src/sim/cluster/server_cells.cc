// What a simulated server does with a cell that it leads, and with workers that come.
#include <utility>

#include "sim/cluster/model_leader.h"
#include "sim/cluster/server_host.h"

namespace weft::sim {
namespace {

constexpr Duration kReadsAgain = Milliseconds(500);
constexpr Duration kFinishesSteps = Milliseconds(60);
constexpr Duration kLateTick = Milliseconds(500);

}  // namespace

// ---- the cell behind the lease ----

void ServerHost::Carry(const cluster::Lead& action) {
  Cell& cell = cells_[action.cell];
  cell.leads = true;
  cell.incarnation = action.incarnation;
  cell.led.reset();
  ReadPlacement(action.cell, ++cell.term);
}

void ServerHost::ReadPlacement(cluster::CellId id, uint64_t term) {
  const auto is_wanted = [this, id, term] {
    const Cell& cell = cells_[id];
    return cell.leads && cell.term == term && !cell.led;
  };
  world_.AskDatabase(node_, process_, [this, id, is_wanted]() -> World::Answer {
    const uint64_t position = world_.database.placement(id).position;
    return [this, id, is_wanted, position] {
      if (is_wanted()) BeginLeading(id, position);
    };
  });
  After(kReadsAgain, [this, id, term, is_wanted] {
    if (is_wanted()) ReadPlacement(id, term);
  });
}

void ServerHost::BeginLeading(cluster::CellId id, uint64_t position) {
  Cell& cell = cells_[id];
  world_.log(Name() + " leads cell " + ToString(id) + " (" + ToString(cell.incarnation) + ")");
  cell.led = std::make_unique<ModelLeader>(cell.incarnation, position, HooksFor(id));
  for (const LineId line : LinesOf(id, false)) Place(line);
  Tick(id, cell.term, LocalNow());
}

LeaderHooks ServerHost::HooksFor(cluster::CellId id) {
  LeaderHooks hooks;
  hooks.send_init = [this](LineId line, const InitMessage& init) {
    const Line& to = lines_.at(line);
    WorkerEnd& worker = world_.WorkerAt(to.worker);
    to.channel->Send(node_, [&worker, init] { worker.OnInit(init); });
  };
  hooks.send_step = [this](LineId line, const StepMessage& step) {
    const Line& to = lines_.at(line);
    WorkerEnd& worker = world_.WorkerAt(to.worker);
    to.channel->Send(node_, [&worker, step] { worker.OnStep(step); });
  };
  hooks.close = [this](LineId line) { CloseLine(line); };
  hooks.count = [this, id](uint32_t workers, bool up) {
    Feed(cluster::WorkersCounted{id, workers, up});
  };
  hooks.write = [this, id](cluster::Incarnation incarnation, uint64_t position) {
    WritePlacement(id, incarnation, position);
  };
  hooks.successors = [this, id] { return leases_->successors(id); };
  return hooks;
}

void ServerHost::Tick(cluster::CellId id, uint64_t term, Instant due) {
  Cell& cell = cells_[id];
  if (!cell.led || cell.term != term) return;
  cell.led->OnTick(LocalNow() - due > kLateTick);
  After(kLeaderTick, [this, id, term, next = LocalNow() + kLeaderTick] { Tick(id, term, next); });
}

void ServerHost::WritePlacement(cluster::CellId id, cluster::Incarnation incarnation,
                                uint64_t position) {
  world_.AskDatabase(node_, process_, [=, this, holder = holder_]() -> World::Answer {
    world_.database.Write(id, holder, {incarnation, position});
    return [] {};
  });
}

void ServerHost::Carry(const cluster::Raise& action) {
  Cell& cell = cells_[action.cell];
  world_.log(Name() + " goes on leading cell " + ToString(action.cell) + " (" +
             ToString(action.incarnation) + ")");
  cell.incarnation = action.incarnation;
  if (cell.led) cell.led->Raise(action.incarnation);
}

void ServerHost::Carry(const cluster::StepDown& action) {
  world_.log(Name() + " steps down from cell " + ToString(action.cell) + " for " +
             ToString(action.to));
  Cell& cell = cells_[action.cell];
  cell.leads = false;
  cell.led.reset();
  for (const LineId line : LinesOf(action.cell, true)) {
    if (action.to.is_set()) Send(line, action.to);
    CloseLine(line);
  }
}

void ServerHost::Carry(const cluster::HandOver& action) {
  Cell& cell = cells_[action.cell];
  if (cell.led) cell.led->Hold();
  After(kFinishesSteps, [this, action, term = cell.term] { FinishAndGive(action, term); });
}

void ServerHost::FinishAndGive(const cluster::HandOver& action, uint64_t term) {
  const auto is_answered = std::make_shared<bool>(false);
  const auto answer = [this, action, term, is_answered](bool is_given) {
    if (std::exchange(*is_answered, true)) return;
    Cell& cell = cells_[action.cell];
    if (cell.led && cell.term == term && !is_given) cell.led->Resume();
    Feed(cluster::HandedOver{action.cell, is_given});
  };
  Cell& cell = cells_[action.cell];
  const uint64_t position = cell.led ? cell.led->position() : 0;
  const bool has_led = cell.led != nullptr;
  world_.AskDatabase(node_, process_, [=, this, holder = holder_]() -> World::Answer {
    ModelDatabase& database = world_.database;
    if (has_led) database.Write(action.cell, holder, {action.incarnation, position});
    const bool is_given =
        database.Give(action.cell, action.incarnation, holder, action.to, world_.scheduler.now());
    return [answer, is_given] { answer(is_given); };
  });
  After(world_.scenario.lease.query_timeout, [answer] { answer(false); });
}

// ---- workers ----

ServerHost::Line* ServerHost::LineOf(const Channel* channel, LineId* id) {
  for (auto& [line, each] : lines_) {
    if (each.channel.get() != channel) continue;
    *id = line;
    return &each;
  }
  return nullptr;
}

void ServerHost::OnWorkerHello(const Channel* channel, const WorkerHello& hello) {
  LineId id = 0;
  Line* line = LineOf(channel, &id);
  if (line == nullptr) return;
  line->hello = hello;
  Feed(cluster::WorkerSaw{hello.cell, hello.seen});
  Place(id);
}

void ServerHost::OnWorkerAnswer(const Channel* channel, uint64_t position) {
  LineId id = 0;
  const Line* line = LineOf(channel, &id);
  if (line == nullptr || !line->is_joined) return;
  const Cell& cell = cells_[line->hello->cell];
  if (cell.led) cell.led->OnAnswer(id, position);
}

void ServerHost::Place(LineId id) {
  const auto found = lines_.find(id);
  if (found == lines_.end() || !found->second.hello || found->second.is_joined) return;
  Line& line = found->second;
  const Cell& cell = cells_[line.hello->cell];
  if (cell.leads) {
    if (!cell.led) return;  // its placement is being read
    line.is_joined = true;
    return cell.led->OnWorker(id, line.hello->held_rows);
  }
  if (cell.placed.is_set()) {
    Send(id, cell.placed);
    return CloseLine(id);
  }
  Park(id);
}

void ServerHost::Park(LineId id) {
  const Line& line = lines_.at(id);
  if (!world_.scenario.servers_park) {
    WorkerEnd& worker = world_.WorkerAt(line.worker);
    line.channel->Send(node_, [&worker] { worker.OnRefused(); });
    return;
  }
  After(world_.scenario.lease.parking, [this, id] {
    const auto found = lines_.find(id);
    if (found != lines_.end() && !found->second.is_joined) CloseLine(id);
  });
}

void ServerHost::Send(LineId id, cluster::ServerId to) {
  const Line& line = lines_.at(id);
  WorkerEnd& worker = world_.WorkerAt(line.worker);
  line.channel->Send(node_, [&worker, to] { worker.OnRedirect(to); });
}

void ServerHost::CloseLine(LineId id) {
  const auto found = lines_.find(id);
  if (found == lines_.end()) return;
  const Line line = std::move(found->second);
  lines_.erase(found);
  line.channel->Close(node_);
  if (!line.is_joined) return;
  const Cell& cell = cells_[line.hello->cell];
  if (cell.led) cell.led->OnGone(id);
}

std::vector<LineId> ServerHost::LinesOf(cluster::CellId cell, bool is_joined) const {
  std::vector<LineId> lines;
  for (const auto& [id, line] : lines_)
    if (line.hello && line.hello->cell == cell && line.is_joined == is_joined) lines.push_back(id);
  return lines;
}

}  // namespace weft::sim
