#include "net/http_connection.h"

#include <sys/socket.h>

#include <array>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream_base.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
#include <cstdio>
#include <ctime>
#include <deque>
#include <optional>
#include <sstream>

#include "base/log.h"
#include "net/address.h"
#include "net/http_fields.h"
#include "net/peer_process.h"
#include "net/request_head.h"
#include "net/tls_context.h"
#include "net/websocket.h"
#include "net/write_watch.h"

namespace weft::net {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using beast::error_code;
using tcp = asio::ip::tcp;

namespace {

std::string StatusLine(int status) {
  const auto reason = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(status)));
  return "HTTP/1.1 " + std::to_string(status) + " " + std::string(reason) + "\r\n";
}

// A Content-Length would tell of a body that is not there: of none at all, or of the one that the
// client has in its cache (RFC 9110 8.6).
bool MayHaveBody(int status) {
  return status >= 200 && status != 204 && status != 304;
}

SocketEnd EndOf(const tcp::endpoint& endpoint) {
  const asio::ip::address& address = endpoint.address();
  SocketEnd end;
  end.address = address.is_v6()
                    ? address.to_v6().to_bytes()
                    : asio::ip::make_address_v6(asio::ip::v4_mapped, address.to_v4()).to_bytes();
  end.port = endpoint.port();
  return end;
}

// Who is at the other end of a connection, found when it is first asked. Requests share it, and may
// outlive the connection: its port may belong to somebody else by then, so nobody looks any more.
class PeerIdentity {
 public:
  explicit PeerIdentity(const tcp::socket& socket) {
    error_code no_peer;
    const tcp::endpoint peer = socket.remote_endpoint(no_peer);
    const tcp::endpoint own = socket.local_endpoint(no_peer);
    if (no_peer) {
      StopLooking();
      return;
    }
    peer_ = EndOf(peer);
    own_ = EndOf(own);
  }
  std::optional<uint32_t> User() {
    if (!std::exchange(is_settled_, true)) user_ = PeerUser(peer_, own_);
    return user_;
  }
  void StopLooking() { is_settled_ = true; }

 private:
  SocketEnd peer_;
  SocketEnd own_;
  bool is_settled_ = false;
  std::optional<uint32_t> user_;
};

// The beginning of a TLS handshake: a record of that kind, of SSL 3 or any TLS.
bool IsTlsHello(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x16 && bytes[1] == 0x03;
}

class HttpConnection;

class ConnectionResponder : public Responder {
 public:
  ConnectionResponder(std::shared_ptr<HttpConnection> connection, uint64_t serial)
      : connection_(std::move(connection)), serial_(serial) {}
  ~ConnectionResponder() override;
  void Send(HttpResponse response) override;
  void StartStream(int status, Headers headers) override;
  void Write(std::string chunk) override;
  void End() override;
  void OnClosed(std::function<void()> callback) override;

 private:
  std::shared_ptr<HttpConnection> connection_;
  const uint64_t serial_;  // which request of the connection this answers
  bool started_ = false;
  bool ended_ = false;
};

