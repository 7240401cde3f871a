#include "net/client.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cctype>

#include "base/bytes.h"
#include "base/sha256.h"
#include "net/any_stream.h"
#include "net/loop_context.h"
#include "net/websocket.h"

namespace weft::net {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using beast::error_code;
using tcp = asio::ip::tcp;

namespace {

std::string CertificateHash(X509* certificate) {
  unsigned char* der = nullptr;
  const int count = i2d_X509(certificate, &der);
  if (count <= 0) return {};
  std::string hex = ToHex(Sha256(ByteSpan(der, static_cast<size_t>(count))));
  OPENSSL_free(der);
  return hex;
}

// A client context that trusts what `tls` says.
std::shared_ptr<asio::ssl::context> ClientContext(const Url& server, const ClientTls& tls) {
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  if (tls.insecure) {
    context->set_verify_mode(asio::ssl::verify_none);
    return context;
  }
  context->set_verify_mode(asio::ssl::verify_peer);
  if (!tls.pinned_fingerprint.empty()) {
    // Called for each certificate of the chain; the server's own is the one that counts.
    context->set_verify_callback(
        [pinned = tls.pinned_fingerprint](bool, asio::ssl::verify_context& chain) {
          X509* certificate = X509_STORE_CTX_get0_cert(chain.native_handle());
          return certificate != nullptr && CertificateHash(certificate) == pinned;
        });
    return context;
  }
  context->set_default_verify_paths();
  context->set_verify_callback(asio::ssl::host_name_verification(server.host));
  return context;
}

// Server name indication; OpenSSL's own macro hides a C cast.
void SetServerName(SSL* ssl, const std::string& host) {
  // The extension is for names only; servers may refuse addresses in it (RFC 6066 3).
  error_code is_no_address;
  asio::ip::make_address(host, is_no_address);
  if (!is_no_address) return;
  SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
           const_cast<char*>(host.c_str()));
}

// How soon a call notices that it was cancelled.
constexpr auto kCancelInterval = std::chrono::milliseconds(100);

Error CannotReach(const Url& server, const std::string& why) {
  return Error(ErrorCode::kUnavailable, "Cannot reach " + server.Authority() + ": " + why + ".");
}

// A certificate that is not trusted will not be by asking again; a connection that broke may.
Error TlsFailed(const Url& server, const error_code& error) {
  const bool is_refusal = error.category() == asio::error::get_ssl_category();
  const int reason = ERR_GET_REASON(static_cast<unsigned long>(error.value()));
  if (is_refusal && (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST))
    return Error(ErrorCode::kPermissionDenied,
                 "The TLS handshake with " + server.Authority() +
                     " failed: what answers there speaks plain http. Use http:// (for workers "
                     "ws://), or the port where the server speaks https.");
  return Error(is_refusal ? ErrorCode::kPermissionDenied : ErrorCode::kUnavailable,
               "The TLS handshake with " + server.Authority() + " failed: " + error.message() +
                   ". Certificates are checked with those of the system, or of the file that "
                   "SSL_CERT_FILE names; a self-signed weft server is trusted with --fingerprint "
                   "(it prints the value) or --insecure.");
}

}  // namespace

// One connection and its private io_context; every blocking call runs that context until the
// operation is done or the deadline passed.
struct HttpClient::State {
  State(Url url, ClientTls client_tls)
      : server(std::move(url)), tls(std::move(client_tls)), timer(io) {}

  // Runs `start(handler)` to its end, or aborts the stream when nothing completes within `timeout`.
  template <typename Start>
  error_code Await(Duration timeout, Start start) {
    error_code outcome = asio::error::would_block;
    bool timed_out = false;
    io.restart();
    timer.expires_after(std::chrono::microseconds(timeout.us));
    timer.async_wait([&](const error_code& error) {
      if (error) return;
      timed_out = true;
      if (stream) stream->Abort();
    });
    start([&](const error_code& error, auto&&...) {
      outcome = error;
      timer.cancel();
    });
    while (!io.stopped()) {
      io.run_for(kCancelInterval);
      if (IsCancelled() && stream) stream->Abort();
    }
    return timed_out ? make_error_code(boost::system::errc::timed_out) : outcome;
  }

  bool IsCancelled() const { return cancelled != nullptr && cancelled->load(); }

