#include "cluster_host/peer_links.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/log.h"
#include "base/random.h"

namespace weft::cluster_host {
namespace {

using cluster::ServerId;
using cluster::StartId;
using wire::pb::LinkMessage;

constexpr size_t kNonceBytes = 32;
// Until its key is proved, an end may send this much in all, and take so long.
constexpr size_t kStrangerBytes = 1024;
constexpr Duration kProofLimit = Seconds(5);
// Hellos come four times a second: a link without a byte for so long is dead.
constexpr Duration kSilence = Seconds(5);
constexpr Duration kDialLimit = Seconds(3);

std::string Nonce() {
  std::array<uint8_t, kNonceBytes> bytes{};
  SecureRandomBytes(bytes);
  return std::string(AsText(bytes));
}

// Looks at every byte whatever the first ones are.
bool IsSame(ByteSpan one, ByteSpan other) {
  if (one.size() != other.size()) return false;
  uint8_t difference = 0;
  for (size_t i = 0; i < one.size(); ++i) difference |= one[i] ^ other[i];
  return difference == 0;
}

Slice Encode(const LinkMessage& message) {
  std::string bytes = message.SerializeAsString();
  return Slice::OfText(std::move(bytes));
}

}  // namespace

struct PeerLinks::Link {
  enum class State { kGreeting, kProving, kOpen, kClosed };
  Link(net::EventLoop& loop, bool has_dialled, ServerId expected)
      : deadline(loop), dialled(has_dialled), peer(expected) {}