// One client connection: reads a request, hands it out, writes the answer, again.
//
// It always reads, also while an answer is made: that is how a client that goes away is noticed.
// One read is under way at any time; what comes is put into `buffer_` and looked at by Advance.
//
// Lifetime: every pending operation holds the connection, and so does every responder. After Close
// or Abort operations fail and calls of responders are ignored, so that it ends with the last of
// both. Timers hold it weakly.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(AnyStream stream, const ServerOptions& options, ServerHandler* handler,
                 std::string remote_address, std::shared_ptr<ConnectionPlace> place)
      : context_(stream.context()),
        stream_(std::move(stream)),
        options_(options),
        handler_(handler),
        remote_address_(std::move(remote_address)),
        place_(std::move(place)),
        peer_(std::make_shared<PeerIdentity>(stream_.socket())),
        deadline_(stream_.get_executor()),
        probe_timer_(stream_.get_executor()),
        write_watch_(stream_.get_executor(), options_.limits.write_stall) {}

  void Start() {
    ExpectRequest(options_.limits.handshake);
    if (!options_.tls) return Read();
    // Plain HTTP on the TLS port is answered with a sentence instead of a garbled handshake.
    stream_.socket().async_wait(tcp::socket::wait_read,
                                [self = shared_from_this()](const error_code& error) {
                                  if (self->IsOver()) return;
                                  if (error) return self->Abort();
                                  self->ChooseTls();
                                });
  }

  // ---- called by the responder ----
  bool IsCurrent(uint64_t serial) const { return serial == serial_ && !IsOver(); }

  void Send(HttpResponse response) {
    uint64_t byte_count = 0;
    for (const Slice& piece : response.body) byte_count += piece.byte_count();
    std::string head = Head(response.status, response.headers);
    const bool may_have_body = MayHaveBody(response.status);
    if (may_have_body) head += "Content-Length: " + std::to_string(byte_count) + "\r\n";
    Queue(Slice::OfText(head + "\r\n"));
    prepare_ = std::move(response.prepare);
    if (may_have_body && !is_head_request_) {
      for (Slice& piece : response.body) Queue(std::move(piece), prepare_ == nullptr);
    }
    FinishAnswer();
  }

  void SendError(int status, const std::string& sentence) {
    keep_alive_ = false;
    Send(handler_->MakeError(status, sentence, HeadSoFar()));
  }

  void StartStream(int status, const Headers& headers) {
    // HTTP/1.0 knows no chunks: there the answer ends with the connection.
    if (is_http_1_0_) keep_alive_ = false;
    const char* const framing = is_http_1_0_ ? "\r\n" : "Transfer-Encoding: chunked\r\n\r\n";
    stream_started_ = true;
    for (const auto& [name, value] : headers) {
      if (!EqualsIgnoringCase(name, "Content-Type")) continue;
      is_event_stream_ =
          EqualsIgnoringCase(Trimmed(value.substr(0, value.find(';'))), "text/event-stream");
    }
    Queue(Slice::OfText(Head(status, headers) + framing));
  }

  void WriteChunk(const std::string& chunk) {
    if (chunk.empty() || is_head_request_) return;
    const ServerLimits& limits = options_.limits;
    if (!MayQueue(*place_, chunk.size(), limits.stream_queue_bytes, limits.all_queue_bytes)) {
      return Abort();
    }
    if (is_http_1_0_) return Queue(Slice::OfText(chunk));
    char length[24];
    const int digits = std::snprintf(length, sizeof(length), "%zx\r\n", chunk.size());
    std::string framed;
    framed.reserve(chunk.size() + static_cast<size_t>(digits) + 2);
    framed.append(length, static_cast<size_t>(digits)).append(chunk).append("\r\n");
    Queue(Slice::OfText(std::move(framed)));
  }

  void EndStream() {
    if (!is_head_request_ && !is_http_1_0_) Queue(Slice::OfText("0\r\n\r\n"));
    FinishAnswer();
  }

  void OnClosed(std::function<void()> callback) { on_closed_ = std::move(callback); }

 private:
  using Parser = http::request_parser<http::string_body>;

  // Whoever made the server destroys the handler, and what callbacks lead to, after it.
  bool IsOver() const { return closed_ || place_->server_is_gone(); }

  struct Piece {
    Slice bytes;
    bool is_prepared = true;  // HttpResponse::prepare
  };

  void SetDeadline(Duration delay) {
    deadline_.expires_after(std::chrono::microseconds(delay.us));
    deadline_.async_wait([weak = weak_from_this()](const error_code& error) {
      const auto self = weak.lock();
      if (self && !error && !self->IsOver()) self->OnDeadline();
    });
  }

  // A client that has begun to ask is told what it waits for; one that says nothing is just let go.
  void OnDeadline() {
    if (lingering_) return Close();
    if (place_->answering() || answered_) return;
    if (head_is_too_long_) return RefuseHead();
    if (buffer_.size() == 0 && !parser_->got_some()) return Abort();
    const auto enough =
        static_cast<double>(options_.limits.body_bytes_per_second) * options_.limits.idle.seconds();
    if (parser_->is_header_done() && static_cast<double>(body_bytes_of_late_) >= enough) {
      return ExpectBody();
    }
    ++serial_;
    SendError(408, "The request did not arrive in time.");
  }

  // A body may take as long as it likes, if only it keeps arriving.
  void ExpectBody() {
    body_bytes_of_late_ = 0;
    SetDeadline(options_.limits.idle);
  }

  // ---- reading ----

  void ChooseTls() {
    uint8_t first = 0;
    const ssize_t count = recv(stream_.socket().native_handle(), &first, 1, MSG_PEEK);
    constexpr uint8_t kTlsHandshakeRecord = 0x16;
    if (count == 1 && first != kTlsHandshakeRecord) {
      plain_on_tls_port_ = true;
      return Read();
    }
    stream_.AddTls(options_.tls->ssl)
        .async_handshake(asio::ssl::stream_base::server,
                         [self = shared_from_this()](const error_code& error) {
                           if (self->IsOver()) return;
                           if (error) return self->Abort();
                           self->Read();
                         });
  }

  void Read() {
    reading_ = true;
    stream_.async_read_some(asio::buffer(read_bytes_),
                            [self = shared_from_this()](const error_code& error, size_t count) {
                              self->reading_ = false;
                              self->OnRead(error, count);
                            });
  }

  void OnRead(const error_code& error, size_t count) {
    if (IsOver()) return;
    // What ends TLS without a goodbye is the end of input as well.
    if (error == asio::error::eof || error == asio::ssl::error::stream_truncated) {
      return OnInputEnd();
    }
    if (error) return Abort();
    // Copied, not read in place: requests are parsed out of `buffer_` while a read is under way.
    if (!lingering_) {
      buffer_.commit(asio::buffer_copy(buffer_.prepare(count), asio::buffer(read_bytes_, count)));
    }
    if (lingering_) {
      // Nobody wants it.
    } else if (place_->answering() || answered_) {
      // Bytes behind a request are the next one, or garbage: both wait, but not without a limit.
      const ServerLimits& limits = options_.limits;
      if (buffer_.size() > limits.header_bytes + limits.ahead_bytes) return Abort();
    } else {
      place_->SetIdle(nullptr);
      body_bytes_of_late_ += count;
      if (!Advance()) return;
    }
    Read();
  }

  // The client says nothing more: it has gone, or it has only closed its sending end (`nc -N`,
  // shutdown) and waits for its answer. TCP does not tell which, so the answer is made, and until
  // then ProbeHalfClosed finds out.
  void OnInputEnd() {
    input_ended_ = true;
    keep_alive_ = false;
    if (lingering_ || (!place_->answering() && !answered_)) return Close();
    // Reading gives nothing any more; a reset is an error of the socket.
    stream_.socket().async_wait(tcp::socket::wait_error,
                                [self = shared_from_this()](const error_code& error) {
                                  if (!error && !self->IsOver()) self->Abort();
                                });
    ProbeHalfClosed();
  }

  // Writes something that changes no answer: a client that has gone resets the connection. Before
  // an answer begins that is "100 Continue", which every client of HTTP/1.1 skips; between events a
  // comment. Where neither is possible the answer itself will tell.
  void ProbeHalfClosed() {
    if (IsOver() || !place_->answering() || answered_) return;
    if (queue_.empty() && !is_http_1_0_) {
      if (!stream_started_) Queue(Slice::OfText("HTTP/1.1 100 Continue\r\n\r\n"));
      if (stream_started_ && is_event_stream_) WriteChunk(":\n\n");
    }
    probe_timer_.expires_after(std::chrono::microseconds(options_.limits.half_close_probe.us));
    probe_timer_.async_wait([weak = weak_from_this()](const error_code& error) {
      const auto self = weak.lock();
      if (self && !error) self->ProbeHalfClosed();
    });
  }

  void ExpectRequest(Duration limit) {
    SetDeadline(limit);
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(options_.limits.header_bytes));
    parser_->body_limit(boost::none);  // OnHeader knows whose it is
    head_is_too_long_ = false;
  }

  // Parses what `buffer_` has. False when the connection has ended or become a WebSocket: there is
  // nothing more to read.
  bool Advance() {
    if (head_is_too_long_) {
      if (HasWholeHead()) RefuseHead();
      return !IsOver();
    }
    // An empty line before a request is forgiven (RFC 9112 2.2): old clients end bodies with one.
    while (!parser_->got_some() && buffer_.size() > 0 && IsLineEnd()) buffer_.consume(1);
    while (buffer_.size() > 0) {
      error_code error;
      const bool had_head = parser_->is_header_done();
      buffer_.consume(parser_->put(buffer_.data(), error));
      if (error == http::error::need_more) return true;
      if (error) {
        OnParseError(error);
        return !IsOver();
      }
      if (!had_head && parser_->is_header_done()) {
        if (!OnHeader()) return !IsOver();
        parser_->eager(true);  // the body in one go
      }
      if (parser_->is_done()) {
        OnRequest();
        return !IsOver();
      }
    }
    return true;
  }

  bool IsLineEnd() const {
    const char first = *static_cast<const char*>(buffer_.data().data());
    return first == '\r' || first == '\n';
  }

  // False when the request was answered, or is an upgrade.
  bool OnHeader() {
    const auto& message = parser_->get();
    keep_alive_ = message.keep_alive() && !input_ended_;
    is_head_request_ = message.method() == http::verb::head;
    is_http_1_0_ = message.version() < 11;
    const HttpRequest head = HeadSoFar();
    const auto refuse = [this](int status, const std::string& sentence) {
      ++serial_;
      SendError(status, sentence);
      return false;
    };
    if (plain_on_tls_port_) {
      return refuse(400, "This port speaks https. Use https:// instead of http://.");
    }
    if (const auto refusal = CheckFraming(head)) return refuse(refusal->status, refusal->sentence);
    if (beast::websocket::is_upgrade(message)) {
      OnUpgrade();
      return false;
    }
    body_limit_ = std::min(options_.limits.body_bytes, handler_->BodyLimit(head));
    parser_->body_limit(body_limit_);
    if (const auto length = parser_->content_length(); length && *length > body_limit_) {
      return refuse(413, BodyTooLong());
    }
    ExpectBody();
    if (!parser_->is_done() && ExpectsContinue(head)) {
      Queue(Slice::OfText("HTTP/1.1 100 Continue\r\n\r\n"));
    }
    return true;
  }

  std::string BodyTooLong() const {
    return "The request body is longer than " + std::to_string(body_limit_) + " bytes.";
  }

  void OnParseError(const error_code& error) {
    if (error == http::error::header_limit) {
      // Who asks may stand in what has not come yet, and must be known to be told.
      head_is_too_long_ = true;
      if (HasWholeHead()) RefuseHead();
      return;
    }
    ++serial_;
    // It cannot read an answer; whoever runs the server can read the log.
    if (IsTlsHello(Unparsed())) {
      LogWarn(
          "{} asks https of this port, which speaks http: use http:// there, or serve with "
          "--tls auto",
          remote_address_);
      return SendError(400, "This port speaks http. Use http:// instead of https://.");
    }
    if (error == http::error::body_limit) {
      SendError(413, BodyTooLong());
    } else if (error == http::error::bad_version && NamesOtherVersion(Unparsed())) {
      SendError(505, "This server speaks HTTP/1.1 and HTTP/1.0.");
    } else {
      SendError(400, "Malformed HTTP request: " + error.message() + ".");
    }
  }

  bool HasWholeHead() const {
    return buffer_.size() >= options_.limits.refused_header_bytes ||
           Unparsed().find("\r\n\r\n") != std::string_view::npos;
  }

  void RefuseHead() {
    ++serial_;
    SendError(431, "The request header is longer than " +
                       std::to_string(options_.limits.header_bytes) + " bytes.");
  }

  std::string_view Unparsed() const {
    return {static_cast<const char*>(buffer_.data().data()), buffer_.size()};
  }

  // All of a request but its body, or what came of that.
  HttpRequest HeadSoFar() const {
    const auto& message = parser_->get();
    HttpRequest head;
    head.method = std::string(message.method_string());
    head.is_http_1_0 = message.version() < 11;
    for (const auto& field : message) {
      head.headers.emplace_back(LowerCase(std::string_view(field.name_string())),
                                std::string(field.value()));
    }
    if (!parser_->is_header_done()) {
      const Headers rest = ScanFields(Unparsed());
      head.headers.insert(head.headers.end(), rest.begin(), rest.end());
    }
    const std::string_view target(message.target().data(), message.target().size());
    if (auto parsed = ParseTarget(head.method, target)) {
      head.path = std::move(parsed->path);
      head.query = std::move(parsed->query);
      if (!parsed->authority.empty()) {
        std::erase_if(head.headers, [](const auto& field) { return field.first == "host"; });
        head.headers.emplace_back("host", std::move(parsed->authority));
      }
    }
    head.remote_address = remote_address_;
    head.remote_is_loopback = IsLoopbackAddress(remote_address_);
    head.over_tls = stream_.over_tls();
    head.find_peer_user = [peer = peer_] { return peer->User(); };
    return head;
  }

  // False when the target is not acceptable (answered).
  bool MakeRequest(HttpRequest* request) {
    *request = HeadSoFar();
    ++serial_;
    if (request->method == "CONNECT") {
      SendError(501, "This server is no proxy: it connects nobody to others.");
      return false;
    }
    if (request->path.empty()) {
      SendError(400, "The request path is not acceptable.");
      return false;
    }
    return true;
  }

  void OnRequest() {
    deadline_.cancel();
    HttpRequest request;
    if (!MakeRequest(&request)) return;
    request.body = std::move(parser_->get().body());
    auto responder = std::make_shared<ConnectionResponder>(shared_from_this(), serial_);
    place_->SetAnswering(true);
    handler_->OnRequest(std::move(request), std::move(responder));
  }

  // Between two reads, so that nobody else reads the stream that moves on to the WebSocket.
  void OnUpgrade() {
    HttpRequest request;
    if (!MakeRequest(&request)) return;
    if (reading_) {
      return SendError(400, "A WebSocket handshake has to wait for the answers before it.");
    }
    HttpResponse refusal;
    if (!handler_->OnHandshake(request, &refusal)) {
      keep_alive_ = false;
      return Send(std::move(refusal));
    }
    deadline_.cancel();
    write_watch_.Stop();
    peer_->StopLooking();
    closed_ = true;
    stream_.Unread(beast::buffers_to_string(buffer_.data()));
    AcceptWebSocket(std::move(stream_), parser_->get(), options_.limits, remote_address_, place_,
                    [handler = handler_, request](std::shared_ptr<WebSocket> socket) {
                      return handler->OnWebSocket(request, std::move(socket));
                    });
  }

  // ---- writing ----

  std::string Head(int status, const Headers& headers) const {
    std::string head = StatusLine(status) + "Date: " + HttpDate(std::time(nullptr)) + "\r\n";
    std::string connection;
    for (const auto& [name, value] : headers) {
      head += name + ": " + value + "\r\n";
      if (EqualsIgnoringCase(name, "Upgrade")) connection = "Upgrade, ";  // RFC 9110 7.8
    }
    if (!keep_alive_) {
      connection += "close";
    } else if (is_http_1_0_) {
      connection += "keep-alive";  // or it waits for the end of the connection
    } else {
      connection = connection.substr(0, connection.find(','));
    }
    if (!connection.empty()) head += "Connection: " + connection + "\r\n";
    return head;
  }

  void Queue(Slice bytes, bool is_prepared = true) {
    if (IsOver() || bytes.empty()) return;
    // Only what a stream leaves waiting counts: bodies that are sent at once are mostly mapped
    // files.
    if (stream_started_) place_->SetQueuedBytes(place_->queued_bytes() + bytes.byte_count());
    queue_.push_back({std::move(bytes), is_prepared});
    if (queue_.size() == 1) WriteNext();
  }

  void WriteNext() {
    if (queue_.front().is_prepared) return WriteFront();
    prepare_(queue_.front().bytes, [self = shared_from_this()] {
      if (self->IsOver()) return self->queue_.clear();
      self->queue_.front().is_prepared = true;
      self->WriteFront();
    });
  }

  void WriteFront() {
    const Slice& bytes = queue_.front().bytes;
    asio::async_write(
        stream_, asio::buffer(bytes.bytes().data(), bytes.byte_count()),
        [self = shared_from_this()](const error_code& error, size_t) { self->OnWritten(error); });
    write_watch_.Start(
        [this]() -> std::optional<Instant> {
          // What is being prepared does not wait for the client.
          if (queue_.empty() || !queue_.front().is_prepared) return std::nullopt;
          return stream_.last_write_at();
        },
        [this] { Abort(); });
  }

  void OnWritten(const error_code& error) {
    if (IsOver()) return queue_.clear();
    if (error) return Abort();
    if (stream_started_) {
      place_->SetQueuedBytes(place_->queued_bytes() -
                             std::min(place_->queued_bytes(), queue_.front().bytes.byte_count()));
    }
    queue_.pop_front();
    if (!queue_.empty()) return WriteNext();
    if (answered_) NextRequest();
  }

  void FinishAnswer() {
    answered_ = true;
    deadline_.cancel();
    if (queue_.empty()) NextRequest();
  }

  void NextRequest() {
    answered_ = false;
    stream_started_ = false;
    is_event_stream_ = false;
    prepare_ = nullptr;
    place_->SetQueuedBytes(0);
    place_->SetAnswering(false);
    on_closed_ = nullptr;
    if (!keep_alive_) return Linger();
    ExpectRequest(options_.limits.idle);
    if (buffer_.size() == 0) {
      place_->SetIdle([weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->Close();
      });
    }
    // A read is under way, and OnRead goes on with what comes; what has come already is here.
    Advance();
  }

  // ---- ending ----

  // After the last answer. Closing while the client still sends (the rest of a body that is too
  // long) would make the kernel reset the connection, and the answer could be lost with it: so only
  // the sending end is closed, and what comes is thrown away until the client closes or the time is
  // up.
  void Linger() {
    if (input_ended_) return Close();
    lingering_ = true;  // the read that is under way goes on
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    buffer_.consume(buffer_.size());
    SetDeadline(options_.limits.close_linger);
  }

  // What the kernel still holds for a slow client goes on without us; TCP_USER_TIMEOUT, set by the
  // listener, ends that when it makes no progress.
  void Close() { End(&AnyStream::Close); }
  void Abort() { End(&AnyStream::Abort); }

  void End(void (AnyStream::*end_stream)()) {
    if (closed_) return;
    closed_ = true;
    peer_->StopLooking();
    deadline_.cancel();
    probe_timer_.cancel();
    write_watch_.Stop();
    place_->SetIdle(nullptr);
    place_->SetQueuedBytes(0);
    // The first piece may be in the hands of a write that is under way, or of who prepares it:
    // the end of either drops it.
    if (queue_.size() > 1) queue_.erase(queue_.begin() + 1, queue_.end());
    (stream_.*end_stream)();
    const auto callback = std::move(on_closed_);
    on_closed_ = nullptr;
    if (callback && place_->answering() && !place_->server_is_gone()) callback();
    place_->SetAnswering(false);
  }

  const std::shared_ptr<LoopContext> context_;  // of the timers, when the stream has moved on
  AnyStream stream_;
  const ServerOptions options_;
  ServerHandler* const handler_;
  const std::string remote_address_;
  std::shared_ptr<ConnectionPlace> place_;
  const std::shared_ptr<PeerIdentity> peer_;
  asio::steady_timer deadline_;
  asio::steady_timer probe_timer_;
  WriteWatch write_watch_;
  std::array<uint8_t, 16 * 1024> read_bytes_;  // where the read that is under way puts them
  beast::flat_buffer buffer_;                  // came and is not parsed yet
  std::optional<Parser> parser_;
  std::deque<Piece> queue_;
  decltype(HttpResponse::prepare) prepare_;  // of the answer under way
  std::function<void()> on_closed_;
  uint64_t serial_ = 0;
  size_t body_limit_ = 0;          // of the request under way
  size_t body_bytes_of_late_ = 0;  // since its deadline was set
  bool head_is_too_long_ = false;  // what comes of it is only looked at
  bool keep_alive_ = true;
  bool is_head_request_ = false;
  bool is_http_1_0_ = false;
  bool plain_on_tls_port_ = false;
  bool stream_started_ = false;
  bool is_event_stream_ = false;
  bool answered_ = false;     // the answer is queued completely
  bool input_ended_ = false;  // the client will send nothing more
  bool lingering_ = false;    // everything is sent; waiting for the client to close
  bool reading_ = false;
  bool closed_ = false;
};

