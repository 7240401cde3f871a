#include "net/server.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/log.h"
#include "net/connection_limits.h"
#include "net/http_connection.h"

namespace weft::net {
namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

namespace {

class ListeningServer : public Server {
 public:
  ListeningServer(EventLoop& loop, const ServerOptions& options, ServerHandler* handler)
      : options_(options),
        handler_(handler),
        acceptor_(loop.io()),
        counter_(std::make_shared<ConnectionCounter>()),
        retry_(loop.io()) {}

  ~ListeningServer() override {
    counter_->OnAllAnswered(nullptr);
    StopAccepting();
  }

  Status Open() {
    error_code error;
    const auto address = asio::ip::make_address(options_.address, error);
    if (error) {
      return Error(ErrorCode::kInvalidArgument,
                   "'" + options_.address + "' is not an IP address to listen on.");
    }
    const tcp::endpoint endpoint(address, options_.port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
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
    const std::string address = remote.address().to_string();
    if (!counter_->TryAdd(address, options_.limits)) {
      LogWarn("refused a connection from {}: too many connections", address);
      return;
    }
    auto place = std::make_shared<ConnectionPlace>(counter_, address);
    ServeHttp(AnyStream(std::move(socket)), options_, handler_, address, std::move(place));
  }

  const ServerOptions options_;
  ServerHandler* const handler_;
  tcp::acceptor acceptor_;
  std::shared_ptr<ConnectionCounter> counter_;
  asio::steady_timer retry_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::Listen(EventLoop& loop, const ServerOptions& options,
                                               ServerHandler* handler) {
  auto server = std::make_unique<ListeningServer>(loop, options, handler);
  TRY(server->Open());
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace weft::net
