// The core of a cell, on the simulated server that leads it. It does what SwarmHost
// (server/swarm_host.h) does on an event loop: one event after another, actions in order, and a
// timer on the server's own clock.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/ids.h"
#include "sim/cluster/line_ends.h"
#include "swarm/core/core.h"

namespace weft::sim {

// What a core may do to its server. All of them outlive it.
struct CoreHooks {
  std::function<void(LineId, const wire::pb::ServerMessage&)> send_control;
  std::function<void(LineId, const Slice&)> send_frame;
  std::function<void(LineId)> close;
  std::function<void(uint32_t workers, bool up)> count;
  std::function<void(swarm::Placement)> note_placement;
  std::function<Instant()> now;  // by the server's clock
  // Does it after a time of the server's clock, unless its process ends before.
  std::function<void(Duration, std::function<void()>)> after;
  std::function<void(const std::string&)> log, violate;
};

struct AnswerHooks {
  std::function<void(const swarm::EmitToken&)> token;
  std::function<void(const swarm::SessionTrace&)> session;
  std::function<void(const swarm::FinishRequest&)> end;  // once, last
};

class CoreCell {
 public:
  CoreCell(swarm::CoreOptions options, CoreHooks hooks);
  CoreCell(const CoreCell&) = delete;
  CoreCell& operator=(const CoreCell&) = delete;

  // The lease was taken again, or others may lead after this server.
  void Change(cluster::Incarnation incarnation, std::vector<swarm::Successor> successors);
  void OnWorker(LineId line);
  void OnMessage(LineId line, const FromWorker& message);
  void OnGone(LineId line);

  // Its hooks may be called before this returns.
  swarm::RequestId Submit(swarm::Request request, AnswerHooks hooks);
  void Cancel(swarm::RequestId request) { Feed(swarm::RequestCancelled{request}); }

  bool is_up() const { return core_.is_up(); }
  // Requests that have not ended, as the core counts them.
  uint64_t CountRequests() const;
  std::string message() const { return core_.snapshot(hooks_.now()).message; }

 private:
  void Feed(swarm::Event event);
  void Carry(const swarm::SendControl& action);
  void Carry(const swarm::SendData& action);
  void Carry(const swarm::CloseWorker& action) { hooks_.close(action.worker.value()); }
  void Carry(const swarm::SetMessageLimit&) {}
  void Carry(const swarm::EmitSession& action);
  void Carry(const swarm::EmitToken& action);
  void Carry(const swarm::EmitLogits&) { hooks_.violate("logits that nobody wants"); }
  void Carry(const swarm::FinishRequest& action);
  void Carry(const swarm::StartPlanning& action);
  void Carry(const swarm::CheckLayers& action);
  void Carry(const swarm::Warn& action) { hooks_.violate(action.sentence); }
  void Carry(const swarm::SwarmChanged&) { CountLater(); }
  void CountLater();
  void ArmTimer();
  // Does it later, unless this has ended before.
  void Later(Duration delay, std::function<void()> what);

  const CoreHooks hooks_;
  swarm::Core core_;
  std::deque<swarm::Event> waiting_;
  bool is_handling_ = false, counts_ = false;
  std::optional<Instant> armed_;
  uint64_t placement_version_ = 0;
  swarm::RequestId last_request_;
  std::map<swarm::RequestId, AnswerHooks> answers_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace weft::sim
