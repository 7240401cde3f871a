#include "net/http_connection.h"

#include <sys/socket.h>

#include <boost/asio/ssl/stream_base.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
#include <boost/url/pct_string_view.hpp>
#include <cctype>
#include <cstdio>
#include <deque>
#include <optional>
#include <sstream>

#include "net/address.h"
#include "net/peer_process.h"
#include "net/tls_context.h"
#include "net/websocket.h"

namespace weft::net {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using beast::error_code;
using tcp = asio::ip::tcp;

namespace {

// Decodes and checks a request path: no NUL, no backslash, no "." or ".." segment. nullopt: refuse.
std::optional<std::string> DecodePath(std::string_view raw) {
  const auto encoded = boost::urls::make_pct_string_view({raw.data(), raw.size()});
  if (!encoded || raw.empty() || raw.front() != '/') return std::nullopt;
  std::string path = encoded->decode();
  if (path.find('\0') != std::string::npos || path.find('\\') != std::string::npos) {
    return std::nullopt;
  }
  size_t begin = 1;
  while (begin <= path.size()) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view segment(path.data() + begin, end - begin);
    if (segment == "." || segment == "..") return std::nullopt;
    begin = end + 1;
  }
  return path;
}

std::string StatusLine(int status) {
  const auto reason = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(status)));
  return "HTTP/1.1 " + std::to_string(status) + " " + std::string(reason) + "\r\n";
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

