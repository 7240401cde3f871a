// ClusterCell: a cell of a cluster at one of its servers. The lease's host says when its core
// begins and ends here; meanwhile workers that come wait, or are sent to the server that leads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster_host/lease_host.h"
#include "cluster_host/led_cell.h"
#include "cluster_host/peer_links.h"
#include "net/loop.h"
#include "server/cell.h"
#include "server/cluster_requests.h"
#include "server/health_routes.h"
#include "server/parked_sockets.h"

namespace weft::server {

class ClusterCell : public cluster_host::LedCell {
 public:
  // All of it outlives this. `id`: of the cell in the database. `on_first_lead` is called once,
  // when the cell is led here first.
  ClusterCell(net::EventLoop& loop, Cell& cell, cluster_host::LeaseHost& leases,
              cluster_host::PeerLinks& links, cluster::CellId id,
              std::function<void()> on_first_lead);

  // From now on the cell may be led here.
  void Begin() { leases_.Add(id_, cell_.name(), *this); }

  void Lead(cluster::Incarnation incarnation, const std::vector<uint8_t>& placement,
            const std::vector<cluster_host::PeerAddress>& successors) override;
  void Change(cluster::Incarnation incarnation,
              const std::vector<cluster_host::PeerAddress>& successors) override;
  void StepDown(const cluster_host::PeerAddress& to) override;
  void PlaceWorkers(const cluster_host::PeerAddress& to) override;

  // Fills in what becomes of workers and probes, of a server of this model alone.
  void AddParts(RouteParts& parts);
  // Takes a worker's socket, of which nothing was read.
  net::WebSocketCallbacks Take(ParkedSockets::Parked worker);
  // Why a request that comes to this server would not be answered by anybody; nullopt: it would be.
  std::optional<NotReady> FindReasonNotReady() const;
  // The picture of the swarm may have changed. Cheap: it is called for every step.
  void OnSwarmChanged();
  // The leader may be another one.
  void OnLeaderChanged();
  // This server stops: requests of other servers go on at the next leader.
  void StopServing() { requests_.StopLeading(); }

 private:
  void CountWorkers();
  net::WebSocketCallbacks Attach(const ParkedSockets::Parked& parked);

  net::EventLoop& loop_;
  Cell& cell_;
  cluster_host::LeaseHost& leases_;
  const cluster::CellId id_;
  std::function<void()> on_first_lead_;
  ClusterRequests requests_;
  const std::shared_ptr<ParkedSockets> parked_;
  net::EventLoop::Timer count_timer_;
  bool counts_ = false;  // count_timer_ is set
};

}  // namespace weft::server
