// What the log has of a request, and what it never has.
#include "server/access_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "server/counted_responder.h"
#include "server/router.h"
#include "server/server_testing.h"

namespace weft::server {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string IdFor(const std::string& given) {
  net::HttpRequest request;
  request.headers = {{"x-request-id", given}};
  return RequestIdOf(request);
}

TEST(RequestIdTest, ASaneOneIsTakenOver) {
  EXPECT_EQ(IdFor("a"), "a");
  EXPECT_EQ(IdFor("Trace-7.f:3_a"), "Trace-7.f:3_a");
  EXPECT_EQ(IdFor(std::string(128, 'x')), std::string(128, 'x'));
}

TEST(RequestIdTest, AnyOtherIsReplaced) {
  for (const std::string& bad :
       {std::string(), std::string(129, 'x'), std::string("a b"), std::string("a\x1b[2J"),
        std::string("\"x\""), std::string("\xc3\xa9")}) {
    const std::string made = IdFor(bad);
    EXPECT_EQ(made.size(), 16u) << bad;
    EXPECT_NE(made, IdFor(bad)) << "each request has its own";
  }
}

TEST(PrintableTest, NoByteOfAStrangerReachesATerminal) {
  EXPECT_EQ(Printable("/v1/models"), "/v1/models");
  EXPECT_EQ(Printable("/a b\n\x1b\"\\%\xff"), "/a%20b%0A%1B%22%5C%25%FF");
  EXPECT_EQ(Printable(std::string(300, 'p')), std::string(200, 'p') + "...");
}

class AccessLogTest : public testing::Test {
 protected:
  AccessLogTest() {
    SetLogLevel("info");
    const auto say = [](const net::HttpRequest& request,
                        const std::shared_ptr<net::Responder>& client) {
      held_ = nullptr;
      if (request.path == "/stream") {
        client->StartStream(200, {});
        client->Write("12345");
        held_ = client;
        return;
      }
      auto counted = std::dynamic_pointer_cast<CountedResponder>(client);
      ASSERT_TRUE(counted);
      counted->CountToken();
      counted->CountEnd("tiny", 7, 3);
      counted->CountEnd("tiny", 9, 2);
      client->Send(net::TextResponse(200, "text/plain", "hello"));
    };
    std::vector<Route> routes = {{"POST", "/ask", Secret::kNone, 1000, say, nullptr, nullptr},
                                 {"GET", "/stream", Secret::kNone, 0, say, nullptr, nullptr}};
    router_ = std::make_unique<Router>(std::move(routes));
    AccessPolicy access;
    access.allowed_hosts = {"127.0.0.1:8080"};
    router_->SetAccess(std::move(access));
    router_->LogRequests();
  }
  std::string Ask(const std::string& method, const std::string& path) {
    net::HttpRequest request;
    request.method = method;
    request.path = path;
    request.query = "key=hidden";
    if (method == "POST") request.body = "a secret prompt";
    request.remote_address = "10.0.0.9";
    request.headers = {
        {"host", "127.0.0.1:8080"}, {"x-request-id", "mine"}, {"authorization", "Bearer hidden"}};
    client_ = std::make_shared<RecordingResponder>();
    testing::internal::CaptureStderr();
    router_->OnRequest(std::move(request), client_);
    return testing::internal::GetCapturedStderr();
  }

  static std::shared_ptr<net::Responder> held_;
  std::unique_ptr<Router> router_;
  std::shared_ptr<RecordingResponder> client_;
};
std::shared_ptr<net::Responder> AccessLogTest::held_;

TEST_F(AccessLogTest, AnAnswerLeavesALine) {
  const std::string line = Ask("POST", "/ask");
  EXPECT_THAT(line,
              HasSubstr(" request request_id=mine method=POST path=/ask status=200 bytes=5 "));
  EXPECT_THAT(line, HasSubstr(" address=10.0.0.9 model=tiny first_token_ms="));
  EXPECT_THAT(line, HasSubstr(" prompt_tokens=7 tokens=5\n"));
  EXPECT_THAT(line, Not(HasSubstr("hidden")));
  EXPECT_THAT(line, Not(HasSubstr("secret")));
  EXPECT_EQ(client_->Header("X-Request-Id"), "mine");
}

TEST_F(AccessLogTest, ARefusalLeavesALine) {
  EXPECT_THAT(Ask("GET", "/nothing"), HasSubstr(" path=/nothing status=404 bytes="));
  EXPECT_EQ(client_->Header("X-Request-Id"), "mine");
}

TEST_F(AccessLogTest, AStreamLeavesItsLineAtItsEnd) {
  EXPECT_EQ(Ask("GET", "/stream"), "");
  testing::internal::CaptureStderr();
  held_->End();
  held_ = nullptr;
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_THAT(line, HasSubstr(" path=/stream status=200 bytes=5 "));
  EXPECT_THAT(line, Not(HasSubstr("cut_off")));
}

TEST_F(AccessLogTest, AStreamWhoseClientWentAwaySaysSo) {
  EXPECT_EQ(Ask("GET", "/stream"), "");
  testing::internal::CaptureStderr();
  held_ = nullptr;
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("status=200 bytes=5 "));
}

TEST_F(AccessLogTest, ARequestThatIsNoneHasALineAndAnId) {
  testing::internal::CaptureStderr();
  const net::HttpResponse response = router_->MakeError(400, "Malformed.", {});
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("status=400"));
  EXPECT_TRUE(std::any_of(response.headers.begin(), response.headers.end(),
                          [](const auto& header) { return header.first == "X-Request-Id"; }));
}

}  // namespace
}  // namespace weft::server
