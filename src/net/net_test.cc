// The server against our own client and, where bytes must be wrong, against raw sockets.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <thread>

#include "base/random.h"
#include "net/address.h"
#include "net/client.h"
#include "net/server.h"
#include "net/thread_pool.h"

namespace weft::net {
namespace {

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

TEST_F(NetTest, AnswersAndKeepsTheConnection) {
  Listen();
  HttpClient client(ServerUrl("http"), {});
  for (int i = 0; i < 3; ++i) {
    HttpCall call;
    call.method = "POST";
    call.path = "/echo%20it?q=a%2Bb";
    call.body = std::string(100000, 'x');
    const auto reply = client.Call(call);
    ASSERT_TRUE(reply.ok()) << reply.error().ToString();
    EXPECT_EQ(reply->body, "POST /echo it a+b " + call.body);
  }
}

TEST_F(NetTest, StreamsChunks) {
  Listen();
  HttpClient client(ServerUrl("http"), {});
  HttpCall call;
  call.path = "/stream";
  std::string got;
  const auto reply = client.Call(call, [&](ByteSpan data) {
    got += AsText(data);
    return true;
  });
  ASSERT_TRUE(reply.ok()) << reply.error().ToString();
  EXPECT_EQ(got, "one two three");
}

TEST_F(NetTest, HeadHasLengthAndNoBodyAndTheConnectionGoesOn) {
  Listen();
  HttpClient client(ServerUrl("http"), {});
  HttpCall call;
  call.method = "HEAD";
  call.path = "/abc";
  for (int i = 0; i < 2; ++i) {
    const auto reply = client.Call(call);
    ASSERT_TRUE(reply.ok()) << reply.error().ToString();
    EXPECT_EQ(reply->Header("content-length"), "11");  // "HEAD /abc  "
    EXPECT_EQ(reply->body, "");
  }
}

TEST_F(NetTest, ALookAtTheHeadMayStopATransfer) {
  Listen();
  HttpClient client(ServerUrl("http"), {});
  int status = 0;
  const auto reply = client.Call({}, nullptr, [&](const HttpReply& head) {
    status = head.status;
    return false;
  });
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(status, 200);
  EXPECT_TRUE(client.Call({}).ok());  // on a fresh connection
}

TEST_F(NetTest, RefusesAReplyBeyondItsLimit) {
  Listen();
  HttpClient client(ServerUrl("http"), {});
  HttpCall call;
  call.reply_limit_bytes = 5;
  const auto reply = client.Call(call);
  ASSERT_FALSE(reply.ok());
  EXPECT_NE(reply.error().message().find("longer than"), std::string::npos);
}

TEST_F(NetTest, ACallCanBeCancelledWhileItWaits) {
  Listen();
  HttpClient client(ServerUrl("http"), {});
  std::atomic<bool> cancelled = false;
  HttpCall call;
  call.path = "/hold";
  call.cancelled = &cancelled;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cancelled = true;
  });
  const auto reply = client.Call(call);  // the server never answers; the limit is 30 s
  later.join();
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().code(), ErrorCode::kCancelled);
}

TEST_F(NetTest, KnowsTheUserOfALoopbackClient) {
  Listen();
  HttpCall call;
  call.path = "/who";
  {
    HttpClient client(ServerUrl("http"), {});
    for (int i = 0; i < 2; ++i) {
      const auto reply = client.Call(call);
      ASSERT_TRUE(reply.ok()) << reply.error().ToString();
      EXPECT_EQ(reply->body, std::to_string(getuid()));
    }
  }
  loop_.Stop();
  thread_.join();
  EXPECT_EQ(handler_.last_request.peer_user(), getuid());  // found while it was there
  EXPECT_EQ(HttpRequest().peer_user(), std::nullopt);
}

TEST_F(NetTest, DroppedResponderAnswers500) {
  Listen();
  HttpClient client(ServerUrl("http"), {});
  HttpCall call;
  call.path = "/drop";
  const auto reply = client.Call(call);
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->status, 500);
}

TEST_F(NetTest, DrainsWhenTheLastAnswerIsSent) {
  Listen();
  std::promise<void> drained;
  auto is_drained = drained.get_future();
  auto reply = std::async(std::launch::async, [&] {
    HttpClient client(ServerUrl("http"), {});
    HttpCall call;
    call.path = "/hold";
    return client.Call(call);
  });
  handler_.is_held.get_future().wait();
  const Url url = ServerUrl("http");
  loop_.Post([&] { server_->Drain([&] { drained.set_value(); }); });
  EXPECT_EQ(is_drained.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  EXPECT_FALSE(HttpClient(url, {}).Call({}).ok());  // accepts nothing new
  const std::string body(10'000'000, 'x');          // more than a socket takes at once
  loop_.Post([&] { handler_.held->Send(TextResponse(503, "text/plain", body)); });
  ASSERT_EQ(is_drained.wait_for(std::chrono::seconds(5)), std::future_status::ready);
  const auto held_reply = reply.get();
  ASSERT_TRUE(held_reply.ok()) << held_reply.error().ToString();
  EXPECT_EQ(held_reply->status, 503);
  EXPECT_EQ(held_reply->body, body);
}

TEST_F(NetTest, NoticesAClientThatLeaves) {
  Listen();
  {
    HttpClient client(ServerUrl("http"), {});
    HttpCall call;
    call.path = "/hold";
    call.timeout = Milliseconds(100);
    EXPECT_FALSE(client.Call(call).ok());
  }
  EXPECT_EQ(handler_.client_left.get_future().wait_for(std::chrono::seconds(5)),
            std::future_status::ready);
}

TEST_F(NetTest, RefusesBeyondLimits) {
  Listen();
  EXPECT_TRUE(Raw("GET / HTTP/1.1\r\nX: " + std::string(9000, 'a') + "\r\n\r\n")
                  .starts_with("HTTP/1.1 431"));
  EXPECT_TRUE(
      Raw("POST / HTTP/1.1\r\nContent-Length: 2000000\r\n\r\n").starts_with("HTTP/1.1 413"));
  EXPECT_TRUE(Raw("NONSENSE\r\n\r\n").starts_with("HTTP/1.1 400"));
  EXPECT_TRUE(Raw("GET /a/../../etc/passwd HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400"));
  EXPECT_TRUE(Raw("GET /%2e%2e/x HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400"));
  EXPECT_TRUE(Raw("GET /%00 HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400"));
  EXPECT_EQ(Raw("GET / HTTP/1.1\r\n"),
            "");  // never completes its header: cut off after the handshake time
}

TEST_F(NetTest, PortInUseSaysSo) {
  Listen();
  ServerOptions options;
  options.port = server_->port();
  const auto second = Server::Listen(loop_, options, &handler_);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message().find("is in use"), std::string::npos);
}

