// Our use of libcurl, against a server of ours. pull_test.cc has proxies and certificates.
#include "registry/http_connections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <map>
#include <thread>

#include "net/server.h"

namespace weft::registry {
namespace {

using testing::HasSubstr;

// Redirects /to?PLACE to PLACE, sends so many bytes for /bytes?COUNT, and nothing for /wait.
class Handler : public net::ServerHandler {
 public:
  void OnRequest(net::HttpRequest request, std::shared_ptr<net::Responder> responder) override {
    net::HttpResponse response = net::TextResponse(200, "text/plain", "");
    response.headers.emplace_back("X-Method", request.method);
    response.headers.emplace_back("X-Token", std::string(request.Header("authorization")));
    if (request.path == "/to") {
      response.status = 307;
      response.headers.emplace_back("Location", request.query);
    } else if (request.path == "/bytes") {
      size_t count = 0;
      std::from_chars(request.query.data(), request.query.data() + request.query.size(), count);
      response.body.push_back(Slice::OfText(std::string(count, 'x')));
    } else if (request.path == "/wait") {
      waiting_.push_back(std::move(responder));
      return;
    }
    responder->Send(std::move(response));
  }
  bool OnHandshake(const net::HttpRequest&, net::HttpResponse*) override { return false; }
  net::WebSocketCallbacks OnWebSocket(const net::HttpRequest&,
                                      std::shared_ptr<net::WebSocket>) override {
    return {};
  }

 private:
  std::vector<std::shared_ptr<net::Responder>> waiting_;  // never answered
};

class HttpConnectionsTest : public testing::Test {
 protected:
  HttpConnectionsTest() : server_(net::Server::Listen(loop_, {}, &handler_).value()) {
    thread_ = std::thread([this] { loop_.Run(); });
  }
  ~HttpConnectionsTest() override {
    loop_.Stop();
    thread_.join();
  }
  Request To(const std::string& target) const {
    Request request;
    request.url = *net::ParseUrl("http://127.0.0.1:" + std::to_string(server_->port()) + target);
    return request;
  }

  Proxies proxies_;
  TrustedCertificates certificates_;
  std::atomic<bool> cancelled_ = false;
  HttpConnections connections_{proxies_, certificates_, cancelled_};
  net::EventLoop loop_;
  Handler handler_;
  std::unique_ptr<net::Server> server_;
  std::thread thread_;
};

TEST_F(HttpConnectionsTest, SayWhereARedirectionLeads) {
  const std::string here = "http://127.0.0.1:" + std::to_string(server_->port());
  const std::map<std::string, std::string> places = {
      {"/x%2Fy?sig=a%2Bb&n=1", here + "/x%2Fy?sig=a%2Bb&n=1"},
      {"http://other/z", "http://other/z"},
      {"//cdn.example/z?q", "http://cdn.example/z?q"},
      {"z", here + "/z"},
      {"../../z?q", here + "/z?q"}};
  for (const auto& [place, whole] : places) {
    const auto answer = connections_.Send(To("/to?" + place));
    ASSERT_TRUE(answer.ok()) << answer.error().ToString();
    EXPECT_EQ(answer->reply.status, 307);
    EXPECT_EQ(answer->redirected, whole);
  }
  EXPECT_EQ(connections_.Send(To("/"))->redirected, "");
}

TEST_F(HttpConnectionsTest, AskForHeadsAndNameTheirToken) {
  Request request = To("/bytes?100");
  request.head = true;
  request.bearer = "hf_secret";
  auto answer = connections_.Send(request);
  ASSERT_TRUE(answer.ok()) << answer.error().ToString();
  EXPECT_EQ(answer->reply.Header("x-method"), "HEAD");
  EXPECT_EQ(answer->reply.Header("content-length"), "100");
  EXPECT_EQ(answer->reply.Header("x-token"), "Bearer hf_secret");
  EXPECT_EQ(answer->reply.body, "");
  answer = connections_.Send(To("/bytes?3"));  // neither is kept for the next request
  ASSERT_TRUE(answer.ok()) << answer.error().ToString();
  EXPECT_EQ(answer->reply.Header("x-method"), "GET");
  EXPECT_EQ(answer->reply.Header("x-token"), "");
  EXPECT_EQ(answer->reply.body, "xxx");
}

TEST_F(HttpConnectionsTest, EndWhenTheCallerWantsNoMore) {
  Request request = To("/bytes?3000000");
  size_t byte_count = 0;
  request.on_head = [](const net::HttpReply& head) { return head.status != 200; };
  request.on_data = [&](ByteSpan bytes) {
    byte_count += bytes.size();
    return byte_count < 500000;
  };
  EXPECT_EQ(connections_.Send(request).error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(byte_count, 0u);
  request.on_head = nullptr;
  EXPECT_EQ(connections_.Send(request).error().code(), ErrorCode::kCancelled);
  EXPECT_GE(byte_count, 500000u);
  EXPECT_LT(byte_count, 3000000u);
  Request empty = To("/");  // a reply without a body has a head, too
  empty.on_head = [](const net::HttpReply&) { return false; };
  EXPECT_EQ(connections_.Send(empty).error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(connections_.Send(To("/bytes?20000000")).error().code(), ErrorCode::kInvalidData);
  EXPECT_TRUE(connections_.Send(To("/")).ok());
}

TEST_F(HttpConnectionsTest, EndWhenTheyAreCancelledWhileAServerIsSilent) {
  std::thread later([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    cancelled_ = true;
  });
  EXPECT_EQ(connections_.Send(To("/wait")).error().code(), ErrorCode::kCancelled);
  later.join();
}

TEST_F(HttpConnectionsTest, TellPlainHttpFromCertificatesThatAreNotTrusted) {
  Request request = To("/");
  request.url.tls = true;
  const auto answer = connections_.Send(request);
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code(), ErrorCode::kPermissionDenied);
  EXPECT_THAT(answer.error().message(), HasSubstr("speaks plain http"));
  certificates_.file = "/nowhere.pem";
  EXPECT_THAT(connections_.Send(request).error().message(), HasSubstr("SSL_CERT_FILE"));
}

}  // namespace
}  // namespace weft::registry
