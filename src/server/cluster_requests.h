// ClusterRequests: requests for one cell of a server of a cluster, over the links to the others.
//
//   this server leads      its clients and other servers' requests  -> the core here
//   another one leads      its clients                              -> the link to that one
//
// It tells the cell's ClusteredGenerator who leads, and gives it a LinkedGenerator for each link.
// While this server leads, LinkedRequests answer what comes over the links. All of it is on the
// loop.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "cluster_host/lease_host.h"
#include "cluster_host/peer_links.h"
#include "net/loop.h"
#include "server/clustered_generator.h"
#include "server/constraint_cache.h"
#include "server/generator.h"
#include "server/linked_generator.h"
#include "server/linked_requests.h"
#include "server/request_channel.h"

namespace weft::server {

class ClusterRequests {
 public:
  // What is given by reference outlives this. `generator` is whom the cell's routes ask; `core` is
  // the one here.
  ClusterRequests(net::EventLoop& loop, cluster_host::LeaseHost& leases,
                  cluster_host::PeerLinks& links, cluster::CellId cell,
                  ClusteredGenerator& generator, Generator& core, ConstraintCache::Compile compile);
  ~ClusterRequests();
  ClusterRequests(const ClusterRequests&) = delete;
  ClusterRequests& operator=(const ClusterRequests&) = delete;

  // The core here leads from now on, or goes on with another incarnation.
  void BeginLeading(cluster::Incarnation incarnation);
  // Call it before the core ends its requests: they go on at the next leader.
  void StopLeading();
  // Another server may lead, or none.
  void OnLeaderChanged();

 private:
  class Channel;
  // A link to another server, from when it is up until it is lost.
  struct Peer;

  void OnPeer(cluster::ServerId id, bool is_up);
  void OnMessage(cluster::ServerId id, const wire::pb::RequestMessage& message);
  void TakeEarly();
  wire::pb::RequestMessage NamedFor(cluster::ServerId id, wire::pb::RequestMessage message) const;
  void FollowLeader(cluster::ServerId id, cluster::Incarnation incarnation);
  void LeaveLeader(bool is_heard);
  // A link is full: looks again until it is not.
  void OnFull();

  net::EventLoop& loop_;
  cluster_host::LeaseHost& leases_;
  cluster_host::PeerLinks& links_;
  const cluster::CellId cell_;
  ClusteredGenerator& generator_;
  Generator& core_;
  const ConstraintCache::Compile compile_;
  net::EventLoop::Timer full_timer_;
  bool is_looking_ = false;  // full_timer_ is set

  cluster::LinkId last_link_;
  std::map<cluster::ServerId, std::unique_ptr<Peer>> peers_;
  std::optional<cluster::ServerId> followed_;  // whom the generator asks, of the others
  cluster::LinkId own_link_;                   // not set: this server does not lead
  std::unique_ptr<LinkedRequests> served_;     // of this time of leading, or of the last one
};

}  // namespace weft::server
