#include "net/server.h"

#include <netinet/tcp.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/log.h"
#include "net/connection_limits.h"
#include "net/http_connection.h"
#include "net/loop_context.h"

namespace weft::net {
namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

namespace {

// An IPv4 client of a dual-stack socket is an IPv4 client; zones of IPv6 addresses are left out.
std::string AddressText(const asio::ip::address& address) {
  if (!address.is_v6()) return address.to_string();
  asio::ip::address_v6 v6 = address.to_v6();
  if (v6.is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, v6).to_string();
  }
  v6.scope_id(0);
  return v6.to_string();
}

class ListeningServer : public Server {
 public:
  ListeningServer(EventLoop& loop, const ServerOptions& options, ServerHandler* handler)
      : options_(options),
        handler_(handler),
        context_(loop.context()),
        acceptor_(*context_),
        counter_(std::make_shared<ConnectionCounter>()),
        retry_(*context_) {}

  ~ListeningServer() override {
    counter_->EndServer();
    StopAccepting();
  }

  Status Open() {
    error_code error;
    std::string_view text = options_.address;
    if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
    const auto address = asio::ip::make_address(text, error);
    if (error) {
      return Error(ErrorCode::kInvalidArgument,
                   "'" + options_.address + "' is not an IP address to listen on.");
    }
    const tcp::endpoint endpoint(address, options_.port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error && address.is_v6()) {
      // "::" takes IPv4 as well, whatever the machine's default is.
      acceptor_.set_option(asio::ip::v6_only(!address.is_unspecified()), error);
    }
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error == asio::error::address_in_use) {
      return Error(ErrorCode::kAlreadyExists,
                   "Port " + std::to_string(options_.port) + " on " + options_.address +
                       " is in use: another program, or another weft, listens there. Stop it or "
                       "choose another port with --port.");
    }
    if (error) {
      return Error(ErrorCode::kIo, "Cannot listen on " + options_.address + " port " +
                                       std::to_string(options_.port) + ": " + error.message() +
                                       ".");
    }
    Accept();
    return OkStatus();
  }

  uint16_t port() const override { return acceptor_.local_endpoint().port(); }

  void Drain(std::function<void()> on_drained) override {
    StopAccepting();
    counter_->OnAllAnswered(std::move(on_drained));
  }

 private:
  void StopAccepting() {
    error_code ignored;
    retry_.cancel();
    acceptor_.close(ignored);
  }

  void Accept() {
    acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) {  // out of descriptors: do not spin
        LogWarn("cannot accept a connection: {}", error.message());
        retry_.expires_after(std::chrono::milliseconds(100));
        retry_.async_wait([this](const error_code& stopped) {
          if (!stopped) Accept();
        });
        return;
      }
      OnAccepted(std::move(socket));
      Accept();
    });
  }

  void OnAccepted(tcp::socket socket) {
    error_code error;
    const auto remote = socket.remote_endpoint(error);
    if (error) return;
    socket.set_option(tcp::no_delay(true), error);
    // Also for what the kernel sends after this process has forgotten the connection: without it a
    // peer that takes nothing keeps the socket's memory for minutes.
    const auto stall_ms = static_cast<int>(options_.limits.write_stall.us / 1000);
    socket.set_option(asio::detail::socket_option::integer<IPPROTO_TCP, TCP_USER_TIMEOUT>(stall_ms),
                      error);
    const std::string address = AddressText(remote.address());
    const bool is_counted = !options_.uncounted_addresses.contains(address);
    if (!counter_->TryAdd(address, options_.limits, is_counted)) return LogRefused(address);
    auto place = std::make_shared<ConnectionPlace>(counter_, address);
    ServeHttp(AnyStream(std::move(socket), context_), options_, handler_, address,
              std::move(place));
  }

  // A flood of connections must not become a flood of lines.
  void LogRefused(const std::string& address) {
    constexpr Duration kLogInterval = Seconds(10);
    ++refused_count_;
    if (refused_logged_at_ && MonotonicNow() - *refused_logged_at_ < kLogInterval) return;
    LogWarn("too many connections: {} refused, the last one from {}", refused_count_, address);
    refused_count_ = 0;
    refused_logged_at_ = MonotonicNow();
  }

  const ServerOptions options_;
  ServerHandler* const handler_;
  const std::shared_ptr<LoopContext> context_;
  tcp::acceptor acceptor_;
  std::shared_ptr<ConnectionCounter> counter_;
  asio::steady_timer retry_;
  uint64_t refused_count_ = 0;  // since the last line of the log
  std::optional<Instant> refused_logged_at_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::Listen(EventLoop& loop, const ServerOptions& options,
                                               ServerHandler* handler) {
  auto server = std::make_unique<ListeningServer>(loop, options, handler);
  TRY(server->Open());
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace weft::net
