// How much, how many and how long: what a server and a client of ours put up with. All settable, so
// that tests need not wait.
#pragma once

#include <cstddef>

#include "base/clock.h"

namespace weft::net {

struct ServerLimits {
  size_t header_bytes = 8 * 1024;
  // Of a head that is too long, so much is looked at for who asks, to be told so.
  size_t refused_header_bytes = 64 * 1024;
  size_t body_bytes = 1024 * 1024;
  // What may come behind a request that is not answered yet.
  size_t ahead_bytes = 1024 * 1024;
  // Of one message until the handler says otherwise (WebSocket::SetMessageLimit).
  size_t websocket_message_bytes = 64 * 1024;
  // What may wait for one client: events of a stream, messages of a WebSocket. Beyond that the
  // connection is closed.
  size_t stream_queue_bytes = 4 * 1024 * 1024;
  size_t websocket_queue_bytes = 96 * 1024 * 1024;
  // What may wait for all clients together. Beyond that, connections with something waiting are
  // closed when more is to be sent to them; one that keeps up never is.
  size_t all_queue_bytes = 256 * 1024 * 1024;
  size_t connections = 1024;
  // Counted by base/network.h; loopback is not. A class of forty tabs behind one address opens six
  // each. Where it is reached, a connection of that address that waits for its next request ends.
  size_t connections_per_address = 256;
  Duration handshake = Seconds(5);  // TLS and the request header
  // Between requests of a connection; and for a body, which has as much time again for as long as
  // `body_bytes_per_second` come. Clients that send twice as much may do so in bursts.
  Duration idle = Seconds(30);
  size_t body_bytes_per_second = 512;
  Duration write_stall = Seconds(30);  // something waits and no byte gets out
  Duration close_linger = Seconds(1);  // for a peer to take the last bytes and close its end
  // Clients that closed their sending end: how often it is tried whether they still listen.
  Duration half_close_probe = Seconds(5);
};

struct WebSocketClientLimits {
  size_t message_bytes = 64 * 1024 * 1024;
  size_t queue_bytes = 256 * 1024 * 1024;  // what may wait to be sent
  Duration connect = Seconds(15);          // name, TCP, TLS
  Duration handshake = Seconds(10);        // the server's answer
  // The server said nothing for so long: the connection is taken for dead and closed. 0: never. Any
  // bytes count, also those of a message that is not complete.
  Duration silence;
  Duration write_stall = Seconds(30);  // something waits and no byte gets out
  Duration close_linger = Seconds(1);  // as in ServerLimits
};

}  // namespace weft::net