// One client connection: reads a request, hands it out, writes the answer, again. While an answer
// is awaited it also reads, to notice a client that goes away.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(AnyStream stream, const ServerOptions& options, ServerHandler* handler,
                 std::string remote_address, std::shared_ptr<ConnectionPlace> place)
      : stream_(std::move(stream)),
        options_(options),
        handler_(handler),
        remote_address_(std::move(remote_address)),
        place_(std::move(place)),
        peer_(std::make_shared<PeerIdentity>(stream_.socket())),
        deadline_(stream_.get_executor()) {}

  void Start() {
    SetDeadline(options_.limits.handshake);
    if (!options_.tls) {
      ReadRequest();
      return;
    }
    // Plain HTTP on the TLS port is answered with a sentence instead of a garbled handshake.
    stream_.socket().async_wait(tcp::socket::wait_read,
                                [self = shared_from_this()](const error_code& error) {
                                  if (error) return self->Abort();
                                  self->ChooseTls();
                                });
  }

  // ---- called by the responder ----
  bool IsCurrent(uint64_t serial) const { return serial == serial_ && !closed_; }

  void Send(HttpResponse response) {
    uint64_t byte_count = 0;
    for (const Slice& piece : response.body) byte_count += piece.byte_count();
    std::string head = Head(response.status, response.headers);
    if (response.status != 304) head += "Content-Length: " + std::to_string(byte_count) + "\r\n";
    Queue(Slice::OfText(head + "\r\n"));
    if (!is_head_request_) {
      for (Slice& piece : response.body) Queue(std::move(piece));
    }
    FinishAnswer();
  }

  void StartStream(int status, const Headers& headers) {
    Queue(Slice::OfText(Head(status, headers) + "Transfer-Encoding: chunked\r\n\r\n"));
  }

  void WriteChunk(const std::string& chunk) {
    if (chunk.empty() || is_head_request_) return;
    if (queued_bytes_ + chunk.size() > options_.limits.write_queue_bytes) return Abort();
    char length[24];
    const int digits = std::snprintf(length, sizeof(length), "%zx\r\n", chunk.size());
    std::string framed;
    framed.reserve(chunk.size() + static_cast<size_t>(digits) + 2);
    framed.append(length, static_cast<size_t>(digits)).append(chunk).append("\r\n");
    Queue(Slice::OfText(std::move(framed)));
  }

  void EndStream() {
    if (!is_head_request_) Queue(Slice::OfText("0\r\n\r\n"));
    FinishAnswer();
  }

  void OnClosed(std::function<void()> callback) { on_closed_ = std::move(callback); }

 private:
  using Parser = http::request_parser<http::string_body>;

  void SetDeadline(Duration delay) {
    deadline_.expires_after(std::chrono::microseconds(delay.us));
    deadline_.async_wait([weak = weak_from_this()](const error_code& error) {
      const auto self = weak.lock();
      if (self && !error) self->Abort();
    });
  }

  void ChooseTls() {
    uint8_t first = 0;
    const ssize_t count = recv(stream_.socket().native_handle(), &first, 1, MSG_PEEK);
    constexpr uint8_t kTlsHandshakeRecord = 0x16;
    if (count == 1 && first != kTlsHandshakeRecord) {
      plain_on_tls_port_ = true;
      ReadRequest();
      return;
    }
    stream_.AddTls(options_.tls->ssl)
        .async_handshake(asio::ssl::stream_base::server,
                         [self = shared_from_this()](const error_code& error) {
                           if (error) return self->Abort();
                           self->ReadRequest();
                         });
  }

  void ReadRequest() {
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(options_.limits.header_bytes));
    parser_->body_limit(options_.limits.body_bytes);
    http::async_read_header(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](const error_code& error, size_t) { self->OnHeader(error); });
  }

  void OnHeader(const error_code& error) {
    if (error) return OnParseError(error);
    keep_alive_ = parser_->get().keep_alive();
    is_head_request_ = parser_->get().method() == http::verb::head;
    SetDeadline(options_.limits.idle);
    if (plain_on_tls_port_) {
      ++serial_;
      keep_alive_ = false;
      return Send(TextResponse(400, "text/plain; charset=utf-8",
                               "This port speaks https. Use https:// instead of http://.\n"));
    }
    if (beast::websocket::is_upgrade(parser_->get())) return OnUpgrade();
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](const error_code& read_error, size_t) {
                       self->OnRequest(read_error);
                     });
  }

  void OnParseError(const error_code& error) {
    if (error == http::error::end_of_stream || error == asio::error::eof ||
        error == asio::error::operation_aborted || error == asio::error::connection_reset) {
      return Abort();
    }
    ++serial_;
    keep_alive_ = false;
    int status = 400;
    std::string text = "Malformed HTTP request: " + error.message() + ".\n";
    if (error == http::error::header_limit) {
      status = 431;
      text = "The request header is longer than " + std::to_string(options_.limits.header_bytes) +
             " bytes.\n";
    } else if (error == http::error::body_limit) {
      status = 413;
      text = "The request body is longer than " + std::to_string(options_.limits.body_bytes) +
             " bytes.\n";
    }
    Send(TextResponse(status, "text/plain; charset=utf-8", text));
  }

  // False when the target is not an acceptable path (answered).
  bool MakeRequest(HttpRequest* request) {
    const auto& message = parser_->get();
    const std::string_view target(message.target().data(), message.target().size());
    const size_t question = target.find('?');
    const auto path = DecodePath(target.substr(0, question));
    ++serial_;
    if (!path) {
      keep_alive_ = false;
      Send(TextResponse(400, "text/plain; charset=utf-8", "The request path is not acceptable.\n"));
      return false;
    }
    request->method = std::string(message.method_string());
    request->path = *path;
    if (question != std::string_view::npos) request->query = target.substr(question + 1);
    for (const auto& field : message) {
      std::string name(field.name_string());
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      request->headers.emplace_back(std::move(name), std::string(field.value()));
    }
    request->remote_address = remote_address_;
    request->remote_is_loopback = IsLoopbackAddress(remote_address_);
    request->over_tls = stream_.over_tls();
    request->find_peer_user = [peer = peer_] { return peer->User(); };
    return true;
  }

  void OnRequest(const error_code& error) {
    if (error) return OnParseError(error);
    deadline_.cancel();
    HttpRequest request;
    if (!MakeRequest(&request)) return;
    request.body = std::move(parser_->get().body());
    auto responder = std::make_shared<ConnectionResponder>(shared_from_this(), serial_);
    place_->SetAnswering(true);
    WatchForClose();
    handler_->OnRequest(std::move(request), std::move(responder));
  }

  void OnUpgrade() {
    HttpRequest request;
    if (!MakeRequest(&request)) return;
    HttpResponse refusal;
    if (!handler_->OnHandshake(request, &refusal)) {
      keep_alive_ = false;
      return Send(std::move(refusal));
    }
    deadline_.cancel();
    peer_->StopLooking();
    closed_ = true;  // the stream moves on to the WebSocket
    std::ostringstream head;
    head << parser_->get().base();
    const WebSocketLimits limits{options_.limits.websocket_message_bytes,
                                 options_.limits.write_queue_bytes};
    AcceptWebSocket(
        std::move(stream_), head.str(), limits, remote_address_,
        [handler = handler_, request](std::shared_ptr<WebSocket> socket) {
          return handler->OnWebSocket(request, std::move(socket));
        },
        [place = place_] {});
  }

  std::string Head(int status, const Headers& headers) const {
    std::string head = StatusLine(status);
    for (const auto& [name, value] : headers) head += name + ": " + value + "\r\n";
    if (!keep_alive_) head += "Connection: close\r\n";
    return head;
  }

  void Queue(Slice piece) {
    if (closed_ || piece.empty()) return;
    queued_bytes_ += piece.byte_count();
    queue_.push_back(std::move(piece));
    if (queue_.size() == 1) WriteNext();
  }

  void WriteNext() {
    const Slice& piece = queue_.front();
    asio::async_write(
        stream_, asio::buffer(piece.bytes().data(), piece.byte_count()),
        [self = shared_from_this()](const error_code& error, size_t) { self->OnWritten(error); });
  }

  void OnWritten(const error_code& error) {
    if (closed_) return;
    if (error) return Abort();
    queued_bytes_ -= queue_.front().byte_count();
    queue_.pop_front();
    if (!queue_.empty()) return WriteNext();
    if (answered_) NextRequest();
  }

  void FinishAnswer() {
    answered_ = true;
    if (queue_.empty()) NextRequest();
  }

  void NextRequest() {
    answered_ = false;
    place_->SetAnswering(false);
    on_closed_ = nullptr;
    if (!keep_alive_) return Abort();
    SetDeadline(options_.limits.idle);
    if (!watching_) ReadRequest();  // else OnWatched goes on
  }

  // Reads ahead while the answer is being made: an error means the client has gone; bytes are the
  // next request.
  void WatchForClose() {
    watching_ = true;
    stream_.async_read_some(buffer_.prepare(4096),
                            [self = shared_from_this()](const error_code& error, size_t count) {
                              self->OnWatched(error, count);
                            });
  }

  void OnWatched(const error_code& error, size_t count) {
    watching_ = false;
    if (closed_) return;
    if (error) return Abort();
    buffer_.commit(count);
    if (!place_->answering()) ReadRequest();
  }

  void Abort() {
    if (closed_) return;
    closed_ = true;
    peer_->StopLooking();
    deadline_.cancel();
    queue_.clear();
    stream_.Abort();
    const auto callback = std::move(on_closed_);
    on_closed_ = nullptr;
    if (callback && place_->answering()) callback();
    place_->SetAnswering(false);
  }

  AnyStream stream_;
  const ServerOptions options_;
  ServerHandler* const handler_;
  const std::string remote_address_;
  std::shared_ptr<ConnectionPlace> place_;
  const std::shared_ptr<PeerIdentity> peer_;
  asio::steady_timer deadline_;
  beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::deque<Slice> queue_;
  size_t queued_bytes_ = 0;
  std::function<void()> on_closed_;
  uint64_t serial_ = 0;
  bool keep_alive_ = true;
  bool is_head_request_ = false;
  bool plain_on_tls_port_ = false;
  bool answered_ = false;  // the answer is queued completely
  bool watching_ = false;
  bool closed_ = false;
};

ConnectionResponder::~ConnectionResponder() {
  if (ended_) return;
  if (started_) {
    End();
    return;
  }
  Send(TextResponse(500, "text/plain; charset=utf-8", "The server gave no answer.\n"));
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