  Status Connect(Duration timeout) {
    stream.reset();
    buffer.clear();
    tcp::resolver resolver(io);
    error_code error;
    const auto endpoints = resolver.resolve(server.host, std::to_string(server.port), error);
    if (error) return CannotReach(server, error.message());
    stream = std::make_unique<AnyStream>(tcp::socket(io), nullptr);
    error = Await(timeout, [&](auto handler) {
      asio::async_connect(stream->socket(), endpoints, std::move(handler));
    });
    if (error) {
      stream.reset();
      return CannotReach(server, error.message());
    }
    stream->socket().set_option(tcp::no_delay(true), error);
    if (!server.tls) return OkStatus();
    context = ClientContext(server, tls);
    auto& secured = stream->AddTls(*context);
    SetServerName(secured.native_handle(), server.host);
    error = Await(timeout, [&](auto handler) {
      secured.async_handshake(asio::ssl::stream_base::client, std::move(handler));
    });
    if (error) {
      stream.reset();
      return TlsFailed(server, error);
    }
    return OkStatus();
  }

  Url server;
  ClientTls tls;
  const std::atomic<bool>* cancelled = nullptr;  // of the call that is running
  asio::io_context io{1};
  asio::steady_timer timer;
  std::shared_ptr<asio::ssl::context> context;
  std::unique_ptr<AnyStream> stream;
  beast::flat_buffer buffer;
};

HttpClient::HttpClient(Url server, ClientTls tls)
    : state_(std::make_unique<State>(std::move(server), std::move(tls))) {}
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;

namespace {

// The connection is in the middle of a reply that nobody wants: it cannot be used again.
template <typename State>
Error Stopped(State& state) {
  state.stream.reset();
  return Error(ErrorCode::kCancelled, "The transfer was cancelled.");
}

template <typename State>
http::request<http::string_body> RequestOf(const State& state, const HttpCall& call) {
  http::request<http::string_body> request(http::string_to_verb(call.method), call.path, 11);
  request.set(http::field::host, state.server.Authority());
  for (const auto& [name, value] : call.headers) request.set(name, value);
  request.body() = call.body;
  request.prepare_payload();
  return request;
}

template <typename State>
Result<HttpReply> Exchange(State& state, const HttpCall& call,
                           const std::function<bool(ByteSpan)>& on_data) {
  const http::request<http::string_body> request = RequestOf(state, call);
  error_code error = state.Await(call.timeout, [&](auto handler) {
    http::async_write(*state.stream, request, std::move(handler));
  });
  if (error) return CannotReach(state.server, error.message());

  http::response_parser<http::buffer_body> parser;
  parser.body_limit(boost::none);
  parser.skip(call.method == "HEAD");
  error = state.Await(call.timeout, [&](auto handler) {
    http::async_read_header(*state.stream, state.buffer, parser, std::move(handler));
  });
  if (error) return CannotReach(state.server, error.message());
  HttpReply reply;
  reply.status = static_cast<int>(parser.get().result_int());
  for (const auto& field : parser.get()) {
    std::string name(field.name_string());
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    reply.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  const bool to_caller = on_data && reply.status / 100 == 2;
  std::vector<uint8_t> piece(256 * 1024);
  while (!parser.is_done()) {
    parser.get().body().data = piece.data();
    parser.get().body().size = piece.size();
    error = state.Await(call.timeout, [&](auto handler) {
      http::async_read_some(*state.stream, state.buffer, parser, std::move(handler));
    });
    if (error == http::error::need_buffer) error = {};
    const ByteSpan got(piece.data(), piece.size() - parser.get().body().size);
    if (to_caller && !got.empty() && !on_data(got)) return Stopped(state);
    if (!to_caller) reply.body += AsText(got);
    if (reply.body.size() > call.reply_limit_bytes) {
      state.stream.reset();
      return Error(ErrorCode::kInvalidData, "The reply of " + state.server.Authority() + " to " +
                                                call.path + " is longer than " +
                                                HumanBytes(call.reply_limit_bytes) + ".");
    }
    if (error) {
      state.stream.reset();
      if (error == http::error::end_of_stream || error == http::error::partial_message) {
        return Error(ErrorCode::kIo, state.server.Authority() +
                                         " closed the connection before the reply to " + call.path +
                                         " was complete.");
      }
      return CannotReach(state.server, error.message());
    }
  }
  if (!parser.keep_alive()) state.stream.reset();
  return reply;
}

}  // namespace

Result<HttpReply> HttpClient::Call(const HttpCall& call,
                                   const std::function<bool(ByteSpan)>& on_data) {
  state_->cancelled = call.cancelled;
  const bool was_open = state_->stream != nullptr;
  if (!was_open) TRY(state_->Connect(call.timeout));
  bool got_data = false;
  auto reply = Exchange(
      *state_, call, !on_data ? on_data : [&](ByteSpan data) {
        got_data = true;
        return on_data(data);
      });
  // A kept connection may have been closed by the server meanwhile: once more on a fresh one.
  if (!reply.ok() && was_open && !got_data && !state_->IsCancelled() &&
      reply.error().code() == ErrorCode::kUnavailable) {
    TRY(state_->Connect(call.timeout));
    reply = Exchange(*state_, call, on_data);
  }
  if (!reply.ok()) {
    state_->stream.reset();
    if (state_->IsCancelled()) return Stopped(*state_);
  }
  return reply;
}

namespace {

// The steps of an asynchronous WebSocket connection: resolve, connect, TLS, handshake. The pending
// step holds it, so that it ends with the last of them; the deadline holds it weakly.
struct Connecting : std::enable_shared_from_this<Connecting> {
  Connecting(EventLoop& loop, Url to, ClientTls trust)
      : url(std::move(to)),
        tls(std::move(trust)),
        loop_context(loop.context()),
        resolver(*loop_context),
        socket(*loop_context),
        deadline(*loop_context) {}

