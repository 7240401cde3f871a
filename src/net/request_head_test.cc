// Heads of requests, whole and not.
#include "net/request_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::net {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(RequestTarget, HasFourForms) {
  const auto target = [](const char* method, const char* text) {
    const auto parsed = ParseTarget(method, text);
    return parsed ? parsed->authority + "|" + parsed->path + "|" + parsed->query : "refused";
  };
  EXPECT_EQ(target("GET", "/v1/a%20b?x=%20"), "|/v1/a b|x=%20");
  EXPECT_EQ(target("GET", "http://host:80/v1?x"), "host:80|/v1|x");
  EXPECT_EQ(target("GET", "HTTPS://[::1]:8443/"), "[::1]:8443|/|");
  EXPECT_EQ(target("GET", "http://host"), "host|/|");
  EXPECT_EQ(target("GET", "http://host?x"), "host|/|x");
  EXPECT_EQ(target("OPTIONS", "*"), "|*|");
  EXPECT_EQ(target("OPTIONS", "http://host"), "host|*|");
  EXPECT_EQ(target("OPTIONS", "http://host/"), "host|/|");
  EXPECT_EQ(target("GET", "/http://host/"), "|/http://host/|");
  for (const char* bad : {"*", "", "host:80", "http:///x", "http://user@host/", "ftp://host/",
                          "http://host/../x", "/%2e%2e/x", "/a\\b", "/%00", "/%zz", "v1"}) {
    EXPECT_EQ(target("GET", bad), "refused") << bad;
  }
}

TEST(RequestHead, TransferCodings) {
  const auto status = [](Headers headers, bool is_http_1_0 = false) {
    HttpRequest head;
    head.headers = std::move(headers);
    head.is_http_1_0 = is_http_1_0;
    const auto refused = CheckFraming(head);
    return refused ? refused->status : 0;
  };
  EXPECT_EQ(status({}), 0);
  EXPECT_EQ(status({{"transfer-encoding", "Chunked"}}), 0);
  EXPECT_EQ(status({{"transfer-encoding", " chunked ,"}}), 0);
  EXPECT_EQ(status({{"transfer-encoding", "gzip, chunked"}}), 501);
  EXPECT_EQ(status({{"transfer-encoding", "gzip"}, {"transfer-encoding", "chunked"}}), 501);
  EXPECT_EQ(status({{"transfer-encoding", "identity"}}), 501);
  EXPECT_EQ(status({{"transfer-encoding", "chunked"}}, true), 400);
}

TEST(RequestHead, WhoWaitsToSend) {
  HttpRequest head;
  head.headers = {{"expect", "x, 100-Continue"}};
  EXPECT_TRUE(ExpectsContinue(head));
  head.is_http_1_0 = true;
  EXPECT_FALSE(ExpectsContinue(head));
}

TEST(RequestHead, IsReadAsFarAsItCame) {
  EXPECT_THAT(ScanFields("GET / HTTP/1.1\r\nOrigin:  https://a \r\nnonsense\r\nX: 1\nHalf: va"),
              ElementsAre(Pair("origin", "https://a"), Pair("x", "1")));
  EXPECT_THAT(ScanFields("A: 1\r\n\r\nB: 2\r\n"), ElementsAre(Pair("a", "1")));
  EXPECT_TRUE(NamesOtherVersion("PRI * HTTP/2.0\r\n\r\n"));
  EXPECT_FALSE(NamesOtherVersion("GET / HTTP/1.1\r\n"));
  EXPECT_FALSE(NamesOtherVersion("GET / nonsense\r\n"));
}

}  // namespace
}  // namespace weft::net
