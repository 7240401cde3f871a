// The way of every request through the table, and the step that every answer goes through.
#include "server/router.h"
#include "base/secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "server/responses.h"
#include "server/server_testing.h"

namespace weft::server {
namespace {

using testing::HasSubstr;

constexpr uint32_t kOurUser = 1000;

std::vector<Route> Routes() {
  const auto say = [](const char* text) {
    return [text](const net::HttpRequest&, const std::shared_ptr<net::Responder>& client) {
      client->Send(net::TextResponse(200, "text/plain", text));
    };
  };
  return {
      {"GET", "/", Secret::kNone, 0, say("page"), nullptr, nullptr},
      {"GET", "/v1/models", Secret::kApiKey, 0, say("models"), nullptr, nullptr},
      {"GET", "/v1/models/*", Secret::kApiKey, 0, say("model"), nullptr, nullptr},
      {"POST", "/v1/chat", Secret::kApiKey, 10, say("chat"), nullptr, nullptr},
      {"GET", "/package/*", Secret::kJoinToken, 0, say("package"), nullptr, nullptr},
      {"GET", "/events", Secret::kApiKey, 0,
       [](const net::HttpRequest&, const std::shared_ptr<net::Responder>& client) {
         client->StartStream(200, {{"Content-Type", "text/event-stream"}});
         client->OnClosed([client] { client->Write("gone"); });
         client->Write("event");
       },
       nullptr, nullptr},
      {"GET", "/silent", Secret::kNone, 0,
       [](const net::HttpRequest&, const std::shared_ptr<net::Responder>&) {}, nullptr, nullptr},
      {"GET", "/worker", Secret::kNone, 0, say("worker"),
       [](const net::HttpRequest&) { return std::optional<api::ApiError>(); },
       [](const net::HttpRequest&, bool, const std::shared_ptr<net::WebSocket>&) {
         return net::WebSocketCallbacks();
       }},
      {"GET", "/healthz", Secret::kNone, 0, say("ok"), nullptr, nullptr, true},
  };
}

AccessPolicy Policy() {
  AccessPolicy policy;
  policy.allowed_hosts = {"127.0.0.1:8080"};
  policy.allowed_origins = {"https://friend.example"};
  policy.api_key_hash = HashSecret("key-key-key");
  policy.join_token_hash = HashSecret("token-token");
  return policy;
}

class RouterTest : public testing::Test {
 protected:
  void SetUp() override { router_.SetAccess(Policy()); }

  static net::HttpRequest RequestOf(const std::string& method, const std::string& path,
                                    net::Headers headers) {
    net::HttpRequest request;
    request.method = method;
    request.path = path;
    request.headers = std::move(headers);
    if (request.Header("host").empty()) request.headers.emplace_back("host", "127.0.0.1:8080");
    request.remote_address = "127.0.0.1";
    request.remote_is_loopback = true;
    return request;
  }
  RecordingResponder Ask(const std::string& method, const std::string& path,
                         net::Headers headers = {}, const std::string& body = "") {
    net::HttpRequest request = RequestOf(method, path, std::move(headers));
    request.body = body;
    return Ask(std::move(request));
  }
  RecordingResponder Ask(net::HttpRequest request) {
    const auto client = std::make_shared<RecordingResponder>();
    router_.OnRequest(std::move(request), client);
    EXPECT_EQ(client->answers, 1);
    RecordingResponder seen = *client;
    // As a connection that has closed: its handlers, which hold it, are let go.
    client->on_closed = nullptr;
    return seen;
  }
  // The error's code, after a look at its form.
  static std::string CodeOf(const RecordingResponder& answer) {
    EXPECT_EQ(answer.Header("Content-Type"), "application/json") << answer.body;
    boost::system::error_code bad;
    const auto value = boost::json::parse(answer.body, bad);
    EXPECT_FALSE(bad) << answer.body;
    const auto& error = value.at("error").as_object();
    EXPECT_TRUE(error.at("message").is_string());
    return error.at("code").is_string() ? std::string(error.at("code").as_string()) : "";
  }

