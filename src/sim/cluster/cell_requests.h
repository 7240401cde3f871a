// Requests for one cell at one simulated server, over its links to the others: what ClusterRequests
// and LinkedRequests (server/) do on an event loop.
//
//   this server leads      its clients and other servers' requests  -> the core here
//   another one leads      its clients                              -> the link to that one
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cluster/ids.h"
#include "sim/cluster/core_cell.h"
#include "sim/cluster/gateway.h"

namespace weft::sim {

class CellRequests {
 public:
  struct Hooks {
    std::function<void(cluster::ServerId, const ToLeader&)> ask;
    std::function<void(cluster::ServerId, const ToGateway&)> tell;
  };
  CellRequests(Gateway gateway, Hooks hooks)
      : gateway_(std::move(gateway)), hooks_(std::move(hooks)) {}

  Gateway& gateway() { return gateway_; }

  // ---- links ----
  void OnLink(cluster::ServerId peer);
  void OnLinkLost(cluster::ServerId peer);
  void OnAsked(cluster::ServerId peer, const ToLeader& asked, bool has_lease);
  void OnTold(const ToGateway& told) { gateway_.OnTold(told); }

  // ---- who leads ----
  // The core here leads from now on, or goes on with another incarnation.
  void BeginLeading(cluster::Incarnation incarnation, CoreCell& core);
  // Call it before the core ends.
  void StopLeading();
  struct Leader {
    cluster::ServerId server;
    cluster::Incarnation incarnation;
  };
  // Another server may lead, or none.
  void OnLeaderChanged(const std::optional<Leader>& leader, bool has_lease);

 private:
  struct Peer {
    cluster::LinkId link;
    std::vector<ToLeader> early;  // before the core here has begun
  };
  // A request of a peer, or of this server where `peer` is not set.
  struct Served {
    cluster::ServerId peer;
    uint64_t number = 0;
    auto operator<=>(const Served&) const = default;
  };

  void Serve(cluster::ServerId peer, const ToLeader& asked);
  void Begin(Served served, swarm::Request request);
  void Tell(const Served& served, ToGateway told);
  void Detach(cluster::ServerId peer);
  void LeaveLeader(bool is_heard);

  Gateway gateway_;
  const Hooks hooks_;
  cluster::LinkId last_link_, own_link_;  // own_link_ not set: this server does not lead
  std::map<cluster::ServerId, Peer> peers_;
  std::optional<cluster::ServerId> followed_;
  CoreCell* core_ = nullptr;
  std::map<Served, swarm::RequestId> served_;
};

}  // namespace weft::sim
