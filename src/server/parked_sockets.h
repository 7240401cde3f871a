// ParkedSockets: workers' sockets while this server cannot lead: no model is loaded yet, say.
//
// A worker may hold keys and values that are wanted in a moment, so nobody is refused for that. Its
// socket stays open without an Init. Either it becomes that of a worker, or it is closed after two
// seconds, before the worker would take the silence for a dead line. The close frame's code is
// net::kTryElsewhere, and its reason is empty: there is no other server that is known to lead.
// Where there is one, sockets are closed at once with its URL. On the loop.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "net/http.h"
#include "net/loop.h"

namespace weft::server {

class ParkedSockets : public std::enable_shared_from_this<ParkedSockets> {
 public:
  // Below wire::kPingInterval * 6, after which workers go.
  static constexpr Duration kLimit = Seconds(2);
  static constexpr size_t kMostParked = 256;

  // Who came, as swarm::WorkerConnected has it.
  struct Parked {
    std::string address;
    bool is_owner = false;
    std::optional<uint32_t> cell;  // that it asked for
    std::shared_ptr<net::WebSocket> socket;
    std::string swarm = {};  // that it helped last, Init.swarm_id in hex; "": none
  };
  // Makes the socket a worker's, or gives nullopt: it has to wait.
  using Attach = std::function<std::optional<net::WebSocketCallbacks>(const Parked&)>;

  explicit ParkedSockets(net::EventLoop& loop, Duration limit = kLimit)
      : limit_(limit), timer_(loop) {}

  // Keeps it until AttachAll takes it, or its time is over.
  net::WebSocketCallbacks Park(Parked parked);
  void AttachAll(const Attach& attach);
  // Sends those that wait, and those that come, where this says (wire/elsewhere.h); "": they wait
  // again.
  void SendElsewhere(std::string elsewhere);

 private:
  struct Waiting {
    Parked parked;
    Instant until;
    net::WebSocketCallbacks callbacks;  // once it is a worker's
  };
  void Dismiss(const Waiting& waiting) const;
  void DismissOverdue();

  const Duration limit_;
  net::EventLoop::Timer timer_;
  std::string elsewhere_;
  std::deque<std::shared_ptr<Waiting>> waiting_;  // the longest first
};

}  // namespace weft::server
