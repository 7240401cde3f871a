#include "sim/cluster/network.h"

#include <algorithm>

namespace weft::sim {
namespace {

constexpr Duration kGivenUpAfter = Seconds(8);  // of a connection, while its line is cut
constexpr Duration kWatchInterval = Seconds(1);
constexpr Duration kConnectTimeout = Seconds(2);

std::pair<Node, Node> PairOf(Node a, Node b) {
  return {std::min(a, b), std::max(a, b)};
}

}  // namespace

Channel::Channel(Network& network, End first, End second, Duration latency)
    : network_(network),
      sides_{{std::move(first), true, {}}, {std::move(second), true, {}}},
      latency_(latency) {}

void Channel::Send(Node from, std::function<void()> what) {
  if (!SideOf(from).is_open) return;
  Side& to = Other(from);
  const Instant at = network_.scheduler().now() + latency_;
  to.arriving.emplace_back(at, std::move(what));
  network_.scheduler().At(at,
                          [self = shared_from_this(), node = to.end.node] { self->Pump(node); });
}

void Channel::Pump(Node to) {
  Side& side = SideOf(to);
  const Node from = Other(to).end.node;
  const Instant now = network_.scheduler().now();
  while (side.is_open && !side.arriving.empty() && side.arriving.front().first <= now) {
    if (!network_.Passes(from, to)) {
      network_.scheduler().At(network_.PassesAt(from, to) + latency_,
                              [self = shared_from_this(), to] { self->Pump(to); });
      return;
    }
    const auto what = std::move(side.arriving.front().second);
    side.arriving.pop_front();
    // What comes while the process is stopped is there when it goes on, if it has not closed.
    side.end.process->Do([self = shared_from_this(), to, what] {
      if (self->SideOf(to).is_open) what();
    });
  }
}

void Channel::Close(Node from) {
  Side& side = SideOf(from);
  if (!side.is_open) return;
  // The last message says that no other comes.
  Send(from, [self = shared_from_this(), node = Other(from).end.node] {
    self->Over(self->SideOf(node));
  });
  side.is_open = false;
  side.arriving.clear();
}

void Channel::Over(Side& side) {
  if (!std::exchange(side.is_open, false)) return;
  side.arriving.clear();
  const auto closed = std::exchange(side.end.closed, {});
  side.end.process->Do([closed] {
    if (closed) closed();
  });
}

void Channel::Check() {
  const Node a = sides_[0].end.node, b = sides_[1].end.node;
  const bool passes = network_.Passes(a, b) && network_.Passes(b, a);
  for (Side& side : sides_)
    if (passes && !Other(side.end.node).end.process->is_alive()) Over(side);
  const Instant now = network_.scheduler().now();
  if (passes)
    dark_since_.reset();
  else if (!dark_since_)
    dark_since_ = now;
  if (dark_since_ && now - *dark_since_ > kGivenUpAfter)
    for (Side& side : sides_) Over(side);
}

void Channel::Reset(Node a, Node b) {
  const Node first = sides_[0].end.node, second = sides_[1].end.node;
  if (PairOf(first, second) != PairOf(a, b)) return;
  for (Side& side : sides_) Over(side);
}

void Channel::NoteDeath(const Process& process) {
  for (Side& side : sides_) {
    if (side.end.process.get() != &process || !side.is_open) continue;
    if (network_.is_on(side.end.node)) Close(side.end.node);
    side.is_open = false;
  }
}

void Network::Cut(Node from, Node to, Instant until) {
  Instant& end = cut_until_[{from, to}];
  end = std::max(end, until);
}

void Network::CutBoth(Node a, Node b, Instant until) {
  Cut(a, b, until);
  Cut(b, a, until);
}

void Network::Refuse(Node a, Node b, Instant until) {
  Instant& end = refused_until_[PairOf(a, b)];
  end = std::max(end, until);
  for (const auto& channel : channels_) channel->Reset(a, b);
}

void Network::SetPower(Node node, bool is_on) {
  if (is_on)
    off_.erase(node);
  else
    off_.insert(node);
}

void Network::Heal() {
  cut_until_.clear();
  refused_until_.clear();
}

bool Network::Passes(Node from, Node to) const {
  return is_on(from) && is_on(to) && PassesAt(from, to) <= scheduler_.now();
}

Instant Network::PassesAt(Node from, Node to) const {
  const auto found = cut_until_.find({from, to});
  const Instant now = scheduler_.now();
  const Instant at = found == cut_until_.end() ? now : std::max(now, found->second);
  return is_on(from) && is_on(to) ? at : std::max(at, now + kWatchInterval);
}

bool Network::IsRefused(Node a, Node b) const {
  const auto found = refused_until_.find(PairOf(a, b));
  return found != refused_until_.end() && found->second > scheduler_.now();
}

Duration Network::Latency() {
  return Microseconds(200 + static_cast<int64_t>(random_.Below(4800)));
}

void Network::Listen(Node node, std::shared_ptr<Process> process, Accept accept) {
  listeners_[node] = {std::move(process), std::move(accept)};
}

// A connect is a round trip; TLS and the WebSocket's beginning are two more, and computing.
void Network::Connect(End from, Node to,
                      std::function<void(Outcome, std::shared_ptr<Channel>)> done) {
  const Duration latency = Latency();
  const auto answer = [this, process = from.process, done](Duration after, Outcome outcome) {
    scheduler_.After(after, [process, done, outcome] {
      process->Do([done, outcome] { done(outcome, nullptr); });
    });
  };
  if (IsRefused(from.node, to)) return answer(latency * 2, Outcome::kRefused);
  if (!Passes(from.node, to) || !Passes(to, from.node))
    return answer(kConnectTimeout, Outcome::kNoAnswer);
  const auto listener = listeners_.find(to);
  if (listener == listeners_.end() || !listener->second.process->is_alive())
    return answer(latency * 2, Outcome::kRefused);
  const Duration handshake = Milliseconds(10 + static_cast<int64_t>(random_.Below(60)));
  scheduler_.After(latency * 6 + handshake, [this, from = std::move(from), to, latency, done] {
    Open(from, to, latency, done);
  });
}

void Network::Open(End from, Node to, Duration latency,
                   const std::function<void(Outcome, std::shared_ptr<Channel>)>& done) {
  const Listener& listener = listeners_.at(to);
  const bool answers = listener.process->is_alive() && !listener.process->is_stopped() &&
                       Passes(from.node, to) && Passes(to, from.node) && !IsRefused(from.node, to);
  if (!answers) {
    scheduler_.After(kConnectTimeout, [process = from.process, done] {
      process->Do([done] { done(Outcome::kNoAnswer, nullptr); });
    });
    return;
  }
  const Node from_node = from.node;
  const auto process = from.process;
  const auto channel =
      std::make_shared<Channel>(*this, std::move(from), End{to, listener.process, {}}, latency);
  channels_.push_back(channel);
  listener.accept(channel, from_node);
  process->Do([done, channel] { done(Outcome::kOpened, channel); });
}

void Network::NoteDeath(const Process& process) {
  for (const auto& channel : channels_) channel->NoteDeath(process);
}

void Network::Watch() {
  for (const auto& channel : std::vector(channels_)) channel->Check();
  std::erase_if(channels_, [](const auto& channel) { return channel->is_over(); });
  scheduler_.After(kWatchInterval, [this] { Watch(); });
}

}  // namespace weft::sim
