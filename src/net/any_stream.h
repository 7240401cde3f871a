// AnyStream is a TCP socket with or without TLS on it, as one type, so that HTTP and WebSocket code
// exists once. It knows when it last wrote, so that a peer that takes nothing is noticed. Only
// src/net uses it.
#pragma once

#include <algorithm>
#include <boost/asio/associator.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/bind_handler.hpp>
#include <boost/beast/core/role.hpp>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "base/clock.h"
#include "net/loop_context.h"

namespace weft::net {

// Calls `handler` with what a read brought, after taking that off an allowance that it shares with
// the stream. The stream may have ended by then.
template <typename Handler>
struct CountingHandler {
  Handler handler;
  std::shared_ptr<std::optional<size_t>> allowance;
  void operator()(boost::system::error_code error, size_t count) {
    if (*allowance) **allowance -= std::min(count, **allowance);
    handler(error, count);
  }
};

class AnyStream {
 public:
  using tcp = boost::asio::ip::tcp;
  using executor_type = tcp::socket::executor_type;

  // `context` is what the socket was made on, held as long as the stream; null where the stream's
  // owner sees to it.
  AnyStream(tcp::socket socket, std::shared_ptr<LoopContext> context)
      : inner_(std::make_unique<Inner>(std::move(socket), std::move(context))) {}
  AnyStream(AnyStream&&) noexcept = default;
  AnyStream& operator=(AnyStream&&) noexcept = default;

  executor_type get_executor() { return inner_->socket.get_executor(); }
  const std::shared_ptr<LoopContext>& context() const { return inner_->context; }
  tcp::socket& socket() { return inner_->socket; }
  bool over_tls() const { return inner_->tls.has_value(); }
  // Encrypts bytes from here on; the handshake is the caller's.
  boost::asio::ssl::stream<tcp::socket&>& AddTls(boost::asio::ssl::context& context) {
    return inner_->tls.emplace(inner_->socket, context);
  }

  // Gives bytes that were read already to whoever reads next: what a client sent right behind its
  // WebSocket handshake.
  void Unread(std::string bytes) { inner_->unread = std::move(bytes); }
  // Allows so many bytes to be read from here on, framing of whatever lies on top included. Reads
  // beyond fail with no_buffer_space. nullopt allows as many as come.
  void SetReadAllowance(std::optional<size_t> byte_count) { *inner_->allowance = byte_count; }
  // Tells when bytes last went into the kernel's buffer or were first offered to it.
  Instant last_write_at() const { return inner_->last_write_at; }

  template <typename Buffers, typename Handler>
  void async_read_some(const Buffers& buffers, Handler&& next) {
    CountingHandler<std::decay_t<Handler>> handler{std::forward<Handler>(next), inner_->allowance};
    if (*inner_->allowance == size_t{0}) {
      const boost::system::error_code error = boost::asio::error::no_buffer_space;
      boost::asio::post(get_executor(),
                        boost::beast::bind_front_handler(std::move(handler), error, size_t{0}));
    } else if (!inner_->unread.empty()) {
      const size_t count = boost::asio::buffer_copy(buffers, boost::asio::buffer(inner_->unread));
      inner_->unread.erase(0, count);
      // Posted, not called: a handler never runs inside the function that it was given to.
      boost::asio::post(
          get_executor(),
          boost::beast::bind_front_handler(std::move(handler), boost::system::error_code(), count));
    } else if (inner_->tls) {
      inner_->tls->async_read_some(buffers, std::move(handler));
    } else {
      inner_->socket.async_read_some(buffers, std::move(handler));
    }
  }
  template <typename Buffers, typename Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    // Writing a long buffer means one call after another: each says that the one before got
    // something out.
    inner_->last_write_at = MonotonicNow();
    if (inner_->tls) {
      inner_->tls->async_write_some(buffers, std::forward<Handler>(handler));
    } else {
      inner_->socket.async_write_some(buffers, std::forward<Handler>(handler));
    }
  }
  // These forms wait, and are for HttpClient.
  template <typename Buffers>
  size_t read_some(const Buffers& buffers, boost::system::error_code& error) {
    return inner_->tls ? inner_->tls->read_some(buffers, error)
                       : inner_->socket.read_some(buffers, error);
  }
  template <typename Buffers>
  size_t write_some(const Buffers& buffers, boost::system::error_code& error) {
    return inner_->tls ? inner_->tls->write_some(buffers, error)
                       : inner_->socket.write_some(buffers, error);
  }

  // Ends both directions at once; pending operations fail. What the kernel still holds is sent.
  void Close() {
    boost::system::error_code ignored;
    inner_->socket.shutdown(tcp::socket::shutdown_both, ignored);
    inner_->socket.close(ignored);
  }
  // Like Close, but the kernel's bytes are thrown away. For a peer that takes nothing it would keep
  // them for minutes after this process has forgotten the connection.
  void Abort() {
    boost::system::error_code ignored;
    inner_->socket.set_option(boost::asio::socket_base::linger(true, 0), ignored);
    inner_->socket.close(ignored);
  }

 private:
  struct Inner {
    Inner(tcp::socket s, std::shared_ptr<LoopContext> made_on)
        : context(std::move(made_on)), socket(std::move(s)) {}
    const std::shared_ptr<LoopContext> context;
    tcp::socket socket;
    std::optional<boost::asio::ssl::stream<tcp::socket&>> tls;
    std::string unread;
    std::shared_ptr<std::optional<size_t>> allowance = std::make_shared<std::optional<size_t>>();
    Instant last_write_at;
  };
  std::unique_ptr<Inner> inner_;
};

// Beast's WebSocket asks for these of a stream that is not its own (found by argument-dependent
// lookup). It calls teardown after both close frames, and beast_close_socket when one of its
// timeouts has passed. A TLS shutdown exchange is not waited for: the WebSocket close frames
// already said goodbye.
template <typename Handler>
void async_teardown(boost::beast::role_type, AnyStream& stream, Handler&& handler) {
  stream.Close();
  boost::asio::post(stream.get_executor(), [handler = std::forward<Handler>(handler)]() mutable {
    handler(boost::system::error_code());
  });
}
inline void teardown(boost::beast::role_type, AnyStream& stream, boost::system::error_code& error) {
  stream.Close();
  error = {};
}
inline void beast_close_socket(AnyStream& stream) {
  stream.Abort();
}

}  // namespace weft::net

// Executor and allocator are those of the handler within.
template <template <typename, typename> class Associator, typename Handler, typename Default>
struct boost::asio::associator<Associator, weft::net::CountingHandler<Handler>, Default>
    : Associator<Handler, Default> {
  static auto get(const weft::net::CountingHandler<Handler>& counting) noexcept {
    return Associator<Handler, Default>::get(counting.handler);
  }
  static auto get(const weft::net::CountingHandler<Handler>& counting,
                  const Default& fallback) noexcept {
    return Associator<Handler, Default>::get(counting.handler, fallback);
  }
};