// Talks to /ws: sends `first`, then "bye"; gives what came back and the close reason.
std::pair<std::string, std::string> EchoOnce(const Url& url, const ClientTls& tls,
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

TEST_F(NetTest, WebSocketEchoes) {
  Listen();
  const std::string big(3000000, 'w');
  const auto [echo, reason] = EchoOnce(ServerUrl("ws", "/ws"), {}, big);
  EXPECT_EQ(echo, big);
  EXPECT_EQ(reason, "as you wish");
}

TEST_F(NetTest, WebSocketRefusalCarriesTheReason) {
  Listen();
  const auto [echo, reason] = EchoOnce(ServerUrl("ws", "/elsewhere"), {}, "x");
  EXPECT_NE(reason.find("403: not here"), std::string::npos) << reason;
}

TEST_F(NetTest, SelfSignedTlsWithPinnedCertificate) {
  const auto folder = std::filesystem::temp_directory_path() / ("weft-tls-" + SecureRandomHex(6));
  const auto tls = SelfSignedTls(folder, {"localhost", "127.0.0.1"});
  ASSERT_TRUE(tls.ok()) << tls.error().ToString();
  const auto again = SelfSignedTls(folder, {"127.0.0.1"});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(CertificateFingerprint(**tls), CertificateFingerprint(**again));  // kept, not remade
  Listen(*tls);
  ClientTls pinned;
  pinned.pinned_fingerprint = CertificateFingerprint(**tls);
  HttpClient client(ServerUrl("https"), pinned);
  const auto reply = client.Call({});
  ASSERT_TRUE(reply.ok()) << reply.error().ToString();
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(EchoOnce(ServerUrl("wss", "/ws"), pinned, "safe").first, "safe");

  ClientTls wrong;
  wrong.pinned_fingerprint = std::string(64, '0');
  EXPECT_FALSE(HttpClient(ServerUrl("https"), wrong).Call({}).ok());
  EXPECT_FALSE(HttpClient(ServerUrl("https"), {}).Call({}).ok());  // system trust: refused
  EXPECT_NE(Raw("GET / HTTP/1.1\r\n\r\n").find("speaks https"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(Address, ParsesUrls) {
  const auto url = ParseUrl("wss://example.org:8443/worker#secret");
  ASSERT_TRUE(url.ok());
  EXPECT_TRUE(url->tls);
  EXPECT_EQ(url->Authority(), "example.org:8443");
  EXPECT_EQ(url->path, "/worker");
  EXPECT_EQ(url->fragment, "secret");
  EXPECT_EQ(ParseUrl("127.0.0.1:8080")->port, 8080);
  EXPECT_EQ(ParseUrl("http://[::1]:80")->host, "::1");
  for (const char* bad : {"", "ftp://x", "http://", "http://a:0", "http://a:99999", "ws://a b"}) {
    EXPECT_FALSE(ParseUrl(bad).ok()) << bad;
  }
}

TEST(Address, FollowsLocations) {
  const Url base = *ParseUrl("https://hub.example:8443/a/b");
  const auto target = [&](std::string_view location) {
    const auto url = ResolveLocation(base, location);
    return url.ok() ? url->Authority() + url->Target() + (url->tls ? " tls" : "") : "refused";
  };
  EXPECT_EQ(target("/x%2Fy?sig=a%2Bb&n=1"), "hub.example:8443/x%2Fy?sig=a%2Bb&n=1 tls");
  EXPECT_EQ(target("http://other/z"), "other:80/z");
  EXPECT_EQ(target("//cdn.example/z?q"), "cdn.example:443/z?q tls");
  EXPECT_EQ(target("z"), "refused");
  EXPECT_EQ(target("file:///etc/passwd"), "refused");
  EXPECT_EQ(target(""), "refused");
  EXPECT_EQ(PercentEncoded("refs/pr/1 \xC3\xBC~"), "refs%2Fpr%2F1%20%C3%BC~");
}

TEST(ThreadPool, RunsEverything) {
  std::atomic<int> count = 0;
  std::promise<void> all;
  ThreadPool pool(2);
  for (int i = 0; i < 100; ++i) {
    pool.Run([&] {
      if (++count == 100) all.set_value();
    });
  }
  all.get_future().wait();
  EXPECT_EQ(count, 100);
}

}  // namespace
}  // namespace weft::net
