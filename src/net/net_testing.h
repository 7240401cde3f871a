// A server with a simple handler on a thread of its own, for tests of src/net.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <string>
#include <thread>

#include "net/address.h"
#include "net/client.h"
#include "net/server.h"

namespace weft::net {

// /echo answers the body; /stream three chunks; /hold never answers and notes when the client
// leaves; ws echoes.
class TestHandler : public ServerHandler {
 public:
  void OnRequest(HttpRequest request, std::shared_ptr<Responder> responder) override {
    if (request.path == "/stream") {
      responder->StartStream(200, {{"Content-Type", "text/event-stream"}});
      for (const char* chunk : {"one ", "two ", "three"}) responder->Write(chunk);
      responder->End();
    } else if (request.path == "/hold") {
      held = responder;
      responder->OnClosed([this] { client_left.set_value(); });
      is_held.set_value();
    } else if (request.path == "/who") {
      const auto user = request.peer_user();
      last_request = request;
      responder->Send(TextResponse(200, "text/plain", user ? std::to_string(*user) : "a stranger"));
    } else if (request.path == "/drop") {
      // the responder is dropped without an answer
    } else {
      responder->Send(TextResponse(200, "text/plain",
                                   request.method + " " + request.path + " " +
                                       request.QueryValue("q") + " " + request.body));
    }
  }
  bool OnHandshake(const HttpRequest& request, HttpResponse* refusal) override {
    if (request.path == "/ws") return true;
    *refusal = TextResponse(403, "text/plain", "not here");
    return false;
  }
  WebSocketCallbacks OnWebSocket(const HttpRequest&, std::shared_ptr<WebSocket> socket) override {
    WebSocketCallbacks callbacks;
    callbacks.on_message = [socket](Slice message) {
      if (AsText(message.bytes()) == "bye") return socket->Close("as you wish");
      socket->Send({message.Sub(0, 1), message.Sub(1, message.byte_count() - 1)});
    };
    callbacks.on_closed = [](std::string) {};
    return callbacks;
  }

  HttpRequest last_request;
  std::shared_ptr<Responder> held;
  std::promise<void> is_held;
  std::promise<void> client_left;
};

class NetTest : public testing::Test {
 protected:
  void Listen(const std::shared_ptr<TlsContext>& tls = nullptr) {
    ServerOptions options;
    options.tls = tls;
    options.limits.handshake = Milliseconds(300);
    auto server = Server::Listen(loop_, options, &handler_);
    ASSERT_TRUE(server.ok()) << server.error().ToString();
    server_ = std::move(server).value();
    thread_ = std::thread([this] { loop_.Run(); });
  }
  void TearDown() override {
    loop_.Stop();
    if (thread_.joinable()) thread_.join();
    handler_.held = nullptr;
  }
  Url ServerUrl(const std::string& scheme, const std::string& path = "/") const {
    return *ParseUrl(scheme + "://127.0.0.1:" + std::to_string(server_->port()) + path);
  }
  // Sends raw bytes, returns everything until the server closes.
  std::string Raw(const std::string& bytes) const {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const void* generic = &address;
    EXPECT_EQ(connect(fd, static_cast<const sockaddr*>(generic), sizeof(address)), 0);
    EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    std::string reply;
    char buffer[4096];
    for (ssize_t count; (count = recv(fd, buffer, sizeof(buffer), 0)) > 0;) {
      reply.append(buffer, static_cast<size_t>(count));
    }
    close(fd);
    return reply;
  }

  EventLoop loop_;
  TestHandler handler_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

// Talks to /ws: sends `first`, then "bye"; gives what came back and the close reason.
inline std::pair<std::string, std::string> EchoOnce(const Url& url, const ClientTls& tls,
                                                    const std::string& first) {
  EventLoop loop;
  std::pair<std::string, std::string> outcome;
  ConnectWebSocket(
      loop, url, tls, {},
      [&](std::shared_ptr<WebSocket> socket) {
        socket->Send({Slice(std::vector<uint8_t>(first.begin(), first.end()))});
        WebSocketCallbacks callbacks;
        callbacks.on_message = [&, socket](Slice message) {
          outcome.first = AsText(message.bytes());
          socket->Send({Slice(std::vector<uint8_t>{'b', 'y', 'e'})});
        };
        callbacks.on_closed = [&](std::string reason) {
          outcome.second = std::move(reason);
          loop.Stop();
        };
        return callbacks;
      },
      [&](const Error& error) {
        outcome.second = error.message();
        loop.Stop();
      });
  loop.Run();
  return outcome;
}

}  // namespace weft::net
