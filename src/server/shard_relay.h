// ShardRelay: passes shard messages from one worker on to another as fast as that one takes them.
//
//   sender --> pair's queue --> window of the receiver --> its socket
//               (pair_bytes)     (window_bytes)
//
// A receiver is handed a few messages at a time, by turns of their senders. So the server's own
// messages to it never wait behind more. The rest waits here, by pair of devices. A device that has
// sent too much is not read from until it has gone on (TCP then slows it down). So a device that
// sends more than another one takes holds up itself, and nobody's connection is closed for it.
//
// What a receiver was handed counts until its last slice is given up: slices count themselves.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/bytes.h"
#include "net/loop.h"
#include "swarm/events.h"

namespace weft::server {

class ShardRelay {
 public:
  struct Limits {
    // That a receiver was handed and has not taken: of several messages. One alone may be longer.
    size_t window_bytes = 4 << 20;
    size_t all_windows_bytes = 128 << 20;
    // That wait here, of a pair and of all; beyond them a sender is held back.
    size_t pair_bytes = 8 << 20;
    size_t all_bytes = 128 << 20;
  };
  struct Callbacks {
    std::function<void(swarm::WorkerId receiver, std::vector<Slice> pieces)> send;
    // True: nothing more is to be read from this sender, until it comes with false.
    std::function<void(swarm::WorkerId sender, bool held)> hold;
  };

  // Loop thread, like all of its functions. Slices may outlive it, and go on any thread.
  ShardRelay(net::EventLoop& loop, Callbacks callbacks) : ShardRelay(loop, callbacks, Limits()) {}
  ShardRelay(net::EventLoop& loop, Callbacks callbacks, Limits limits);
  ~ShardRelay();
  ShardRelay(const ShardRelay&) = delete;
  ShardRelay& operator=(const ShardRelay&) = delete;

  void Pass(swarm::WorkerId sender, swarm::WorkerId receiver, std::vector<Slice> pieces);
  // What waits for it, or is of it, goes nowhere any more.
  void Forget(swarm::WorkerId worker);

  size_t waiting_bytes() const { return waiting_bytes_; }

 private:
  struct Shared;
  struct Held;
  struct Message {
    std::vector<Slice> pieces;
    size_t byte_count = 0;
  };
  struct Pair {
    std::deque<Message> messages;
    size_t byte_count = 0;
  };
  struct Receiver {
    std::shared_ptr<std::atomic<size_t>> handed = std::make_shared<std::atomic<size_t>>(0);
    std::map<swarm::WorkerId, Pair> pairs;  // by sender; those with messages
    swarm::WorkerId served;                 // whose turn was last
  };

  bool MayHand(const Receiver& receiver, size_t byte_count) const;
  void Hand(swarm::WorkerId id, const Receiver& receiver, Message message);
  // Hands out what has room now; false: there was nothing.
  bool HandNext();
  void Pump();
  bool SendsTooMuch(swarm::WorkerId sender, size_t pair_limit) const;
  void ReleaseSenders();

  const Callbacks callbacks_;
  const Limits limits_;
  const std::shared_ptr<Shared> shared_;
  std::map<swarm::WorkerId, Receiver> receivers_;
  std::set<swarm::WorkerId> held_;
  size_t waiting_bytes_ = 0;
};

}  // namespace weft::server
