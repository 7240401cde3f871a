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
  if (const auto old = links_.find(peer); old != links_.end()) old->second->Close(node_);
  channel->SetClosed(node_, [this, peer, closed = channel.get()] { OnLinkClosed(peer, closed); });
  links_[peer] = std::move(channel);
  Feed(cluster::LinkOpened{peer});
}

void ServerHost::OnLinkClosed(cluster::ServerId peer, const Channel* channel) {
  const auto found = links_.find(peer);
  if (found == links_.end() || found->second.get() != channel) return;
  links_.erase(found);
  Feed(cluster::LinkClosed{peer});
}

}  // namespace weft::sim