  net::EventLoop::Timer deadline;
  const bool dialled;
  ServerId peer;  // whom it is to be, or who it says to be
  StartId start;
  State state = State::kGreeting;
  const std::string nonce = Nonce();
  std::string peer_nonce;
  std::string problem;  // why it was closed here
  std::shared_ptr<net::WebSocket> socket;
};

PeerLinks::PeerLinks(net::EventLoop& loop, ClusterKey key, cluster::Holder self)
    : loop_(loop), keys_({std::move(key)}), self_(self) {}

PeerLinks::~PeerLinks() {
  for (const auto& [peer, link] : open_) Reject(*link, "the server stops");
}

Error LinkProblem(const PeerAddress& address, const Error& error) {
  if (error.message().find("certificate verify failed") == std::string::npos) return error;
  const std::string shows = "The server at " + address.url + " shows a certificate that ";
  if (address.fingerprint.empty())
    return Error(error.code(),
                 shows +
                     "this machine does not trust. Start it with one of an "
                     "authority that all servers trust (--tls FILE), or without --tls: "
                     "the others know its own certificate by the database.");
  return Error(error.code(),
               shows + "is not the one in its row of the database (fingerprint " +
                   address.fingerprint.substr(0, 12) +
                   "...). If its certificate is a new one, start that server again; else look what "
                   "answers in its place: a proxy, or another machine with its address.");
}

void PeerLinks::Connect(ServerId peer, const PeerAddress& address) {
  const std::weak_ptr<bool> alive = alive_;
  auto url = net::ParseUrl(address.url);
  if (!url.ok()) {
    return loop_.Post([this, alive, peer, error = url.error()] {
      if (!alive.expired()) TellFailure(peer, error);
    });
  }
  url->path = kLinkPath;
  url->query.clear();
  net::ClientTls tls;
  tls.pinned_fingerprint = address.fingerprint;
  net::WebSocketClientLimits limits;
  limits.connect = kDialLimit;
  limits.handshake = kDialLimit;
  limits.message_bytes = kMostLinkBytes;
  limits.silence = kSilence;
  auto link = std::make_shared<Link>(loop_, /*dialled=*/true, peer);
  net::ConnectWebSocket(
      loop_, *url, tls, {}, limits,
      [this, alive, link](std::shared_ptr<net::WebSocket> socket) {
        if (!alive.expired()) return Begin(link, std::move(socket));
        socket->Close("the server stops");
        return net::WebSocketCallbacks{[](const Slice&) {}, {}, [](const std::string&) {}};
      },
      [this, alive, peer, address](const Error& error) {
        if (!alive.expired()) TellFailure(peer, LinkProblem(address, error));
      });
}

net::WebSocketCallbacks PeerLinks::Accept(std::shared_ptr<net::WebSocket> socket) {
  socket->SetSilence(kSilence);
  return Begin(std::make_shared<Link>(loop_, /*dialled=*/false, ServerId()), std::move(socket));
}

net::WebSocketCallbacks PeerLinks::Begin(const std::shared_ptr<Link>& link,
                                         std::shared_ptr<net::WebSocket> socket) {
  socket->SetMessageLimit(kStrangerBytes);
  socket->SetAllowance(kStrangerBytes);
  link->socket = std::move(socket);
  link->deadline.FireAfter(
      kProofLimit, [this, alive = std::weak_ptr(alive_), weak = std::weak_ptr(link)] {
        const auto late = weak.lock();
        if (late && !alive.expired() && late->state != Link::State::kOpen)
          Reject(*late, "it did not prove in time that it has the cluster's key");
      });
  LinkMessage message;
  wire::pb::LinkGreeting& greeting = *message.mutable_greeting();
  greeting.set_version(kClusterLinkVersion);
  greeting.set_server(self_.server.value());
  greeting.set_start(self_.start.value());
  greeting.set_nonce(link->nonce);
  for (const ClusterKey& key : keys_) greeting.add_keys(key.Name());
  link->socket->Send({Encode(message)});
  const std::weak_ptr<bool> alive = alive_;
  net::WebSocketCallbacks callbacks;
  callbacks.on_message = [this, alive, link](const Slice& bytes) {
    if (!alive.expired()) OnBytes(link, bytes.bytes());
  };
  callbacks.on_closed = [this, alive, link](const std::string& reason) {
    if (!alive.expired()) OnClosed(link, reason);
    link->socket.reset();
  };
  return callbacks;
}

void PeerLinks::OnBytes(const std::shared_ptr<Link>& link, ByteSpan bytes) {
  if (link->state == Link::State::kClosed) return;
  LinkMessage message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return Reject(*link, "a message could not be parsed");
  if (message.has_greeting() && link->state == Link::State::kGreeting)
    return OnGreeting(*link, message.greeting());
  if (message.has_proof() && link->state == Link::State::kProving)
    return OnProof(link, message.proof());
  if (link->state != Link::State::kOpen || message.has_greeting() || message.has_proof())
    return Reject(*link, "a message came out of order");
  // One of a newer server that this one does not know is left out.
  const auto [first, end] = takers_.equal_range(message.kind_case());
  for (auto taker = first; taker != end; ++taker) taker->second(link->peer, link->start, message);
}

// One that both ends have.
ClusterKey PeerLinks::KeyFor(const wire::pb::LinkGreeting& greeting) const {
  for (const ClusterKey& key : keys_)
    if (std::ranges::find(greeting.keys(), key.Name()) != greeting.keys().end()) return key;
  return keys_.front();
}

void PeerLinks::OnGreeting(Link& link, const wire::pb::LinkGreeting& greeting) {
  const ServerId server(uint64_t{greeting.server()});
  if (greeting.version() != kClusterLinkVersion)
    return Reject(link, "its links have version " + std::to_string(greeting.version()) +
                            ", this server's " + std::to_string(kClusterLinkVersion) +
                            ": update weft on the older one");
  if (link.dialled && server != link.peer)
    return Reject(link, "another server answers at its address");
  if (!server.is_set() || server == self_.server)
    return Reject(link, "it has this server's own id: two servers use one state folder");
  if (greeting.nonce().size() != kNonceBytes) return Reject(link, "its greeting has no nonce");
  link.peer = server;
  link.start = StartId(uint64_t{greeting.start()});
  link.peer_nonce = greeting.nonce();
  link.state = Link::State::kProving;
  LinkMessage message;
  const Sha256Digest mac = KeyFor(greeting).Prove({self_.server, link.nonce},
                                                  {link.peer, link.peer_nonce}, link.dialled);
  message.mutable_proof()->set_mac(std::string(AsText(mac)));
  link.socket->Send({Encode(message)});
}

void PeerLinks::OnProof(const std::shared_ptr<Link>& link, const wire::pb::LinkProof& proof) {
  const bool is_right = std::ranges::any_of(keys_, [&](const ClusterKey& key) {
    const Sha256Digest expected =
        key.Prove({link->peer, link->peer_nonce}, {self_.server, link->nonce}, !link->dialled);
    return IsSame(AsBytes(proof.mac()), expected);
  });
  if (!is_right)
    return Reject(*link, "it has another cluster's key: copy the key file of a server that works");
  Open(link);
}

// Of the pair's two ends both say the same.
bool PeerLinks::IsPreferred(const Link& link) const {
  return link.dialled == (self_.server < link.peer);
}

void PeerLinks::Open(const std::shared_ptr<Link>& link) {
  const auto found = open_.find(link->peer);
  const bool had_one = found != open_.end();
  if (had_one && found->second->start == link->start && IsPreferred(*found->second) &&
      !IsPreferred(*link))
    return Reject(*link, "");
  link->state = Link::State::kOpen;
  link->deadline.Cancel();
  link->socket->SetAllowance(std::nullopt);
  link->socket->SetMessageLimit(kMostLinkBytes);
  problems_.erase(link->peer);
  const std::shared_ptr<Link> old = std::exchange(open_[link->peer], link);
  if (had_one) Reject(*old, "");
  // Those who count what is under way hear that an earlier start has gone.
  if (had_one && old->start != link->start) Tell(link->peer, false);
  Tell(link->peer, true);
}

void PeerLinks::Reject(Link& link, const std::string& why) {
  if (link.state == Link::State::kClosed) return;
  link.state = Link::State::kClosed;
  link.problem = why;
  link.deadline.Cancel();
  if (link.socket) link.socket->Close(why.empty() ? "there is another link" : why);
}

void PeerLinks::OnClosed(const std::shared_ptr<Link>& link, const std::string& reason) {
  const std::string why = link->problem.empty() ? reason : link->problem;
  link->state = Link::State::kClosed;
  link->deadline.Cancel();
  const auto found = open_.find(link->peer);
  if (found != open_.end() && found->second == link) {
    open_.erase(found);
    return Tell(link->peer, false);
  }
  // One that never opened.
  if (link->dialled && found == open_.end())
    return TellFailure(link->peer,
                       Error(ErrorCode::kUnavailable, "The link was closed: " + why + "."));
  if (!link->dialled && !link->problem.empty())
    LogWarn("a server's link was refused: {}", link->problem);
}

bool PeerLinks::Send(ServerId peer, const LinkMessage& message) {
  const auto found = open_.find(peer);
  if (found == open_.end()) return false;
  found->second->socket->Send({Encode(message)});
  return true;
}

size_t PeerLinks::QueuedBytes(ServerId peer) const {
  const auto found = open_.find(peer);
  return found == open_.end() ? 0 : found->second->socket->queued_bytes();
}

void PeerLinks::Close(ServerId peer, const std::string& why) {
  const auto found = open_.find(peer);
  if (found == open_.end()) return;
  LogWarn("the link to a server of the cluster is closed: {}", why);
  Reject(*found->second, why);
}

void PeerLinks::Tell(ServerId peer, bool is_up) {
  for (const auto& told : told_of_peers_) told(peer, is_up);
}

// The same sentence four times a second would fill the log.
void PeerLinks::TellFailure(ServerId peer, const Error& error) {
  if (std::exchange(problems_[peer], error.message()) != error.message())
    LogWarn("no link to a server of the cluster: {}", error.message());
  if (told_of_failures_) told_of_failures_(peer, error.code() == ErrorCode::kNotFound);
}

}  // namespace weft::cluster_host
