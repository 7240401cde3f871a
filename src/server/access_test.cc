// Who is let in: hosts, origins, secrets; ranges of what is served.
#include <gtest/gtest.h>

#include "base/secret.h"
#include "server/access.h"
#include "server/static_files.h"

namespace weft::server {
namespace {

net::HttpRequest RequestWith(net::Headers headers) {
  net::HttpRequest request;
  request.method = "GET";
  request.path = "/api/swarm";
  request.headers = std::move(headers);
  return request;
}

AccessPolicy Policy() {
  AccessPolicy policy;
  policy.allowed_hosts = {"127.0.0.1:8080", "localhost:8080"};
  policy.allowed_origins = {"https://friend.example"};
  policy.api_key_hash = HashSecret("key-key-key");
  policy.join_token_hash = HashSecret("token-token");
  return policy;
}

TEST(Access, RefusesForeignHostsAgainstDnsRebinding) {
  EXPECT_FALSE(CheckHostAndOrigin(Policy(), RequestWith({{"host", "127.0.0.1:8080"}})));
  for (const char* host : {"evil.example", "127.0.0.1:8080.evil.example", "", "127.0.0.1"}) {
    const auto refusal = CheckHostAndOrigin(Policy(), RequestWith({{"host", host}}));
    ASSERT_TRUE(refusal) << host;
    EXPECT_EQ(refusal->status, 421);
  }
}

TEST(Access, NamesCountInEverySpelling) {
  const auto status = [](net::Headers headers, bool tls = false, bool old = false) {
    AccessPolicy policy = Policy();
    policy.allowed_hosts.insert({"[::1]:8080", "chat.example", "weft.example:443"});
    net::HttpRequest request = RequestWith(std::move(headers));
    request.over_tls = tls;
    request.is_http_1_0 = old;
    const auto refusal = CheckHostAndOrigin(policy, request, old);
    return refusal ? refusal->status : 200;
  };
  for (const char* host : {"LOCALHOST:8080", "localhost.:8080", "[0:0:0:0:0:0:0:1]:8080",
                           "Chat.Example", "chat.example:80", "chat.example:"}) {
    EXPECT_EQ(status({{"host", host}}), 200) << host;
  }
  EXPECT_EQ(status({{"host", "chat.example:443"}}, true), 200);
  EXPECT_EQ(status({{"host", "weft.example"}}, true), 200);
  EXPECT_EQ(status({{"host", "weft.example"}}), 421);
  EXPECT_EQ(status({{"host", "chat.example:443"}}), 421);
  EXPECT_EQ(status({}), 400);
  EXPECT_EQ(status({{"host", "chat.example"}, {"host", "chat.example"}}), 400);
  EXPECT_EQ(status({}, false, true), 200);
  EXPECT_EQ(status({{"host", "evil.example"}}, false, true), 421);
  for (const char* origin : {"http://LOCALHOST:8080", "HTTPS://Friend.example:443"}) {
    EXPECT_EQ(status({{"host", "localhost:8080"}, {"origin", origin}}), 200) << origin;
  }
  EXPECT_EQ(status({{"host", "chat.example"}, {"origin", "http://chat.example:80"}}), 200);
}

TEST(Access, RefusesForeignOrigins) {
  const auto check = [](const char* origin) {
    return CheckHostAndOrigin(Policy(),
                              RequestWith({{"host", "localhost:8080"}, {"origin", origin}}));
  };
  EXPECT_FALSE(check("http://localhost:8080"));
  EXPECT_FALSE(check("https://friend.example"));
  for (const char* origin : {"http://evil.example", "https://localhost:8080", "null",
                             "https://friend.example.evil.example"}) {
    EXPECT_TRUE(check(origin)) << origin;
  }
}

TEST(Access, SecretsOnlyInTheHeader) {
  const auto may = [](net::Headers headers, Secret secret) {
    return !CheckSecret(Policy(), RequestWith(std::move(headers)), secret);
  };
  EXPECT_FALSE(may({}, Secret::kApiKey));
  for (const char* wrong : {"Bearer wrong", "Bearer ", "Bearer", "Basic key-key-key",
                            "Bearer token-token", "key-key-key"}) {
    EXPECT_FALSE(may({{"authorization", wrong}}, Secret::kApiKey)) << wrong;
  }
  EXPECT_TRUE(may({{"authorization", "Bearer key-key-key"}}, Secret::kApiKey));
  EXPECT_TRUE(may({{"authorization", "Bearer token-token"}}, Secret::kJoinToken));
  EXPECT_TRUE(may({{"x-api-key", "key-key-key"}}, Secret::kApiKey));
  EXPECT_TRUE(may({{"x-api-key", " token-token "}}, Secret::kJoinToken));
  for (const char* wrong : {"", "wrong", "Bearer key-key-key", "token-token"})
    EXPECT_FALSE(may({{"x-api-key", wrong}}, Secret::kApiKey)) << wrong;
  // Who shows two shows the one of Authorization.
  EXPECT_FALSE(
      may({{"authorization", "Bearer wrong"}, {"x-api-key", "key-key-key"}}, Secret::kApiKey));
  net::HttpRequest in_query = RequestWith({});
  in_query.query = "key=key-key-key";
  EXPECT_TRUE(CheckSecret(Policy(), in_query, Secret::kApiKey));
}

TEST(Access, SecretsOfEarlierStartsAreAsGood) {
  AccessPolicy policy = Policy();
  policy.earlier_api_key_hashes = {HashSecret("old-key"), HashSecret("older-key")};
  policy.earlier_join_token_hashes = {HashSecret("old-token")};
  std::vector<std::string> used;
  policy.on_use = [&used](const std::string& hash) { used.push_back(hash); };
  const auto may = [&policy](const std::string& secret, Secret wanted) {
    return !CheckSecret(policy, RequestWith({{"authorization", "Bearer " + secret}}), wanted);
  };
  EXPECT_TRUE(may("old-key", Secret::kApiKey));
  EXPECT_TRUE(may("older-key", Secret::kApiKey));
  EXPECT_TRUE(may("key-key-key", Secret::kApiKey));
  EXPECT_FALSE(may("old-token", Secret::kApiKey));
  EXPECT_TRUE(may("old-token", Secret::kJoinToken));
  EXPECT_TRUE(may("old-key", Secret::kJoinToken));
  EXPECT_FALSE(may("oldest-key", Secret::kJoinToken));
  EXPECT_EQ(used, (std::vector<std::string>{HashSecret("old-key"), HashSecret("older-key"),
                                            HashSecret("key-key-key"), HashSecret("old-token"),
                                            HashSecret("old-key")}));
}

TEST(Access, CorsOnlyForListedOrigins) {
  const auto headers_for = [](const char* origin) {
    return CorsHeaders(Policy(), RequestWith({{"origin", origin}}), "GET");
  };
  EXPECT_EQ(headers_for("http://localhost:8080"), (net::Headers{{"Vary", "Origin"}}));
  EXPECT_EQ(headers_for("https://friend.example")[1].second, "https://friend.example");
  EXPECT_TRUE(CorsHeaders({}, RequestWith({{"origin", "https://friend.example"}}), "GET").empty());
}

class Ranges : public testing::Test {
 protected:
  net::HttpResponse Ask(net::Headers headers) const {
    return RangedResponse(RequestWith(std::move(headers)), bytes_, "\"tag\"", "x/y",
                          Caching::kForever);
  }
  static std::string Body(const net::HttpResponse& response) {
    std::string text;
    for (const Slice& piece : response.body) text += AsText(piece.bytes());
    return text;
  }
  static std::string Header(const net::HttpResponse& response, const std::string& name) {
    for (const auto& [key, value] : response.headers) {
      if (key == name) return value;
    }
    return {};
  }
  const Slice bytes_{std::vector<uint8_t>{'0', '1', '2', '3', '4', '5', '6', '7', '8', '9'}};
};

TEST_F(Ranges, FollowRfc9110) {
  EXPECT_EQ(Body(Ask({})), "0123456789");
  EXPECT_EQ(Body(Ask({{"range", "bytes=2-4"}})), "234");
  EXPECT_EQ(Header(Ask({{"range", "bytes=2-4"}}), "Content-Range"), "bytes 2-4/10");
  EXPECT_EQ(Body(Ask({{"range", "bytes=7-"}})), "789");
  EXPECT_EQ(Body(Ask({{"range", "bytes=7-99"}})), "789");
  EXPECT_EQ(Body(Ask({{"range", "bytes=-3"}})), "789");
  EXPECT_EQ(Body(Ask({{"range", "bytes=2-4"}, {"if-range", "\"old\""}})), "0123456789");
  EXPECT_EQ(Body(Ask({{"range", "BYTES = 2-4 , "}})), "234");
  EXPECT_EQ(Body(Ask({{"range", "bytes=2-99999999999999999999"}})), "23456789");
  EXPECT_EQ(Body(Ask({{"range", "bytes=-99999999999999999999"}})), "0123456789");
  EXPECT_EQ(Body(Ask({{"range", "bytes=2-4"}, {"if-range", "W/\"tag\""}})), "0123456789");
  EXPECT_EQ(Body(Ask({{"range", "bytes=2-4"}, {"if-range", " \"tag\" "}})), "234");
  for (const char* same : {"\"tag\"", "W/\"tag\"", "\"a\", \"tag\"", "*"}) {
    EXPECT_EQ(Ask({{"if-none-match", same}}).status, 304) << same;
    const bool is_list = std::string(same) != "*";
    if (is_list) {
      EXPECT_EQ(Ask({{"if-none-match", "\"a\""}, {"if-none-match", same}}).status, 304) << same;
    }
  }
  EXPECT_EQ(Ask({{"if-none-match", "\"other\""}}).status, 200);
  EXPECT_EQ(Ask({{"if-match", "\"tag\""}}).status, 200);
  EXPECT_EQ(Ask({{"if-match", "\"other\", W/\"tag\""}}).status, 412);
  EXPECT_EQ(Ask({{"if-modified-since", "Sun, 06 Nov 2094 08:49:37 GMT"}}).status, 200);
  net::HttpRequest head = RequestWith({{"range", "bytes=2-4"}});
  head.method = "HEAD";
  EXPECT_EQ(RangedResponse(head, bytes_, "\"tag\"", "x/y", Caching::kForever).status, 200);
  // What is not understood, and several ranges, are answered with the whole.
  for (const char* other : {"items=2-4", "bytes=5-4", "bytes=a-b", "bytes=1-2,4-5", "bytes=--1",
                            "bytes", "bytes=", "bytes=2"}) {
    EXPECT_EQ(Ask({{"range", other}}).status, 200) << other;
  }
  for (const char* bad : {"bytes=10-", "bytes=99999999999999999999-", "bytes=-0"}) {
    const auto response = Ask({{"range", bad}});
    EXPECT_EQ(response.status, 416) << bad;
    EXPECT_EQ(Header(response, "Content-Range"), "bytes */10");
  }
}

}  // namespace
}  // namespace weft::server
