// PeerLinks: the WebSockets between this server and the others of its cluster, one for each pair.
//
//   dials                                accepts
//   GET /cluster/v1/link     -------->
//   greeting{id, nonce}      <------->   greeting{id, nonce}
//   proof{HMAC}              <------->   proof{HMAC}
//   hello, and all else      <------->   hello, and all else
//
// Both ends prove that they have the cluster's key before anything else is taken. When both dial at
// once, the link that the server with the lower id has opened stays. All of it is on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cluster/ids.h"
#include "cluster_host/cluster_key.h"
#include "net/client.h"
#include "net/http.h"
#include "net/loop.h"
#include "wire/cluster.pb.h"

namespace weft::cluster_host {

inline constexpr uint32_t kClusterLinkVersion = 1;
inline constexpr const char* kLinkPath = "/cluster/v1/link";
inline constexpr size_t kMostLinkBytes = 16 << 20;  // of one message

// Where a server is reached.
struct PeerAddress {
  std::string url;          // "https://a.weft.school.lan"
  std::string fingerprint;  // SHA-256 of its own certificate, in hex; "": whom the system trusts
  bool operator==(const PeerAddress&) const = default;
};

// What an attempt to reach the server failed of. Of a certificate that is another one than expected
// it says what to do.
Error LinkProblem(const PeerAddress& address, const Error& error);

class PeerLinks {
 public:
  // `loop` outlives this.
  PeerLinks(net::EventLoop& loop, ClusterKey key, cluster::Holder self);
  ~PeerLinks();  // closes all links
  PeerLinks(const PeerLinks&) = delete;
  PeerLinks& operator=(const PeerLinks&) = delete;

  // The keys that count from now on for new links. REQUIRES: there is one.
  void SetKeys(std::vector<ClusterKey> keys) { keys_ = std::move(keys); }

  // Dials the peer. What comes of it is told once: a link that is up, or an attempt that failed.
  void Connect(cluster::ServerId peer, const PeerAddress& address);
  // Takes a socket that another server has opened.
  net::WebSocketCallbacks Accept(std::shared_ptr<net::WebSocket> socket);

  // False: there is no link to the peer, and the message is lost. REQUIRES: it is at most
  // kMostLinkBytes long.
  bool Send(cluster::ServerId peer, const wire::pb::LinkMessage& message);

  using Kind = wire::pb::LinkMessage::KindCase;
  using Take = std::function<void(cluster::ServerId peer, cluster::StartId start,
                                  const wire::pb::LinkMessage& message)>;
  // Hands on the messages of this kind. There may be several who take one, as cells do.
  void OnMessage(Kind kind, Take take) { takers_.emplace(kind, std::move(take)); }
  // Told when a link begins and ends to carry messages. There may be several who are. Told twice
  // that it is up, another link has taken its place, and what was under way may be lost.
  void OnPeer(std::function<void(cluster::ServerId peer, bool is_up)> told) {
    told_of_peers_.push_back(std::move(told));
  }
  // Told of attempts that brought no link. `is_refused`: nobody listens there, as the peer's
  // machine says.
  void OnFailed(std::function<void(cluster::ServerId peer, bool is_refused)> told) {
    told_of_failures_ = std::move(told);
  }
  bool IsUp(cluster::ServerId peer) const { return open_.contains(peer); }
  // Of messages that the peer has not taken yet.
  size_t QueuedBytes(cluster::ServerId peer) const;
  // Ends the link to a peer that said what it must not.
  void Close(cluster::ServerId peer, const std::string& why);

 private:
  struct Link;
  net::WebSocketCallbacks Begin(const std::shared_ptr<Link>& link,
                                std::shared_ptr<net::WebSocket> socket);
  void OnBytes(const std::shared_ptr<Link>& link, ByteSpan bytes);
  void OnGreeting(Link& link, const wire::pb::LinkGreeting& greeting);
  void OnProof(const std::shared_ptr<Link>& link, const wire::pb::LinkProof& proof);
  void Open(const std::shared_ptr<Link>& link);
  void OnClosed(const std::shared_ptr<Link>& link, const std::string& reason);
  void Reject(Link& link, const std::string& why);
  bool IsPreferred(const Link& link) const;
  void Tell(cluster::ServerId peer, bool is_up);
  void TellFailure(cluster::ServerId peer, const Error& error);

  ClusterKey KeyFor(const wire::pb::LinkGreeting& greeting) const;

  net::EventLoop& loop_;
  std::vector<ClusterKey> keys_;  // the first one counts, another is valid, too
  const cluster::Holder self_;
  std::map<cluster::ServerId, std::shared_ptr<Link>> open_;
  std::map<cluster::ServerId, std::string> problems_;  // that the log has, until a link is up
  std::multimap<Kind, Take> takers_;
  std::vector<std::function<void(cluster::ServerId, bool)>> told_of_peers_;
  std::function<void(cluster::ServerId, bool)> told_of_failures_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace weft::cluster_host
