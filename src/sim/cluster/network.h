// The network between servers, workers and the database: which machine reaches which, and
// connections with order. As TCP does, a connection holds back what is sent while its line is cut,
// and is given up after some seconds of that.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/random.h"
#include "sim/cluster/process.h"
#include "sim/scheduler.h"

namespace weft::sim {

// A machine: servers are 0, 1, ..., workers kFirstWorker and on.
using Node = uint32_t;
inline constexpr Node kDatabaseNode = 500, kFirstWorker = 1000;

class Network;

// One end of a connection. `closed` is called once when the other end, or the line, ends it.
struct End {
  Node node = 0;
  std::shared_ptr<Process> process;
  std::function<void()> closed;
};

class Channel : public std::enable_shared_from_this<Channel> {
 public:
  Channel(Network& network, End first, End second, Duration latency);

  // Does it at the other end when it arrives there.
  void Send(Node from, std::function<void()> what);
  // Ends the connection for `from`, which is not told, and then for the other end.
  void Close(Node from);
  void SetClosed(Node at, std::function<void()> closed) {
    SideOf(at).end.closed = std::move(closed);
  }
  // Does what waits for `to` and may arrive.
  void Pump(Node to);
  // Ends the connection where its line was cut for long, or a process has gone.
  void Check();
  // A firewall ends it if it is between these two.
  void Reset(Node a, Node b);
  bool is_over() const { return !sides_[0].is_open && !sides_[1].is_open; }
  void NoteDeath(const Process& process);

 private:
  struct Side {
    End end;
    bool is_open = true;
    std::deque<std::pair<Instant, std::function<void()>>> arriving;
  };
  Side& SideOf(Node node) { return sides_[sides_[0].end.node == node ? 0 : 1]; }
  Side& Other(Node node) { return sides_[sides_[0].end.node == node ? 1 : 0]; }
  void Over(Side& side);

  Network& network_;
  Side sides_[2];
  const Duration latency_;
  std::optional<Instant> dark_since_;  // the line is cut in one direction at least
};

class Network {
 public:
  Network(Scheduler& scheduler, uint64_t seed) : scheduler_(scheduler), random_(seed) {}

  enum class Outcome { kOpened, kRefused, kNoAnswer };

  // ---- faults ----
  void Cut(Node from, Node to, Instant until);  // in one direction
  void CutBoth(Node a, Node b, Instant until);
  void Refuse(Node a, Node b, Instant until);  // a firewall between them answers connects
  void SetPower(Node node, bool is_on);
  void Heal();

  bool Passes(Node from, Node to) const;
  // The time at which the cut ends, as far as it is known; now if nothing is cut.
  Instant PassesAt(Node from, Node to) const;
  bool IsRefused(Node a, Node b) const;
  bool is_on(Node node) const { return !off_.contains(node); }

  // Connects `from` with the process that listens at `to` then. `closed` of the ends may be set
  // when the channel is given out. The other side is told by `accept` first.
  void Connect(End from, Node to, std::function<void(Outcome, std::shared_ptr<Channel>)> done);
  // Names the process that listens at a node, and whom it tells of connections: the channel and the
  // node that connects.
  using Accept = std::function<void(std::shared_ptr<Channel>, Node)>;
  void Listen(Node node, std::shared_ptr<Process> process, Accept accept);
  // The process was killed: its machine ends its connections.
  void NoteDeath(const Process& process);
  void Watch();  // once, at the beginning

  Duration Latency();
  Scheduler& scheduler() { return scheduler_; }

 private:
  struct Listener {
    std::shared_ptr<Process> process;
    Accept accept;
  };
  void Open(End from, Node to, Duration latency,
            const std::function<void(Outcome, std::shared_ptr<Channel>)>& done);

  Scheduler& scheduler_;
  SeededRandom random_;
  std::map<std::pair<Node, Node>, Instant> cut_until_, refused_until_;
  std::set<Node> off_;
  std::map<Node, Listener> listeners_;
  std::vector<std::shared_ptr<Channel>> channels_;
};

}  // namespace weft::sim
