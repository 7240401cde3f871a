// What a server knows of the others by its links to them: who is heard and what they say, who is
// silent, who is dead. Each statement has its own standard of proof.
//
//   heard    its link is open, and a hello came within hello_lifetime
//   silent   none came for some time, counted from when this server began to listen
//   refused  the link is closed and two connects in a row were refused: no process is there
//   has left it is heard, and says that it leads nothing and wants to go
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "cluster/events.h"
#include "cluster/options.h"

namespace weft::cluster {

class Peers {
 public:
  // `options` outlives it.
  Peers(Holder self, const LeaseOptions& options) : self_(self), options_(options) {}

  struct Leader {
    ServerId server;
    CellState state;
  };

  // ---- facts ----
  void Know(ServerId server);
  // Nothing before `now` counts as silence: this server starts, or has slept.
  void Listen(Instant now) { listening_since_ = now; }
  void OnOpened(ServerId server);
  void OnClosed(ServerId server, Instant now);
  void OnRefused(ServerId server, Instant now);
  void OnFailed(ServerId server, Instant now);
  void OnHello(ServerId server, const Hello& hello, Instant now);
  // Gives the peers to connect to now, and remembers that they are being connected to.
  std::vector<ServerId> TakeDue(Instant now);
  // When TakeDue gives the next one; nullopt: all links are open.
  std::optional<Instant> next_timer() const;

  // ---- what follows from them ----
  bool IsRefused(ServerId server) const;
  bool HasLeft(Holder holder, Instant now) const;
  bool IsHeard(Holder holder, Instant now) const;
  Duration SilenceOf(Holder holder, Instant now) const;
  // Gives the leader of the cell with the highest incarnation, of those that are heard.
  std::optional<Leader> LeaderOf(CellId cell, Instant now) const;
  // Gives the incarnation with which a heard peer has given the cell to this server.
  std::optional<Incarnation> GivenToSelf(CellId cell, Instant now) const;
  // Gives those that may lead the cell: heard peers that do not want to go, and this server unless
  // `with_self` is false. Servers with the package come first, by rendezvous among themselves.
  std::vector<Holder> Candidates(CellId cell, bool with_self, bool self_has_package,
                                 Instant now) const;

 private:
  enum class Link { kClosed, kConnecting, kOpen };
  struct Peer {
    Link link = Link::kClosed;
    int refusals = 0;
    Instant connect_at{INT64_MIN};  // or, while connecting, when the attempt is given up
    Instant heard_at{INT64_MIN};
    Hello hello;
  };

  bool IsFresh(const Peer& peer, Instant now) const;

  const Holder self_;
  const LeaseOptions& options_;
  Instant listening_since_;
  std::map<ServerId, Peer> peers_;
};

}  // namespace weft::cluster
