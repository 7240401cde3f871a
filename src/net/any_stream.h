// AnyStream: a TCP socket with or without TLS on it, as one type, so that HTTP and WebSocket code
// exists once. For src/net only.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/role.hpp>
#include <memory>
#include <optional>
#include <utility>

namespace weft::net {

class AnyStream {
 public:
  using tcp = boost::asio::ip::tcp;
  using executor_type = tcp::socket::executor_type;

  explicit AnyStream(tcp::socket socket) : inner_(std::make_unique<Inner>(std::move(socket))) {}
  AnyStream(AnyStream&&) noexcept = default;
  AnyStream& operator=(AnyStream&&) noexcept = default;

  executor_type get_executor() { return inner_->socket.get_executor(); }
  tcp::socket& socket() { return inner_->socket; }
  bool over_tls() const { return inner_->tls.has_value(); }
  // From here on bytes are encrypted; the handshake is the caller's.
  boost::asio::ssl::stream<tcp::socket&>& AddTls(boost::asio::ssl::context& context) {
    return inner_->tls.emplace(inner_->socket, context);
  }

  template <typename Buffers, typename Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (inner_->tls) {
      inner_->tls->async_read_some(buffers, std::forward<Handler>(handler));
    } else {
      inner_->socket.async_read_some(buffers, std::forward<Handler>(handler));
    }
  }
  template <typename Buffers, typename Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (inner_->tls) {
      inner_->tls->async_write_some(buffers, std::forward<Handler>(handler));
    } else {
      inner_->socket.async_write_some(buffers, std::forward<Handler>(handler));
    }
  }
  // Blocking forms, for HttpClient.
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

  // Ends both directions at once; pending operations fail.
  void Abort() {
    boost::system::error_code ignored;
    inner_->socket.shutdown(tcp::socket::shutdown_both, ignored);
    inner_->socket.close(ignored);
  }

 private:
  struct Inner {
    explicit Inner(tcp::socket s) : socket(std::move(s)) {}
    tcp::socket socket;
    std::optional<boost::asio::ssl::stream<tcp::socket&>> tls;
  };
  std::unique_ptr<Inner> inner_;
};

// What Beast's WebSocket asks of a stream that is not its own (found by argument-dependent lookup).
// A TLS shutdown exchange is not waited for: the WebSocket close frames already said goodbye.
template <typename Handler>
void async_teardown(boost::beast::role_type, AnyStream& stream, Handler&& handler) {
  stream.Abort();
  boost::asio::post(stream.get_executor(), [handler = std::forward<Handler>(handler)]() mutable {
    handler(boost::system::error_code());
  });
}
inline void teardown(boost::beast::role_type, AnyStream& stream, boost::system::error_code& error) {
  stream.Abort();
  error = {};
}
inline void beast_close_socket(AnyStream& stream) {
  stream.Abort();
}

}  // namespace weft::net
