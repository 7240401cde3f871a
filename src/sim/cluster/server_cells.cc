// What a simulated server does with a cell that it leads, and with workers that come.
#include <utility>

#include "sim/cluster/server_host.h"

namespace weft::sim {
namespace {

constexpr Duration kReadsAgain = Milliseconds(500);
constexpr Duration kPlacementInterval = Seconds(1);  // as cluster_host/lease_host.h has it

}  // namespace

// ---- the cell behind the lease ----

void ServerHost::Carry(const cluster::Lead& action) {
  Cell& cell = cells_[action.cell];
  cell.leads = true;
  cell.incarnation = action.incarnation;
  cell.core.reset();
  cell.unwritten.reset();
  cell.is_writing = false;
  ReadPlacement(action.cell, ++cell.term);
}

void ServerHost::ReadPlacement(cluster::CellId id, uint64_t term) {
  const auto is_wanted = [this, id, term] {
    const Cell& cell = cells_[id];
    return cell.leads && cell.term == term && !cell.core;
  };
  world_.AskDatabase(node_, process_, [this, id, is_wanted]() -> World::Answer {
    return [this, id, is_wanted, placement = world_.database.placement(id)] {
      if (is_wanted()) BeginLeading(id, placement);
    };
  });
  After(kReadsAgain, [this, id, term, is_wanted] {
    if (is_wanted()) ReadPlacement(id, term);
  });
}

swarm::CoreOptions ServerHost::OptionsOf(cluster::CellId id,
                                         const ModelDatabase::Placement& placement) {
  const Cell& cell = cells_[id];
  swarm::CoreOptions options = world_.ModelOf(id).options;
  options.incarnation = cell.incarnation.value();
  for (const cluster::ServerId server : cell.told_successors)
    options.successors.push_back(SuccessorOf(server));
  if (placement) options.restored = *placement;
  // The core handles an event meanwhile.
  options.tell_seen = [this, id](uint64_t seen) {
    After({}, [this, id, seen] { Feed(cluster::WorkerSaw{id, cluster::Incarnation(seen)}); });
  };
  return options;
}

void ServerHost::BeginLeading(cluster::CellId id, const ModelDatabase::Placement& placement) {
  Cell& cell = cells_[id];
  world_.log(Name() + " leads cell " + ToString(id) + " (" + ToString(cell.incarnation) + ")");
  cell.told_successors = leases_->successors(id);
  cell.core = std::make_unique<CoreCell>(OptionsOf(id, placement), HooksFor(id));
  for (const LineId line : LinesOf(id, false)) Place(line);
  cell.requests->BeginLeading(cell.incarnation, *cell.core);
}

CoreHooks ServerHost::HooksFor(cluster::CellId id) {
  CoreHooks hooks;
  hooks.send_control = [this](LineId line, const wire::pb::ServerMessage& message) {
    const auto to = lines_.find(line);
    if (to == lines_.end()) return;
    WorkerEnd& worker = world_.WorkerAt(to->second.worker);
    to->second.channel->Send(node_, [&worker, message] { worker.OnControl(message); });
  };
  hooks.send_frame = [this](LineId line, const Slice& frame) {
    const auto to = lines_.find(line);
    if (to == lines_.end()) return;
    WorkerEnd& worker = world_.WorkerAt(to->second.worker);
    to->second.channel->Send(node_, [&worker, frame] { worker.OnFrame(frame); });
  };
  hooks.close = [this](LineId line) {
    const auto found = lines_.find(line);
    if (found == lines_.end()) return;
    found->second.channel->Close(node_);
    lines_.erase(found);
  };
  hooks.count = [this, id](uint32_t workers, bool up) {
    Feed(cluster::WorkersCounted{id, workers, up});
  };
  hooks.note_placement = [this, id](swarm::Placement placement) {
    NotePlacement(id, std::move(placement));
  };
  hooks.now = [this] { return LocalNow(); };
  hooks.after = [this](Duration delay, std::function<void()> what) {
    After(delay, std::move(what));
  };
  hooks.log = world_.log;
  hooks.violate = [this](const std::string& text) { world_.violate(Name() + ": " + text); };
  return hooks;
}

void ServerHost::TellLeadership(cluster::CellId id) {
  Cell& cell = cells_[id];
  std::vector<swarm::Successor> successors;
  for (const cluster::ServerId server : cell.told_successors)
    successors.push_back(SuccessorOf(server));
  cell.core->Change(cell.incarnation, std::move(successors));
  cell.requests->BeginLeading(cell.incarnation, *cell.core);
}

// Of several that come within the interval the last is written.
void ServerHost::NotePlacement(cluster::CellId id, swarm::Placement placement) {
  Cell& cell = cells_[id];
  cell.unwritten = std::make_shared<const swarm::Placement>(std::move(placement));
  if (cell.is_writing) return;
  cell.is_writing = true;
  After(kPlacementInterval, [this, id, term = cell.term] { WritePlacement(id, term); });
}

// It is written again until the database has said so.
void ServerHost::WritePlacement(cluster::CellId id, uint64_t term) {
  const auto is_wanted = [this, id, term] {
    const Cell& cell = cells_[id];
    return cell.core && cell.term == term && cell.unwritten;
  };
  Cell& cell = cells_[id];
  if (cell.term != term) return;
  cell.is_writing = is_wanted();
  if (!cell.is_writing) return;
  world_.AskDatabase(node_, process_,
                     [=, this, holder = holder_, incarnation = cell.incarnation,
                      placement = cell.unwritten]() -> World::Answer {
                       world_.database.Write(id, incarnation, holder, placement);
                       return [this, id, placement, is_wanted] {
                         Cell& written = cells_[id];
                         if (is_wanted() && written.unwritten == placement)
                           written.unwritten.reset();
                       };
                     });
  After(kPlacementInterval, [this, id, term] { WritePlacement(id, term); });
}

void ServerHost::Carry(const cluster::Raise& action) {
  Cell& cell = cells_[action.cell];
  world_.log(Name() + " goes on leading cell " + ToString(action.cell) + " (" +
             ToString(action.incarnation) + ")");
  cell.incarnation = action.incarnation;
  if (cell.core) TellLeadership(action.cell);
}

void ServerHost::Carry(const cluster::StepDown& action) {
  world_.log(Name() + " steps down from cell " + ToString(action.cell) + " for " +
             ToString(action.to));
  Cell& cell = cells_[action.cell];
  cell.leads = false;
  ++cell.term;
  cell.requests->StopLeading();
  cell.core.reset();
  for (const LineId line : LinesOf(action.cell, true)) {
    if (action.to.is_set()) Send(line, action.to);
    CloseLine(line);
  }
}

// Answers that are under way go on at the other server.
void ServerHost::Carry(const cluster::HandOver& action) {
  const auto is_answered = std::make_shared<bool>(false);
  const auto answer = [this, action, is_answered](bool is_given) {
    if (std::exchange(*is_answered, true)) return;
    Feed(cluster::HandedOver{action.cell, is_given});
  };
  world_.AskDatabase(
      node_, process_,
      [=, this, holder = holder_, placement = cells_[action.cell].unwritten]() -> World::Answer {
        ModelDatabase& database = world_.database;
        if (placement) database.Write(action.cell, action.incarnation, holder, placement);
        const bool is_given = database.Give(action.cell, action.incarnation, holder, action.to,
                                            world_.scheduler.now());
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
  Place(id);
}

void ServerHost::OnWorkerMessage(const Channel* channel, const FromWorker& message) {
  LineId id = 0;
  const Line* line = LineOf(channel, &id);
  if (line == nullptr || !line->is_joined) return;
  const Cell& cell = cells_[line->hello->cell];
  if (cell.core) cell.core->OnMessage(id, message);
}

void ServerHost::Place(LineId id) {
  const auto found = lines_.find(id);
  if (found == lines_.end() || !found->second.hello || found->second.is_joined) return;
  Line& line = found->second;
  const Cell& cell = cells_[line.hello->cell];
  if (cell.leads) {
    if (!cell.core) return;  // its placement is being read
    line.is_joined = true;
    return cell.core->OnWorker(id);
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
    wire::pb::ServerMessage message;
    message.mutable_refused()->set_code(std::string(ErrorCodeName(ErrorCode::kPermissionDenied)));
    line.channel->Send(node_, [&worker, message] { worker.OnControl(message); });
    return CloseLine(id);
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
  if (cell.core) cell.core->OnGone(id);
}

std::vector<LineId> ServerHost::LinesOf(cluster::CellId cell, bool is_joined) const {
  std::vector<LineId> lines;
  for (const auto& [id, line] : lines_)
    if (line.hello && line.hello->cell == cell && line.is_joined == is_joined) lines.push_back(id);
  return lines;
}

}  // namespace weft::sim