  Router router_{Routes()};
  const net::Headers key_ = {{"authorization", "Bearer key-key-key"}};
};

TEST_F(RouterTest, AnswersWhatStandsInTheTable) {
  EXPECT_EQ(Ask("GET", "/").body, "page");
  EXPECT_EQ(Ask("GET", "/v1/models", key_).body, "models");
  EXPECT_EQ(Ask("GET", "/v1/models/a/b", key_).body, "model");
  EXPECT_EQ(Ask("POST", "/v1/chat", key_, "0123456789").body, "chat");
  EXPECT_EQ(Ask("HEAD", "/").status, 200);
}

TEST_F(RouterTest, TellsWhatIsNotThereFromWhatIsAskedWrongly) {
  const auto nothing = Ask("GET", "/v1/nothing");
  EXPECT_EQ(nothing.status, 404);
  EXPECT_EQ(CodeOf(nothing), "not_found");
  const auto wrong = Ask("GET", "/v1/chat", key_);
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(CodeOf(wrong), "method_not_allowed");
  EXPECT_EQ(wrong.Header("Allow"), "POST, OPTIONS");
  EXPECT_EQ(Ask("DELETE", "/v1/models", key_).Header("Allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(Ask("OPTIONS", "/v1/models").status, 204);
  EXPECT_EQ(Ask("OPTIONS", "/v1/models").Header("Allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(Ask("OPTIONS", "/v1/nothing").status, 404);
}

TEST_F(RouterTest, DemandsTheSecretOfTheRoute) {
  const auto refused = Ask("GET", "/v1/models");
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(CodeOf(refused), "invalid_api_key");
  EXPECT_EQ(refused.Header("WWW-Authenticate"), "Bearer");
  EXPECT_EQ(Ask("GET", "/v1/models", {{"authorization", "Bearer token-token"}}).status, 401);
  for (const char* right : {"Bearer key-key-key", "bearer key-key-key", "BEARER  key-key-key "}) {
    EXPECT_EQ(Ask("GET", "/v1/models", {{"authorization", right}}).status, 200) << right;
  }
  EXPECT_EQ(CodeOf(Ask("GET", "/package/x")), "invalid_join_token");
  EXPECT_EQ(Ask("GET", "/package/x", {{"authorization", "Bearer token-token"}}).status, 200);
  EXPECT_EQ(Ask("GET", "/package/x", key_).status, 200);
}

TEST_F(RouterTest, RefusesBodiesThatARouteDoesNotTake) {
  const auto refused = Ask("POST", "/v1/chat", key_, "0123456789x");
  EXPECT_EQ(refused.status, 413);
  EXPECT_EQ(CodeOf(refused), "limit_exceeded");
  EXPECT_EQ(Ask("GET", "/v1/models", key_, "x").status, 413);
}

TEST_F(RouterTest, RefusesForeignNamesAndPagesInJson) {
  const auto name = Ask("GET", "/", {{"host", "evil\xff.example"}});
  EXPECT_EQ(name.status, 421);
  EXPECT_EQ(CodeOf(name), "unknown_host");
  const auto page = Ask("GET", "/", {{"origin", "https://evil.example"}});
  EXPECT_EQ(page.status, 403);
  EXPECT_EQ(CodeOf(page), "unknown_origin");
  EXPECT_EQ(page.Header("Access-Control-Allow-Origin"), "");
}

TEST_F(RouterTest, PagesOfOtherSitesLoadNothingAlsoWithoutAnOrigin) {
  const auto ask = [&](const char* path, const char* site, const char* mode, const char* dest) {
    net::Headers headers = key_;
    headers.insert(headers.end(),
                   {{"sec-fetch-site", site}, {"sec-fetch-mode", mode}, {"sec-fetch-dest", dest}});
    return Ask("GET", path, headers).status;
  };
  EXPECT_EQ(ask("/v1/models", "same-origin", "cors", "empty"), 200);
  EXPECT_EQ(ask("/v1/models", "none", "navigate", "document"), 200);
  for (const char* site : {"cross-site", "same-site"}) {
    EXPECT_EQ(ask("/v1/models", site, "no-cors", "image"), 403) << site;
    EXPECT_EQ(ask("/v1/models", site, "navigate", "document"), 403) << site;
    EXPECT_EQ(ask("/", site, "no-cors", "script"), 403) << site;
    EXPECT_EQ(ask("/", site, "navigate", "iframe"), 403) << site;
    EXPECT_EQ(ask("/", site, "navigate", "document"), 200) << "a link to the page";
  }
}

TEST_F(RouterTest, ListedOriginsReadEveryAnswerAndMaySendAnyHeader) {
  const net::Headers friendly = {{"origin", "https://friend.example"}};
  net::Headers preflight = friendly;
  preflight.insert(preflight.end(),
                   {{"access-control-request-method", "POST"},
                    {"access-control-request-headers", "authorization,x-stainless-os"}});
  const auto allowed = Ask("OPTIONS", "/v1/chat", preflight);
  EXPECT_EQ(allowed.status, 204);
  EXPECT_EQ(allowed.Header("Access-Control-Allow-Origin"), "https://friend.example");
  EXPECT_EQ(allowed.Header("Access-Control-Allow-Headers"), "authorization,x-stainless-os");
  EXPECT_THAT(allowed.Header("Access-Control-Allow-Methods"), HasSubstr("POST"));
  EXPECT_THAT(allowed.Header("Vary"), HasSubstr("Origin"));
  for (const auto& answer : {Ask("GET", "/v1/models", friendly), Ask("GET", "/x", friendly),
                             Ask("GET", "/v1/chat", friendly)}) {
    EXPECT_GE(answer.status, 400);
    EXPECT_EQ(answer.Header("Access-Control-Allow-Origin"), "https://friend.example");
  }
  preflight.back().second = "x\r\nset-cookie: a";
  EXPECT_EQ(Ask("OPTIONS", "/v1/chat", preflight).Header("Access-Control-Allow-Headers"), "");
}

TEST_F(RouterTest, PreflightsSucceedSoThatPagesReadWhatIsWrong) {
  const auto ask = [&](const char* path, const char* method, net::Headers more = {}) {
    net::Headers headers = {{"origin", "https://friend.example"},
                            {"access-control-request-method", method}};
    headers.insert(headers.end(), more.begin(), more.end());
    return Ask("OPTIONS", path, headers);
  };
  EXPECT_EQ(ask("/v1/nothing", "DELETE").status, 204);
  EXPECT_EQ(ask("/v1/nothing", "DELETE").Header("Access-Control-Allow-Methods"), "OPTIONS, DELETE");
  EXPECT_EQ(ask("/v1/chat", "PUT").Header("Access-Control-Allow-Methods"), "POST, OPTIONS, PUT");
  EXPECT_EQ(ask("/v1/chat", "P,T").Header("Access-Control-Allow-Methods"), "");
  const auto asked = ask("/v1/chat", "POST",
                         {{"access-control-request-headers", "X-A!"},
                          {"access-control-request-headers", "x-b"},
                          {"access-control-request-private-network", "true"}});
  EXPECT_EQ(asked.Header("Access-Control-Allow-Headers"), "X-A!, x-b");
  EXPECT_EQ(asked.Header("Access-Control-Allow-Private-Network"), "true");
}

TEST_F(RouterTest, AnswersThatNobodyAskedForLetPagesReadThem) {
  net::HttpRequest head;
  for (const int status : {400, 408, 413, 431}) {
    head.headers = {{"origin", "https://friend.example"}};
    RecordingResponder answer;
    answer.Send(router_.MakeError(status, "No.", head));
    EXPECT_EQ(answer.Header("Access-Control-Allow-Origin"), "https://friend.example") << status;
    EXPECT_EQ(answer.Header("Vary"), "Origin") << status;
    head.headers = {{"origin", "https://evil.example"}};
    RecordingResponder other;
    other.Send(router_.MakeError(status, "No.", head));
    EXPECT_EQ(other.Header("Access-Control-Allow-Origin"), "") << status;
  }
  net::HttpResponse refusal;
  EXPECT_FALSE(router_.OnHandshake(
      RequestOf("GET", "/worker",
                {{"origin", "https://friend.example"}, {"authorization", "Bearer wrong"}}),
      &refusal));
  RecordingResponder refused;
  refused.Send(refusal);
  EXPECT_EQ(refused.Header("Access-Control-Allow-Origin"), "https://friend.example");
  EXPECT_EQ(refused.Header("WWW-Authenticate"), "Bearer");
}

TEST_F(RouterTest, BodiesAreReadAsTheyAreSent) {
  const auto ask = [&](net::Headers headers) {
    headers.insert(headers.end(), key_.begin(), key_.end());
    return Ask("POST", "/v1/chat", headers, "0123456789");
  };
  for (const char* coding : {"gzip", "br", "Deflate", "identity, zstd", "x-unknown"}) {
    const auto refused = ask({{"content-encoding", coding}});
    EXPECT_EQ(refused.status, 415) << coding;
    EXPECT_EQ(CodeOf(refused), "unsupported_encoding");
    EXPECT_EQ(refused.Header("Accept-Encoding"), "identity");
  }
  for (const char* type : {"application/json; charset=utf-16", "application/json;CHARSET=latin1"}) {
    EXPECT_EQ(CodeOf(ask({{"content-type", type}})), "unsupported_charset") << type;
  }
  for (const net::Headers& taken :
       std::vector<net::Headers>{{{"content-encoding", "Identity"}},
                                 {{"content-encoding", ""}},
                                 {{"content-type", "application/json; charset=\"UTF-8\""}},
                                 {{"content-type", "application/x-www-form-urlencoded"}}}) {
    EXPECT_EQ(ask(taken).status, 200);
  }
}

TEST_F(RouterTest, LongBodiesAreForThoseWhoMaySendThem) {
  Router router({{"POST", "/long", Secret::kApiKey, 8 << 20, nullptr, nullptr, nullptr},
                 {"GET", "/", Secret::kNone, 0, nullptr, nullptr, nullptr}});
  router.SetAccess(Policy());
  EXPECT_EQ(router.BodyLimit(RequestOf("POST", "/long", key_)), size_t{8 << 20});
  EXPECT_EQ(router.BodyLimit(RequestOf("POST", "/long", {})), size_t{1 << 20});
  EXPECT_EQ(router.BodyLimit(RequestOf("GET", "/", key_)), size_t{1 << 20});
  EXPECT_EQ(router.BodyLimit(RequestOf("GET", "/long", key_)), size_t{1 << 20});
}

TEST_F(RouterTest, ProxiesThatLookWhetherAServerLivesNeedNoHost) {
  const auto ask = [&](const char* method, const char* path, bool old) {
    net::HttpRequest request = RequestOf(method, path, key_);
    std::erase_if(request.headers, [](const auto& header) { return header.first == "host"; });
    request.is_http_1_0 = old;
    return Ask(request).status;
  };
  EXPECT_EQ(ask("GET", "/healthz", true), 200);
  EXPECT_EQ(ask("HEAD", "/healthz", true), 200);
  EXPECT_EQ(ask("OPTIONS", "/", true), 204);
  EXPECT_EQ(ask("OPTIONS", "*", true), 204);
  EXPECT_EQ(ask("GET", "/healthz", false), 400);
  EXPECT_EQ(ask("GET", "/", true), 421);
  EXPECT_EQ(ask("GET", "/v1/models", true), 421);
  EXPECT_EQ(Ask("OPTIONS", "*").Header("Allow"), "GET, HEAD, POST, OPTIONS");
  EXPECT_EQ(Ask("OPTIONS", "*", {{"host", "evil.example"}}).status, 421);
}

TEST_F(RouterTest, EveryAnswerCarriesTheHeadersForBrowsers) {
  for (const auto& answer : {Ask("GET", "/"), Ask("GET", "/x"), Ask("GET", "/v1/models"),
                             Ask("GET", "/", {{"host", "x"}}), Ask("GET", "/events", key_)}) {
    EXPECT_EQ(answer.Header("X-Content-Type-Options"), "nosniff");
    EXPECT_THAT(answer.Header("Content-Security-Policy"), HasSubstr("frame-ancestors 'none'"));
    EXPECT_EQ(answer.Header("Cross-Origin-Resource-Policy"), "same-origin");
  }
}

TEST_F(RouterTest, PagesMayConnectToServersThatMayLeadNext) {
  const std::string alone(Ask("GET", "/").Header("Content-Security-Policy"));
  EXPECT_THAT(alone, testing::Not(HasSubstr("connect-src")));
  router_.LetPagesConnectTo(
      {*net::ParseUrl("wss://b.school:8443"), *net::ParseUrl("ws://[::1]:80")});
  for (const auto& answer : {Ask("GET", "/"), Ask("GET", "/x")})
    EXPECT_EQ(answer.Header("Content-Security-Policy"),
              alone +
                  "; connect-src 'self' https://b.school:8443 wss://b.school:8443 http://[::1]:80 "
                  "ws://[::1]:80");
}

TEST_F(RouterTest, HeadOfAStreamEndsWithItsHeaders) {
  const auto head = Ask("HEAD", "/events", key_);
  EXPECT_TRUE(head.is_stream) << "an answer of a known length would be told as 0 bytes long";
  EXPECT_TRUE(head.has_ended);
  EXPECT_EQ(head.Header("Content-Type"), "text/event-stream");
  EXPECT_EQ(head.body, "");
  const auto stream = Ask("GET", "/events", key_);
  EXPECT_TRUE(stream.is_stream);
  EXPECT_FALSE(stream.has_ended);
  EXPECT_EQ(stream.body, "event");
}

TEST_F(RouterTest, AHandlerThatSaysNothingIsAnErrorInJson) {
  const auto silent = Ask("GET", "/silent");
  EXPECT_EQ(silent.status, 500);
  CodeOf(silent);
}

TEST_F(RouterTest, TryingAgainIsSuggestedWhereItHelps) {
  EXPECT_EQ(ErrorResponse(Overloaded("Full.")).status, 503);
  const auto response = ErrorResponse(Overloaded("Full."));
  RecordingResponder answer;
  answer.Send(response);
  EXPECT_THAT(answer.Header("Retry-After"), testing::MatchesRegex("[1-9][0-9]*"));
}

TEST_F(RouterTest, WithoutSecretsOnlyProgramsOfTheServersUserAreAnswered) {
  AccessPolicy policy = Policy();
  policy.api_key_hash = policy.join_token_hash = "";
  policy.only_user = kOurUser;
  router_.SetAccess(policy);
  const auto ask = [&](const char* path, std::optional<uint32_t> user) {
    net::HttpRequest request = RequestOf("GET", path, {});
    request.find_peer_user = [user] { return user; };
    net::HttpResponse refusal;
    if (std::string(path) == "/worker") {
      return router_.OnHandshake(request, &refusal) ? 101 : refusal.status;
    }
    return Ask(request).status;
  };
  for (const char* path : {"/v1/models", "/package/x", "/events", "/worker"}) {
    const int good = std::string(path) == "/worker" ? 101 : 200;
    EXPECT_EQ(ask(path, kOurUser), good) << path;
    EXPECT_EQ(ask(path, 0), good) << path << " of root";
    EXPECT_EQ(ask(path, kOurUser + 1), 403) << path;
    EXPECT_EQ(ask(path, std::nullopt), 403) << path;
  }
  EXPECT_EQ(ask("/", kOurUser + 1), 200) << "the page holds no secret";
  policy.only_user.reset();
  router_.SetAccess(policy);
  EXPECT_EQ(ask("/v1/models", std::nullopt), 200) << "where the system does not tell";
}

TEST(Owner, ShowsTheKeyOrIsTheServersUserOnItsMachine) {
  AccessPolicy policy = Policy();
  policy.api_key_hash = HashSecret("key");
  policy.own_user = kOurUser;
  const auto is_owner = [&](std::optional<uint32_t> user, net::Headers headers, bool loopback) {
    net::HttpRequest request;
    request.headers = std::move(headers);
    request.remote_is_loopback = loopback;
    request.find_peer_user = [user] { return user; };
    return IsOwner(policy, request);
  };
  const net::Headers key = {{"authorization", "Bearer key"}};
  EXPECT_TRUE(is_owner(std::nullopt, key, false));
  EXPECT_FALSE(is_owner(std::nullopt, {{"authorization", "Bearer token-token"}}, false));
  EXPECT_TRUE(is_owner(kOurUser, {}, true));
  EXPECT_FALSE(is_owner(kOurUser, {}, false));
  EXPECT_FALSE(is_owner(kOurUser + 1, {}, true));
  EXPECT_FALSE(is_owner(std::nullopt, {}, true));
  EXPECT_FALSE(is_owner(kOurUser, {{"x-forwarded-for", "10.0.0.1"}}, true)) << "a proxy's client";
  EXPECT_FALSE(is_owner(kOurUser, {{"forwarded", "for=10.0.0.1"}}, true));
  policy.own_user.reset();
  EXPECT_FALSE(is_owner(std::nullopt, {}, true)) << "where nothing is known, and behind a proxy";
  policy.api_key_hash = "";
  EXPECT_FALSE(is_owner(kOurUser, key, true)) << "any key where there is none";
}

TEST_F(RouterTest, WorkersThatShowATokenShowTheRightOne) {
  const auto shake = [&](net::Headers headers) {
    net::HttpResponse refusal;
    return router_.OnHandshake(RequestOf("GET", "/worker", std::move(headers)), &refusal)
               ? 101
               : refusal.status;
  };
  EXPECT_EQ(shake({}), 101) << "a browser, which sends it in Connect";
  EXPECT_EQ(shake({{"authorization", "Bearer token-token"}}), 101);
  EXPECT_EQ(shake({{"authorization", "Bearer wrong"}}), 401);
  EXPECT_EQ(shake({{"host", "evil.example"}}), 421);
  net::HttpResponse refusal;
  EXPECT_FALSE(router_.OnHandshake(RequestOf("GET", "/v1/models", {}), &refusal));
  EXPECT_EQ(refusal.status, 404);
}

TEST(Forwarded, ClientsOfAProxyAreLimitedByTheirOwnAddress) {
  std::vector<std::shared_ptr<net::Responder>> held;
  Router router({{"GET", "/hold", Secret::kNone, 0,
                  [&](const net::HttpRequest&, std::shared_ptr<net::Responder> client) {
                    held.push_back(std::move(client));
                  },
                  nullptr, nullptr}});
  AccessPolicy policy = Policy();
  policy.trusted_proxies = {"127.0.0.1"};
  router.SetAccess(policy);
  const auto status_of = [&](const std::string& address) {
    net::HttpRequest request;
    request.method = "GET";
    request.path = "/hold";
    request.headers = {{"host", "127.0.0.1:8080"}, {"x-forwarded-for", address}};
    request.remote_address = "127.0.0.1";
    const auto client = std::make_shared<RecordingResponder>();
    router.OnRequest(std::move(request), client);
    return client->status;
  };
  for (int i = 0; i < 256; ++i) EXPECT_EQ(status_of("203.0.113.9"), 0);
  EXPECT_EQ(status_of("203.0.113.9"), 429);
  EXPECT_EQ(status_of("203.0.113.10"), 0);
  held.clear();
  EXPECT_EQ(status_of("203.0.113.9"), 0);
}

// Sockets of clients behind a proxy count with their requests: all of them are connections.
TEST(Forwarded, SocketsAreLimitedByAddressToo) {
  Router router({{"GET", "/worker", Secret::kNone, 0, nullptr,
                  [](const net::HttpRequest&) { return std::optional<api::ApiError>(); },
                  [](const net::HttpRequest&, bool, const std::shared_ptr<net::WebSocket>&) {
                    return net::WebSocketCallbacks{nullptr, nullptr, [](const std::string&) {}};
                  }}});
  AccessPolicy policy = Policy();
  policy.trusted_proxies = {"127.0.0.1"};
  policy.join_token_hash = HashSecret("token");
  router.SetAccess(policy);
  std::vector<net::WebSocketCallbacks> open;
  const auto connect = [&](const std::string& address) {
    net::HttpRequest request;
    request.method = "GET";
    request.path = "/worker";
    request.headers = {{"host", "127.0.0.1:8080"}, {"x-forwarded-for", address}};
    request.remote_address = "127.0.0.1";
    net::HttpResponse refusal;
    if (!router.OnHandshake(request, &refusal)) return refusal.status;
    open.push_back(router.OnWebSocket(request, nullptr));
    return 101;
  };
  for (int i = 0; i < 256; ++i) EXPECT_EQ(connect("2001:db8::" + std::to_string(i + 1)), 101);
  EXPECT_EQ(connect("2001:db8::ffff"), 429) << "one network";
  EXPECT_EQ(connect("203.0.113.9"), 101);
  open.front().on_closed("gone");
  open.erase(open.begin());
  EXPECT_EQ(connect("2001:db8::ffff"), 101);
}

TEST(Client, IsAnAddressAndTheKeyWhereOneIsDemanded) {
  AccessPolicy policy = Policy();
  const auto client = [&](const std::string& address, const std::string& key) {
    net::HttpRequest request;
    request.remote_address = address;
    if (!key.empty()) request.headers = {{"authorization", "Bearer " + key}};
    return ClientOf(policy, request);
  };
  policy.api_key_hash = "";
  // Nobody has looked at this key: it must not make a client of everyone who invents one.
  EXPECT_EQ(client("10.0.0.1", "a"), client("10.0.0.1", "b"));
  EXPECT_NE(client("127.0.0.1", ""), client("127.0.0.2", ""));
  EXPECT_EQ(client("2001:db8::1", ""), client("2001:db8::2", ""));
  policy.api_key_hash = HashSecret("a");
  EXPECT_NE(client("10.0.0.1", "a"), client("10.0.0.1", "b"));
  EXPECT_NE(client("10.0.0.1", "a"), client("10.0.0.2", "a"));
}

TEST(SaltOf, TellsApartWhoHasAnotherKeyAlone) {
  AccessPolicy policy;
  const auto salt = [&](const std::string& key) {
    net::HttpRequest request;
    if (!key.empty()) request.headers = {{"authorization", "Bearer " + key}};
    return SaltOf(policy, request);
  };
  EXPECT_EQ(salt("a"), salt("b")) << "nobody has looked at them";
  EXPECT_EQ(salt("a"), "");
  policy.api_key_hash = HashSecret("a");
  policy.earlier_api_key_hashes = {HashSecret("b")};
  EXPECT_NE(salt("a"), salt("b"));
  EXPECT_NE(salt("a"), "");
  EXPECT_EQ(salt("a"), salt("a"));
}

TEST(Forwarded, IsBelievedOfNamedProxiesOnly) {
  AccessPolicy policy;
  policy.trusted_proxies = {"127.0.0.1", "10.0.0.2"};
  const auto forwarded = [&](const char* from, net::Headers headers) {
    net::HttpRequest request;
    request.remote_address = from;
    request.remote_is_loopback = true;
    request.headers = std::move(headers);
    UseForwarded(policy, request);
    return request;
  };
  const auto client =
      forwarded("127.0.0.1", {{"x-forwarded-for", "203.0.113.9"}, {"x-forwarded-proto", "https"}});
  EXPECT_EQ(client.remote_address, "203.0.113.9");
  EXPECT_FALSE(client.remote_is_loopback);
  EXPECT_TRUE(client.over_tls);
  EXPECT_EQ(forwarded("192.168.1.5", {{"x-forwarded-for", "203.0.113.9"}}).remote_address,
            "192.168.1.5");
  EXPECT_FALSE(forwarded("192.168.1.5", {{"x-forwarded-proto", "https"}}).over_tls);
  // What stands left of an address that nobody vouches for may be invented.
  EXPECT_EQ(forwarded("127.0.0.1", {{"x-forwarded-for", "127.0.0.1, 203.0.113.9, 10.0.0.2"}})
                .remote_address,
            "203.0.113.9");
  EXPECT_EQ(forwarded("127.0.0.1",
                      {{"x-forwarded-for", "198.51.100.1"}, {"x-forwarded-for", "203.0.113.9"}})
                .remote_address,
            "203.0.113.9");
  EXPECT_EQ(forwarded("127.0.0.1", {{"x-forwarded-for", "<script>"}}).remote_address, "127.0.0.1");
  EXPECT_EQ(forwarded("127.0.0.1", {}).remote_address, "127.0.0.1");
  // With ports, as some proxies write them, and in other spellings.
  for (const auto& [told, address] : {std::pair("203.0.113.9:4711", "203.0.113.9"),
                                      {"[2001:DB8::1]:4711", "2001:db8::1"},
                                      {"\"[2001:db8::1]\"", "2001:db8::1"},
                                      {"2001:db8:0::1", "2001:db8::1"},
                                      {"203.0.113.9,, ::ffff:10.0.0.2", "203.0.113.9"}}) {
    EXPECT_EQ(forwarded("127.0.0.1", {{"x-forwarded-for", told}}).remote_address, address) << told;
  }
  EXPECT_EQ(forwarded("::ffff:127.0.0.1", {{"x-forwarded-for", "203.0.113.9"}}).remote_address,
            "203.0.113.9");
  const auto is_tls = [&](const char* addresses, const char* schemes) {
    return forwarded("127.0.0.1", {{"x-forwarded-for", addresses}, {"x-forwarded-proto", schemes}})
        .over_tls;
  };
  EXPECT_TRUE(is_tls("203.0.113.9", "HTTPS"));
  EXPECT_TRUE(is_tls("203.0.113.9", "http, https"));  // the first may be invented
  EXPECT_FALSE(is_tls("203.0.113.9", "https, http"));
  EXPECT_TRUE(is_tls("203.0.113.9, 10.0.0.2", "https, http"));
  EXPECT_TRUE(is_tls("203.0.113.9, 10.0.0.2", "https"));
}

}  // namespace
}  // namespace weft::server