  void Start() {
    deadline.expires_after(std::chrono::microseconds(limits.connect.us));
    deadline.async_wait([weak = weak_from_this()](const error_code& error) {
      const auto self = weak.lock();
      if (self && !error) self->GiveUp();
    });
    resolver.async_resolve(url.host, std::to_string(url.port),
                           [self = shared_from_this()](const error_code& error, auto endpoints) {
                             if (error) return self->Fail(CannotReach(self->url, error.message()));
                             self->Connect(endpoints);
                           });
  }

  // Cancels the step that is under way; it fails, and Fail says why. A name that is being resolved
  // cannot be cancelled: its answer is not used.
  void GiveUp() {
    Fail(CannotReach(url,
                     "no connection after " + std::to_string(limits.connect.us / 1000000) + " s"));
    error_code ignored;
    resolver.cancel();
    socket.close(ignored);
    if (stream) stream->Abort();
  }

  template <typename Endpoints>
  void Connect(const Endpoints& endpoints) {
    if (done) return;
    asio::async_connect(
        socket, endpoints, [self = shared_from_this()](const error_code& error, const auto&) {
          if (error == asio::error::connection_refused)
            return self->Fail(
                Error(ErrorCode::kNotFound, CannotReach(self->url, error.message()).message()));
          if (error) return self->Fail(CannotReach(self->url, error.message()));
          self->Secure();
        });
  }

  void Secure() {
    if (done) return;
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    stream = std::make_unique<AnyStream>(std::move(socket), loop_context);
    if (!url.tls) return Handshake();
    context = ClientContext(url, tls);
    auto& secured = stream->AddTls(*context);
    SetServerName(secured.native_handle(), url.host);
    secured.async_handshake(asio::ssl::stream_base::client,
                            [self = shared_from_this()](const error_code& error) {
                              if (error) return self->Fail(TlsFailed(self->url, error));
                              self->Handshake();
                            });
  }

  void Handshake() {
    if (std::exchange(done, true)) return;
    deadline.cancel();
    // The context must outlive the stream: the callbacks of the open socket hold it.
    auto hold_context = [self = shared_from_this()](std::shared_ptr<WebSocket> opened) {
      WebSocketCallbacks callbacks = self->on_open(std::move(opened));
      callbacks.on_closed = [context = self->context,
                             inner = std::move(callbacks.on_closed)](std::string reason) {
        if (inner) inner(std::move(reason));
      };
      return callbacks;
    };
    RequestWebSocket(std::move(*stream), url.Authority(), url.Target(), headers, limits,
                     hold_context, on_failed);
  }

  void Fail(Error error) {
    if (std::exchange(done, true)) return;
    deadline.cancel();
    on_failed(std::move(error));
  }

  Url url;
  ClientTls tls;
  Headers headers;
  WebSocketClientLimits limits;
  const std::shared_ptr<LoopContext> loop_context;
  tcp::resolver resolver;
  tcp::socket socket;
  asio::steady_timer deadline;
  bool done = false;  // failed, or handed on to RequestWebSocket
  std::shared_ptr<asio::ssl::context> context;
  std::unique_ptr<AnyStream> stream;
  std::function<WebSocketCallbacks(std::shared_ptr<WebSocket>)> on_open;
  std::function<void(Error)> on_failed;
};

}  // namespace

void ConnectWebSocket(EventLoop& loop, const Url& url, const ClientTls& tls, Headers headers,
                      const WebSocketClientLimits& limits,
                      std::function<WebSocketCallbacks(std::shared_ptr<WebSocket>)> on_open,
                      std::function<void(Error)> on_failed) {
  auto connecting = std::make_shared<Connecting>(loop, url, tls);
  connecting->headers = std::move(headers);
  connecting->limits = limits;
  connecting->on_open = std::move(on_open);
  connecting->on_failed = std::move(on_failed);
  connecting->Start();
}

}  // namespace weft::net
