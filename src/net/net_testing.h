// A server with a simple handler on a thread of its own, for tests of src/net.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "net/address.h"
#include "net/client.h"
#include "net/loop.h"
#include "net/server.h"

namespace weft::net {

// Runs the loop until that is so, ten seconds at most.
inline void RunUntil(EventLoop& loop, const std::function<bool()>& is_so) {
  const Instant end = MonotonicNow() + Seconds(10);
  EventLoop::Timer look(loop);
  std::function<void()> check = [&] {
    if (is_so() || MonotonicNow() > end) return loop.Stop();
    look.FireAfter(Milliseconds(2), check);
  };
  check();
  loop.Run();
  EXPECT_TRUE(is_so());
}

// A client that sends whatever bytes a test wants, and may neither read nor close.
class RawClient {
 public:
  // `receive_buffer`: bytes that the kernel takes for a client that does not read; 0: its default.
  explicit RawClient(uint16_t port, int receive_buffer = 0, bool over_v6 = false) {
    fd_ = socket(over_v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
    if (receive_buffer > 0) {
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    }
    sockaddr_in v4 = {};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in6 v6 = {};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    v6.sin6_addr = in6addr_loopback;
    const void* generic = &v4;
    if (over_v6) generic = &v6;
    is_connected_ =
        connect(fd_, static_cast<const sockaddr*>(generic), over_v6 ? sizeof(v6) : sizeof(v4)) == 0;
  }
  ~RawClient() { Close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool is_connected() const { return is_connected_; }
  // False when the server has closed.
  bool Send(std::string_view bytes) const {
    return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  void EndSending() const { shutdown(fd_, SHUT_WR); }
  // What comes until `end` has come or the server closes.
  std::string ReadUntil(std::string_view end) const {
    std::string got;
    char byte = 0;
    while (!got.ends_with(end) && recv(fd_, &byte, 1, 0) == 1) got += byte;
    return got;
  }
  std::string ReadSome(size_t limit) const {
    std::string got(limit, '\0');
    got.resize(static_cast<size_t>(std::max<ssize_t>(recv(fd_, got.data(), limit, 0), 0)));
    return got;
  }
  std::string ReadAll() const {
    std::string got;
    char buffer[4096];
    for (ssize_t count; (count = recv(fd_, buffer, sizeof(buffer), 0)) > 0;) {
      got.append(buffer, static_cast<size_t>(count));
    }
    return got;
  }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
  bool is_connected_ = false;
};

// Waits for `future`; false when it takes longer than anything here should.
template <typename T>
bool Comes(std::future<T>&& future) {
  return future.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
}

// /echo answers the body; /stream three chunks; /hold never answers and notes when the client
// leaves; /events is a stream that stays open and /large an answer of 64 MiB, both noting it, too;
// /pieces is "one", "two" and "three", each prepared; /204 and /304 are answers without a body; ws
// echoes. Errors of the server itself are JSON.
class TestHandler : public ServerHandler {
 public:
  void OnRequest(HttpRequest request, std::shared_ptr<Responder> responder) override {
    last_request = request;
    if (request.path == "/stream") {
      responder->StartStream(200, {{"Content-Type", "text/event-stream"}});
      for (const char* chunk : {"one ", "two ", "three"}) responder->Write(chunk);
      responder->End();
    } else if (request.path == "/hold" || request.path == "/events") {
      held = responder;
      responder->OnClosed([this] { client_left.set_value(); });
      if (request.path == "/events") {
        responder->StartStream(200, {{"Content-Type", "text/event-stream"}});
        responder->Write("data: first\n\n");
      }
      is_held.set_value();
    } else if (request.path == "/large") {
      responder->OnClosed([this] { client_left.set_value(); });
      responder->Send(TextResponse(200, "text/plain", std::string(64 << 20, 'x')));
    } else if (request.path == "/pieces") {
      responder->OnClosed([this] { client_left.set_value(); });
      HttpResponse response;
      for (const char* piece : {"one", "two", "three"}) {
        response.body.push_back(Slice::OfText(piece));
      }
      response.prepare = prepare;
      responder->Send(std::move(response));
    } else if (request.path == "/204" || request.path == "/304") {
      responder->Send({request.path == "/204" ? 204 : 304, {}, {}});
    } else if (request.path == "/who") {
      const auto user = request.peer_user();
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
    if (request.path == "/ws" || request.path == "/ws-held") return true;
    *refusal = TextResponse(request.path == "/secret" ? 401 : 404, "text/plain", "not here");
    return false;
  }
  WebSocketCallbacks OnWebSocket(const HttpRequest& request,
                                 std::shared_ptr<WebSocket> socket) override {
    socket->SetMessageLimit(websocket_message_bytes);
    WebSocketCallbacks callbacks;
    if (request.path == "/ws-held") {
      held_socket = socket;
      callbacks.on_message = [this](Slice message) { held_bytes += message.byte_count(); };
    } else {
      callbacks.on_message = [socket](Slice message) {
        if (AsText(message.bytes()) == "bye") return socket->Close("as you wish");
        if (message.empty()) return socket->Send({});
        socket->Send({message.Sub(0, 1), message.Sub(1, message.byte_count() - 1)});
      };
    }
    callbacks.on_closed = [this](const std::string& reason) { socket_closed.set_value(reason); };
    is_open.set_value();
    return callbacks;
  }
  HttpResponse MakeError(int status, const std::string& sentence,
                         const HttpRequest& head) override {
    failed_request = head;
    return TextResponse(status, "application/json", "{\"error\":\"" + sentence + "\"}");
  }

  size_t BodyLimit(const HttpRequest& head) override {
    return head.path == "/short" ? 10 : size_t{1} << 40;
  }

  HttpRequest last_request;
  HttpRequest failed_request;  // of MakeError
  std::function<void(const Slice&, std::function<void()>)> prepare;
  std::shared_ptr<Responder> held;
  std::promise<void> is_held;
  std::promise<void> client_left;
  size_t websocket_message_bytes = 64 << 20;
  std::shared_ptr<WebSocket> held_socket;
  size_t held_bytes = 0;
  std::promise<void> is_open;
  std::promise<std::string> socket_closed;
};

class NetTest : public testing::Test {
 protected:
  void Listen(const std::shared_ptr<TlsContext>& tls = nullptr) {
    options_.tls = tls;
    auto server = Server::Listen(loop_, options_, &handler_);
    ASSERT_TRUE(server.ok()) << server.error().ToString();
    server_ = std::move(server).value();
    thread_ = std::thread([this] { loop_.Run(); });
  }
  void TearDown() override { StopServing(); }
  // Afterwards this thread may look at what the handler has.
  void StopServing() {
    loop_.Stop();
    if (thread_.joinable()) thread_.join();
    handler_.held = nullptr;
    handler_.held_socket = nullptr;
  }
  void OnLoop(std::function<void()> work) {
    std::promise<void> done;
    loop_.Post([&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }
  // Whether `condition`, looked at on the loop, comes true before too long.
  bool Holds(const std::function<bool()>& condition) {
    const Instant end = MonotonicNow() + Seconds(20);
    for (bool holds = false; MonotonicNow() < end; std::this_thread::yield()) {
      OnLoop([&] { holds = condition(); });
      if (holds) return true;
    }
    return false;
  }
  Url ServerUrl(const std::string& scheme, const std::string& path = "/") const {
    return *ParseUrl(scheme + "://127.0.0.1:" + std::to_string(server_->port()) + path);
  }
  // Sends raw bytes, returns everything until the server closes.
  std::string Raw(const std::string& bytes) const {
    const RawClient client(server_->port());
    EXPECT_TRUE(client.Send(bytes));
    return client.ReadAll();
  }

  EventLoop loop_;
  TestHandler handler_;
  ServerOptions options_;  // before Listen
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

// Talks to /ws: sends `first`, then "bye"; gives what came back and the close reason.
inline std::pair<std::string, std::string> EchoOnce(const Url& url, const ClientTls& tls,
                                                    const std::string& first) {
  EventLoop loop;
  std::pair<std::string, std::string> outcome;
  ConnectWebSocket(
      loop, url, tls, {}, {},
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
