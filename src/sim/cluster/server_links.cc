// The links of a simulated server to its peers, one for each pair: the newest.
#include <utility>

#include "sim/cluster/server_host.h"

namespace weft::sim {

void ServerHost::Carry(const cluster::Connect& action) {
  world_.network.Connect(
      {node_, process_, {}}, world_.NodeOf(action.peer),
      [this, peer = action.peer](Network::Outcome outcome, std::shared_ptr<Channel> channel) {
        if (outcome == Network::Outcome::kRefused) return Feed(cluster::ConnectRefused{peer});
        if (outcome == Network::Outcome::kNoAnswer) return Feed(cluster::ConnectFailed{peer});
        OnLink(peer, std::move(channel));
      });
}

void ServerHost::Accept(std::shared_ptr<Channel> channel, Node from) {
  if (from < kFirstWorker) return OnLink(world_.IdOf(from), std::move(channel));
  const LineId line = world_.next_line++;
  channel->SetClosed(node_, [this, line] { CloseLine(line); });
  lines_[line] = {std::move(channel), from, std::nullopt, false};
}

void ServerHost::OnLink(cluster::ServerId peer, std::shared_ptr<Channel> channel) {
  if (const auto old = links_.find(peer); old != links_.end()) old->second.channel->Close(node_);
  channel->SetClosed(node_, [this, peer, closed = channel.get()] { OnLinkClosed(peer, closed); });
  links_[peer] = {std::move(channel), {}};
  for (auto& [id, cell] : cells_) cell.requests->OnLink(peer);
  Feed(cluster::LinkOpened{peer});
}

void ServerHost::OnLinkClosed(cluster::ServerId peer, const Channel* channel) {
  const auto found = links_.find(peer);
  if (found == links_.end() || found->second.channel.get() != channel) return;
  links_.erase(found);
  for (auto& [id, cell] : cells_) cell.requests->OnLinkLost(peer);
  Feed(cluster::LinkClosed{peer});
}

void ServerHost::OnPeerHello(cluster::ServerId peer, const cluster::Hello& hello) {
  const auto found = links_.find(peer);
  if (found != links_.end()) {
    found->second.heard.clear();
    for (const cluster::CellState& state : hello.cells) found->second.heard[state.cell] = state;
  }
  Feed(cluster::HelloCame{peer, hello});
}

// ---- requests ----

void ServerHost::OnPeerAsks(cluster::ServerId peer, cluster::CellId id, const ToLeader& asked) {
  Cell& cell = cells_[id];
  cell.requests->OnAsked(peer, asked, cell.leads);
}

void ServerHost::OnPeerTells(cluster::ServerId peer, cluster::CellId id, const ToGateway& told) {
  if (links_.contains(peer)) cells_[id].requests->OnTold(told);
}

CellRequests::Hooks ServerHost::RequestHooks(cluster::CellId id) {
  CellRequests::Hooks hooks;
  hooks.ask = [this, id](cluster::ServerId peer, const ToLeader& asked) {
    const auto link = links_.find(peer);
    if (link == links_.end()) return;
    ServerEnd& to = world_.ServerAt(world_.NodeOf(peer));
    link->second.channel->Send(
        node_, [&to, from = this->id(), id, asked] { to.OnPeerAsks(from, id, asked); });
  };
  hooks.tell = [this, id](cluster::ServerId peer, const ToGateway& told) {
    const auto link = links_.find(peer);
    if (link == links_.end()) return;
    ServerEnd& to = world_.ServerAt(world_.NodeOf(peer));
    link->second.channel->Send(
        node_, [&to, from = this->id(), id, told] { to.OnPeerTells(from, id, told); });
  };
  return hooks;
}

// As LeaseHost::FindLeader has it.
std::optional<CellRequests::Leader> ServerHost::FindLeader(cluster::CellId id) const {
  std::optional<CellRequests::Leader> best;
  for (const auto& [peer, link] : links_) {
    const auto state = link.heard.find(id);
    if (state == link.heard.end() || !state->second.leads) continue;
    if (!best || state->second.incarnation > best->incarnation)
      best = CellRequests::Leader{peer, state->second.incarnation};
  }
  const Cell& own = cells_.at(id);
  if (own.leads && (!best || own.incarnation > best->incarnation))
    return CellRequests::Leader{holder_.server, own.incarnation};
  return best;
}

void ServerHost::Settle() {
  for (auto& [id, cell] : cells_) {
    if (cell.core) {
      std::vector<cluster::ServerId> successors = leases_->successors(id);
      if (successors != cell.told_successors) {
        cell.told_successors = std::move(successors);
        TellLeadership(id);
      }
    }
    cell.requests->OnLeaderChanged(FindLeader(id), cell.leads);
  }
}

}  // namespace weft::sim