ConnectionResponder::~ConnectionResponder() {
  if (ended_) return;
  if (started_) {
    End();
    return;
  }
  ended_ = true;
  if (connection_->IsCurrent(serial_)) connection_->SendError(500, "The server gave no answer.");
}

void ConnectionResponder::Send(HttpResponse response) {
  CHECK(!started_ && !ended_);
  ended_ = true;
  if (connection_->IsCurrent(serial_)) connection_->Send(std::move(response));
}

void ConnectionResponder::StartStream(int status, Headers headers) {
  CHECK(!started_ && !ended_);
  started_ = true;
  if (connection_->IsCurrent(serial_)) connection_->StartStream(status, headers);
}

void ConnectionResponder::Write(std::string chunk) {
  CHECK(started_ && !ended_);
  if (connection_->IsCurrent(serial_)) connection_->WriteChunk(chunk);
}

void ConnectionResponder::End() {
  CHECK(started_ && !ended_);
  ended_ = true;
  if (connection_->IsCurrent(serial_)) connection_->EndStream();
}

void ConnectionResponder::OnClosed(std::function<void()> callback) {
  if (connection_->IsCurrent(serial_)) {
    connection_->OnClosed(std::move(callback));
  } else {
    callback();
  }
}
}  // namespace

void ServeHttp(AnyStream stream, const ServerOptions& options, ServerHandler* handler,
               std::string remote_address, std::shared_ptr<ConnectionPlace> place) {
  std::make_shared<HttpConnection>(std::move(stream), options, handler, std::move(remote_address),
                                   std::move(place))
      ->Start();
}

}  // namespace weft::net
