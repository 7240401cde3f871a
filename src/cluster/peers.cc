#include "cluster/peers.h"

#include <algorithm>

#include "cluster/rendezvous.h"

namespace weft::cluster {
namespace {

const CellState* Find(const Hello& hello, CellId cell) {
  const auto found = std::ranges::find(hello.cells, cell, &CellState::cell);
  return found == hello.cells.end() ? nullptr : &*found;
}

}  // namespace

void Peers::Know(ServerId server) {
  if (server != self_.server) peers_.try_emplace(server);
}

void Peers::OnOpened(ServerId server) {
  Know(server);
  const auto found = peers_.find(server);
  if (found == peers_.end()) return;
  found->second.link = Link::kOpen;
  found->second.refusals = 0;
}

void Peers::OnClosed(ServerId server, Instant now) {
  const auto found = peers_.find(server);
  if (found == peers_.end()) return;
  found->second.link = Link::kClosed;
  found->second.connect_at = now;
}

void Peers::OnRefused(ServerId server, Instant now) {
  const auto found = peers_.find(server);
  if (found == peers_.end() || found->second.link == Link::kOpen) return;
  ++found->second.refusals;
  found->second.link = Link::kClosed;
  found->second.connect_at = now + options_.connect_again;
}

void Peers::OnFailed(ServerId server, Instant now) {
  const auto found = peers_.find(server);
  if (found == peers_.end() || found->second.link == Link::kOpen) return;
  found->second.refusals = 0;
  found->second.link = Link::kClosed;
  found->second.connect_at = now + options_.connect_again;
}

void Peers::OnHello(ServerId server, const Hello& hello, Instant now) {
  const auto found = peers_.find(server);
  if (found == peers_.end()) return;
  found->second.heard_at = now;
  found->second.hello = hello;
}

std::vector<ServerId> Peers::TakeDue(Instant now) {
  std::vector<ServerId> due;
  for (auto& [server, peer] : peers_) {
    if (peer.link == Link::kOpen || peer.connect_at > now) continue;
    peer.link = Link::kConnecting;
    peer.connect_at = now + options_.connect_timeout;
    due.push_back(server);
  }
  return due;
}

std::optional<Instant> Peers::next_timer() const {
  std::optional<Instant> next;
  for (const auto& [server, peer] : peers_)
    if (peer.link != Link::kOpen && (!next || peer.connect_at < *next)) next = peer.connect_at;
  return next;
}

bool Peers::IsFresh(const Peer& peer, Instant now) const {
  return peer.link == Link::kOpen && peer.heard_at.us != INT64_MIN &&
         now - peer.heard_at < options_.hello_lifetime;
}

bool Peers::IsRefused(ServerId server) const {
  const auto found = peers_.find(server);
  return found != peers_.end() && found->second.refusals >= options_.refusals;
}

bool Peers::IsHeard(Holder holder, Instant now) const {
  const auto found = peers_.find(holder.server);
  return found != peers_.end() && found->second.hello.start == holder.start &&
         IsFresh(found->second, now);
}

bool Peers::HasLeft(Holder holder, Instant now) const {
  if (!IsHeard(holder, now)) return false;
  const Hello& hello = peers_.at(holder.server).hello;
  return hello.is_draining && std::ranges::none_of(hello.cells, &CellState::leads);
}

Duration Peers::SilenceOf(Holder holder, Instant now) const {
  const auto found = peers_.find(holder.server);
  const bool was_heard = found != peers_.end() && found->second.hello.start == holder.start &&
                         found->second.heard_at > listening_since_;
  return now - (was_heard ? found->second.heard_at : listening_since_);
}

std::optional<Peers::Leader> Peers::LeaderOf(CellId cell, Instant now) const {
  std::optional<Leader> leader;
  for (const auto& [server, peer] : peers_) {
    const CellState* state = IsFresh(peer, now) ? Find(peer.hello, cell) : nullptr;
    if (state == nullptr || !state->leads) continue;
    if (!leader || state->incarnation > leader->state.incarnation) leader = {server, *state};
  }
  return leader;
}

std::optional<Incarnation> Peers::GivenToSelf(CellId cell, Instant now) const {
  std::optional<Incarnation> given;
  for (const auto& [server, peer] : peers_) {
    const CellState* state = IsFresh(peer, now) ? Find(peer.hello, cell) : nullptr;
    if (state == nullptr || state->leads || state->given_to != self_.server) continue;
    if (!given || state->incarnation > *given) given = state->incarnation;
  }
  return given;
}

std::vector<Holder> Peers::Candidates(CellId cell, bool with_self, bool self_has_package,
                                      Instant now) const {
  std::map<ServerId, StartId> starts;
  std::vector<ServerId> with_package, others;
  const auto add = [&](Holder holder, bool has_package) {
    starts[holder.server] = holder.start;
    (has_package ? with_package : others).push_back(holder.server);
  };
  if (with_self) add(self_, self_has_package);
  for (const auto& [server, peer] : peers_)
    if (IsFresh(peer, now) && !peer.hello.is_draining)
      add({server, peer.hello.start},
          std::ranges::find(peer.hello.packages, cell) != peer.hello.packages.end());
  std::vector<Holder> candidates;
  for (const auto& group : {with_package, others})
    for (const ServerId server : RendezvousOrder(cell, group))
      candidates.push_back({server, starts.at(server)});
  return candidates;
}

}  // namespace weft::cluster
