#include "sim/cluster/cell_requests.h"

#include <utility>

namespace weft::sim {

using cluster::ServerId;

// ---- links ----

void CellRequests::OnLink(ServerId peer) {
  OnLinkLost(peer);
  last_link_ = last_link_.Next();
  peers_[peer].link = last_link_;
}

// What was on its way over a link that another one takes the place of may be lost.
void CellRequests::OnLinkLost(ServerId peer) {
  const auto found = peers_.find(peer);
  if (found == peers_.end()) return;
  if (followed_ == peer) LeaveLeader(/*is_heard=*/false);
  Detach(peer);
  gateway_.ForgetLink(found->second.link);
  peers_.erase(found);
}

void CellRequests::OnAsked(ServerId peer, const ToLeader& asked, bool has_lease) {
  const auto found = peers_.find(peer);
  if (found == peers_.end()) return;
  if (core_ != nullptr) return Serve(peer, asked);
  // Else this server leads no more, as its next hello says: the request goes on elsewhere.
  if (has_lease) found->second.early.push_back(asked);
}

// ---- who leads ----

void CellRequests::BeginLeading(cluster::Incarnation incarnation, CoreCell& core) {
  LeaveLeader(/*is_heard=*/true);
  if (!own_link_.is_set()) {
    own_link_ = last_link_ = last_link_.Next();
    core_ = &core;
    served_.clear();
    for (auto& [id, peer] : peers_)
      for (const ToLeader& asked : std::exchange(peer.early, {})) Serve(id, asked);
  }
  gateway_.FindLeader(own_link_, incarnation, [this](const ToLeader& asked) { Serve({}, asked); });
}

void CellRequests::StopLeading() {
  if (!own_link_.is_set()) return;
  core_ = nullptr;
  const cluster::LinkId own = std::exchange(own_link_, {});
  for (const auto& [served, id] : std::exchange(served_, {}))
    if (served.peer.is_set()) Tell(served, {served.number, LeadsNoMore{}});
  gateway_.LoseLeader(own);
  gateway_.ForgetLink(own);
}

void CellRequests::OnLeaderChanged(const std::optional<Leader>& leader, bool has_lease) {
  if (own_link_.is_set()) return;
  if (!has_lease)
    for (auto& [id, peer] : peers_) peer.early.clear();
  if (!leader || !peers_.contains(leader->server)) return LeaveLeader(/*is_heard=*/true);
  if (followed_ != leader->server) LeaveLeader(/*is_heard=*/true);
  followed_ = leader->server;
  gateway_.FindLeader(
      peers_.at(leader->server).link, leader->incarnation,
      [this, to = leader->server](const ToLeader& asked) { hooks_.ask(to, asked); });
}

// Whoever is heard may take itself for the leader yet, and would compute on for nobody.
void CellRequests::LeaveLeader(bool is_heard) {
  if (const auto left = std::exchange(followed_, std::nullopt))
    gateway_.LoseLeader(peers_.at(*left).link, is_heard);
}

// ---- while this server leads ----

void CellRequests::Serve(ServerId peer, const ToLeader& asked) {
  if (core_ == nullptr) return;
  if (const auto* submit = std::get_if<SubmitAsked>(&asked))
    return Begin({peer, submit->number}, submit->request);
  const auto found = served_.find({peer, std::get<CancelAsked>(asked).number});
  if (found != served_.end() && found->second.is_set()) core_->Cancel(found->second);
}

void CellRequests::Begin(Served served, swarm::Request request) {
  served_[served] = {};
  AnswerHooks hooks;
  hooks.token = [this, served](const swarm::EmitToken& token) {
    Tell(served, {served.number, token});
  };
  hooks.session = [this, served](const swarm::SessionTrace& trace) {
    Tell(served, {served.number, trace});
  };
  hooks.end = [this, served](const swarm::FinishRequest& end) {
    Tell(served, {served.number, end});
    served_.erase(served);
  };
  const swarm::RequestId id = core_->Submit(std::move(request), std::move(hooks));
  const auto found = served_.find(served);
  if (found == served_.end()) return;  // it has ended already
  found->second = id;
  Tell(served, {served.number, Accepted{}});
}

void CellRequests::Tell(const Served& served, ToGateway told) {
  if (!served_.contains(served) && !std::holds_alternative<LeadsNoMore>(told.event)) return;
  if (served.peer.is_set()) return hooks_.tell(served.peer, told);
  gateway_.OnTold(told);
}

void CellRequests::Detach(ServerId peer) {
  std::vector<swarm::RequestId> left;
  std::erase_if(served_, [&](const auto& each) {
    if (each.first.peer != peer) return false;
    left.push_back(each.second);
    return true;
  });
  for (const swarm::RequestId id : left)
    if (core_ != nullptr && id.is_set()) core_->Cancel(id);
}

}  // namespace weft::sim
