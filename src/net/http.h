// HTTP/1.1 as the rest of weft sees it: a request as a value, and a Responder to answer it once or
// as a stream. Everything here happens on the event loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"

namespace weft::net {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;  // "GET", "POST", ...
  std::string path;    // decoded and normalised, without query, begins with '/'; or "*"
  std::string query;   // after '?', raw
  Headers headers;     // names in lower case; a host in the request's line is in place of Host
  std::string body;
  bool is_http_1_0 = false;    // or older
  std::string remote_address;  // "192.168.1.7"
  bool remote_is_loopback = false;
  bool over_tls = false;
  // Limits count the sender as this, beside its address. The handler fills it in.
  std::string client;
  // Only senders with the same one share what was computed. The handler fills it in.
  std::string salt;
  // The server, or a test, sets what is behind peer_user().
  std::function<std::optional<uint32_t>()> find_peer_user;

  // Gives the user (uid) whose process sent this over loopback, or nullopt for a stranger
  // (peer_process.h says when). The first call of a connection may cost milliseconds. Ask in
  // OnRequest or OnHandshake. Once the connection has closed or become a WebSocket, only what was
  // found before is told.
  std::optional<uint32_t> peer_user() const;
  // Gives the first header of that lower-case name, or "" when absent.
  std::string_view Header(std::string_view lower_case_name) const;
  // Gives all headers of that name as one list (RFC 9110 5.3).
  std::string HeaderList(std::string_view lower_case_name) const;
  // Gives the value of `name` in the query, percent-decoded, or "" when absent.
  std::string QueryValue(std::string_view name) const;
};

// A server answered a client with this.
struct HttpReply {
  int status = 0;
  Headers headers;   // names in lower case
  std::string body;  // empty when `on_data` was given

  // Gives the first header of that lower-case name, or "" when absent.
  std::string_view Header(std::string_view lower_case_name) const;
};

struct HttpResponse {
  int status = 200;
  Headers headers;          // Content-Length is added where a body may be
  std::vector<Slice> body;  // sent in order without copying
  // The server calls this with each piece of `body` when those before it have been sent. It sends
  // the piece when `go_on` was called, now or later: for bytes that are still on a disk. Null: all
  // can be sent at once.
  std::function<void(const Slice& piece, std::function<void()> go_on)> prepare = {};
};

HttpResponse TextResponse(int status, std::string_view content_type, std::string text);

// Answers one request. Exactly one of Send, or StartStream .. End, is called; dropping the
// Responder without an answer sends 500. All calls after the client has gone are ignored.
class Responder {
 public:
  virtual ~Responder() = default;
  virtual void Send(HttpResponse response) = 0;
  // Begins a chunked response. The client may go away at any time: OnClosed tells. In a stream of
  // server-sent events (Content-Type text/event-stream) each Write ends a line and an event. The
  // server puts comments between them to find out whether a client still listens.
  virtual void StartStream(int status, Headers headers) = 0;
  virtual void Write(std::string chunk) = 0;
  virtual void End() = 0;
  // Calls this once when the client goes away before the answer is complete.
  virtual void OnClosed(std::function<void()> callback) = 0;
};

// Codes of close frames (RFC 6455 7.4). kTryElsewhere is our own: the server cannot take a worker
// now, and the reason is the URL of one that can, or empty (docs/protocol.md).
inline constexpr uint16_t kNormalClosure = 1000;
inline constexpr uint16_t kTryElsewhere = 4307;

// Either end of one WebSocket, which takes binary messages only.
class WebSocket {
 public:
  virtual ~WebSocket() = default;
  // Queues one message made of these pieces. Beyond the write queue's limit the connection is
  // closed.
  virtual void Send(std::vector<Slice> pieces) = 0;
  // Sends what is queued, then a close frame with `reason` (cut to 120 bytes) and this code. A peer
  // that does not take it is not waited for: on_closed comes after ServerLimits::close_linger at
  // the latest, and no message comes any more.
  virtual void Close(std::string reason, uint16_t code) = 0;
  void Close(std::string reason) { Close(std::move(reason), kNormalClosure); }
  // The longest message that is taken from now on; a longer one closes the connection before
  // memory is set aside for it.
  virtual void SetMessageLimit(size_t byte_count) = 0;
  // Allows so many bytes to come from now on, pings and the heads of frames included. The
  // connection ends beyond them. nullopt allows as many as come, as at the start.
  virtual void SetAllowance(std::optional<size_t> byte_count) = 0;
  // Takes nothing more from the peer, who has to wait, until it is true again. A peer that has gone
  // is noticed when something is sent to it.
  virtual void SetReading(bool reads) = 0;
  // Sets how long the peer may be silent behind what comes next, as WebSocketClientLimits::silence.
  virtual void SetSilence(Duration silence) = 0;
  virtual std::string remote_address() const = 0;
  // Of messages that the peer has not taken yet.
  virtual size_t queued_bytes() const = 0;
};

struct WebSocketCallbacks {
  // Empty where nobody wants the connection any more: it is closed, and nothing is read.
  std::function<void(Slice message)> on_message;
  // Is told what the peer's close frame says, right before on_closed. May be empty.
  std::function<void(uint16_t code, const std::string& reason)> on_close_frame = {};
  // Is called once; the WebSocket is not used afterwards.
  std::function<void(std::string reason)> on_closed;
};

}  // namespace weft::net
