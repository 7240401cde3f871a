#include "server/cluster_requests.h"

#include <utility>
#include <vector>

namespace weft::server {
namespace {

using cluster::ServerId;

// So much may wait for a server that takes it slowly, beside what the core has for others.
constexpr size_t kFullBytes = size_t{4} << 20;
// Of one server, in the milliseconds that a core takes to begin.
constexpr size_t kMostEarly = 4096;
constexpr Duration kFullLook = Milliseconds(20);

}  // namespace

class ClusterRequests::Channel : public RequestChannel {
 public:
  Channel(ClusterRequests& owner, ServerId peer) : owner_(owner), peer_(peer) {}

  void Send(wire::pb::RequestMessage message) override {
    message.set_cell(owner_.cell_.value());
    wire::pb::LinkMessage out;
    *out.mutable_request() = std::move(message);
    owner_.links_.Send(peer_, out);
  }
  bool is_full() const override {
    const bool is_full = owner_.links_.QueuedBytes(peer_) >= kFullBytes;
    if (is_full) owner_.OnFull();
    return is_full;
  }

 private:
  ClusterRequests& owner_;
  const ServerId peer_;
};

struct ClusterRequests::Peer {
  Peer(ClusterRequests& owner, ServerId id, cluster::LinkId number)
      : link(number), channel(owner, id), generator(channel) {}

  const cluster::LinkId link;
  Channel channel;
  LinkedGenerator generator;  // its core, while it leads
  PeerId served;              // of served_; not set: it has no requests here
  // What came after others had heard that this server leads, and before its core had begun.
  std::vector<wire::pb::RequestMessage> early;
};

ClusterRequests::ClusterRequests(net::EventLoop& loop, cluster_host::LeaseHost& leases,
                                 cluster_host::PeerLinks& links, cluster::CellId cell,
                                 ClusteredGenerator& generator, Generator& core,
                                 ConstraintCache::Compile compile)
    : loop_(loop),
      leases_(leases),
      links_(links),
      cell_(cell),
      generator_(generator),
      core_(core),
      compile_(std::move(compile)),
      full_timer_(loop) {
  links_.OnPeer([this](ServerId id, bool is_up) { OnPeer(id, is_up); });
  links_.OnMessage(wire::pb::LinkMessage::kRequest,
                   [this](ServerId id, cluster::StartId, const wire::pb::LinkMessage& message) {
                     OnMessage(id, message.request());
                   });
}

ClusterRequests::~ClusterRequests() = default;

void ClusterRequests::BeginLeading(cluster::Incarnation incarnation) {
  LeaveLeader(/*is_heard=*/true);
  if (!own_link_.is_set()) {
    own_link_ = last_link_ = last_link_.Next();
    served_ = std::make_unique<LinkedRequests>(loop_, core_, compile_);
    for (auto& [id, peer] : peers_) peer->served = served_->Attach(peer->channel);
    TakeEarly();
  }
  generator_.FindLeader(own_link_, incarnation, core_, ClusteredGenerator::Place::kHere);
}

void ClusterRequests::TakeEarly() {
  std::vector<ServerId> ids;
  for (const auto& [id, peer] : peers_) ids.push_back(id);
  for (const ServerId id : ids)
    for (const auto& message : std::exchange(peers_.at(id)->early, {})) OnMessage(id, message);
}

void ClusterRequests::StopLeading() {
  if (!own_link_.is_set()) return;
  served_->StopLeading();
  for (auto& [id, peer] : peers_) served_->Detach(std::exchange(peer->served, {}));
  generator_.LoseLeader(std::exchange(own_link_, {}));
}

void ClusterRequests::OnLeaderChanged() {
  if (own_link_.is_set()) return;
  if (!leases_.leads(cell_))
    for (auto& [id, peer] : peers_) peer->early.clear();
  const auto leader = leases_.FindLeader(cell_);
  if (!leader || !peers_.contains(leader->server)) return LeaveLeader(/*is_heard=*/true);
  FollowLeader(leader->server, leader->incarnation);
}

void ClusterRequests::FollowLeader(ServerId id, cluster::Incarnation incarnation) {
  if (followed_ != id) LeaveLeader(/*is_heard=*/true);
  followed_ = id;
  Peer& peer = *peers_.at(id);
  generator_.FindLeader(peer.link, incarnation, peer.generator,
                        ClusteredGenerator::Place::kElsewhere);
}

// Whoever is heard may take itself for the leader yet, and would compute on for nobody.
void ClusterRequests::LeaveLeader(bool is_heard) {
  if (const auto left = std::exchange(followed_, std::nullopt))
    generator_.LoseLeader(peers_.at(*left)->link, is_heard);
}

void ClusterRequests::OnPeer(ServerId id, bool is_up) {
  // What was on its way over a link that another one takes the place of may be lost.
  if (const auto found = peers_.find(id); found != peers_.end()) {
    if (followed_ == id) LeaveLeader(/*is_heard=*/false);
    if (found->second->served.is_set()) served_->Detach(found->second->served);
    peers_.erase(found);
  }
  if (!is_up) return;
  last_link_ = last_link_.Next();
  auto& peer = peers_[id] = std::make_unique<Peer>(*this, id, last_link_);
  if (own_link_.is_set()) peer->served = served_->Attach(peer->channel);
  OnLeaderChanged();
}

void ClusterRequests::OnMessage(ServerId id, const wire::pb::RequestMessage& message) {
  const auto found = peers_.find(id);
  if (found == peers_.end() || message.cell() != cell_.value()) return;
  Peer& peer = *found->second;
  using Kind = wire::pb::RequestMessage;
  const bool is_of_leader =
      message.kind_case() == Kind::kEvents || message.kind_case() == Kind::kReadiness;
  Status status = OkStatus();
  if (is_of_leader)
    status = peer.generator.OnMessage(message);
  else if (peer.served.is_set())
    status = served_->OnMessage(peer.served, NamedFor(id, message));
  else if (leases_.leads(cell_) && peer.early.size() < kMostEarly)
    peer.early.push_back(message);
  // Else this server leads no more, as its next hello says: the request goes on elsewhere.
  if (!status.ok()) links_.Close(id, status.error().message());
}

// Numbers of keys and addresses are of each server's own: its clients are others than ours.
wire::pb::RequestMessage ClusterRequests::NamedFor(ServerId id,
                                                   wire::pb::RequestMessage message) const {
  if (!message.has_submit() || message.submit().client().empty()) return message;
  std::string& client = *message.mutable_submit()->mutable_client();
  client = leases_.NameOf(id) + " " + client;
  return message;
}

void ClusterRequests::OnFull() {
  if (std::exchange(is_looking_, true)) return;
  full_timer_.FireAfter(kFullLook, [this] {
    is_looking_ = false;
    for (const auto& [id, peer] : peers_)
      if (peer->served.is_set()) served_->OnDrained(peer->served);
  });
}

}  // namespace weft::server
