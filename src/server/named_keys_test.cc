// Requests that show named keys: what each role opens, what they are told, as whom they count.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/secret.h"
#include "server/key_table.h"
#include "server/router.h"
#include "server/server_testing.h"

namespace weft::server {
namespace {

using testing::HasSubstr;

constexpr uint32_t kOurs = 1000, kAnother = 1001;

// Answers to /v1/chat are owed until somebody lets them go.
using Owed = std::vector<std::shared_ptr<net::Responder>>;

std::vector<Route> RoutesFor(Owed& owed, net::HttpRequest& last) {
  const auto say = [](const net::HttpRequest&, const std::shared_ptr<net::Responder>& client) {
    client->Send(net::TextResponse(200, "text/plain", "yes"));
  };
  return {{"GET", "/v1/models", Secret::kApiKey, 0, say, nullptr, nullptr},
          {"POST", "/v1/chat", Secret::kApiKey, 10,
           [&owed, &last](const net::HttpRequest& request,
                          const std::shared_ptr<net::Responder>& client) {
             last = request;
             owed.push_back(client);
           },
           nullptr, nullptr},
          {"GET", "/metrics", Secret::kMetrics, 0, say, nullptr, nullptr},
          {"GET", "/api/keys", Secret::kAdmin, 0, say, nullptr, nullptr},
          {"GET", "/package/x", Secret::kJoinToken, 0, say, nullptr, nullptr}};
}

class NamedKeys : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<store::Key> keys;
    for (const auto& [name, role] : {std::pair("user", store::Role::kUser),
                                     {"admin", store::Role::kAdmin},
                                     {"metrics", store::Role::kMetrics},
                                     {"ended", store::Role::kAdmin},
                                     {"limited", store::Role::kUser},
                                     {"helper", store::Role::kHelper}}) {
      store::Key key;
      key.id = static_cast<int64_t>(keys.size()) + 1;
      key.name = name;
      key.role = role;
      key.hash = HashSecret(std::string(name) + "-secret");
      if (key.name == "ended") key.ended_ms = 1'800'000'000'000;
      if (key.name == "limited") key.limits = {2, std::nullopt, 1};
      keys.push_back(key);
    }
    table_.Replace(std::move(keys), {}, 0);
    policy_.keys = &table_;
    policy_.allowed_hosts = {"127.0.0.1:8080"};
    policy_.api_key_hash = HashSecret("key-key-key");
    policy_.join_token_hash = HashSecret("token-token");
    router_.SetAccess(policy_);
  }
  // Without secrets, as a server that only this machine's user may ask.
  void DemandNothing() {
    policy_.api_key_hash = policy_.join_token_hash = "";
    policy_.only_user = policy_.own_user = kOurs;
    router_.SetAccess(policy_);
  }
  static net::HttpRequest RequestWith(const std::string& secret, uint32_t user = kOurs) {
    net::HttpRequest request;
    request.method = "GET";
    request.headers = {{"host", "127.0.0.1:8080"}};
    if (!secret.empty()) request.headers.emplace_back("authorization", "Bearer " + secret);
    request.remote_address = "127.0.0.1";
    request.remote_is_loopback = true;
    request.find_peer_user = [user] { return std::optional(user); };
    return request;
  }
  std::shared_ptr<RecordingResponder> Ask(const std::string& method, const std::string& path,
                                          const std::string& secret, uint32_t user = kOurs) {
    net::HttpRequest request = RequestWith(secret, user);
    request.method = method;
    request.path = path;
    const auto client = std::make_shared<RecordingResponder>();
    router_.OnRequest(std::move(request), client);
    return client;
  }
  int StatusOf(const std::string& path, const std::string& secret, uint32_t user = kOurs) {
    return Ask("GET", path, secret, user)->status;
  }

  Owed owed_;
  net::HttpRequest last_;
  Instant now_{1};
  KeyTable table_{"weft-tiny",
                  {[] { return int64_t{1'800'000'000'000}; }, [this] { return now_; }}};
  AccessPolicy policy_;
  Router router_{RoutesFor(owed_, last_)};
};

TEST_F(NamedKeys, OpenWhatTheirRoleIsFor) {
  struct Case {
    const char* path;
    int user, admin, metrics, helper;
  };
  for (const auto& [path, user, admin, metrics, helper] :
       {Case{"/v1/models", 200, 200, 403, 403}, Case{"/metrics", 403, 200, 200, 403},
        Case{"/api/keys", 403, 200, 403, 403}, Case{"/package/x", 403, 200, 403, 200}}) {
    EXPECT_EQ(StatusOf(path, "user-secret"), user) << path;
    EXPECT_EQ(StatusOf(path, "admin-secret"), admin) << path;
    EXPECT_EQ(StatusOf(path, "metrics-secret"), metrics) << path;
    EXPECT_EQ(StatusOf(path, "helper-secret"), helper) << path;
    EXPECT_EQ(StatusOf(path, "key-key-key"), 200) << "the key of this start is an admin";
    EXPECT_EQ(StatusOf(path, "ended-secret"), 401) << path;
    EXPECT_EQ(StatusOf(path, "other-secret"), 401) << path;
    EXPECT_EQ(StatusOf(path, ""), 401) << path;
  }
  EXPECT_EQ(StatusOf("/package/x", "token-token"), 200);
}

TEST_F(NamedKeys, AreToldWhatIsWantedAndStrangersNothing) {
  const auto forbidden = Ask("GET", "/api/keys", "user-secret");
  EXPECT_THAT(forbidden->body,
              HasSubstr("'user' has the role 'user'; this wants the role 'admin'"));
  EXPECT_THAT(forbidden->body, HasSubstr("insufficient_permissions"));
  EXPECT_THAT(Ask("GET", "/metrics", "user-secret")->body, HasSubstr("wants the role 'metrics'"));
  EXPECT_THAT(Ask("GET", "/v1/models", "metrics-secret")->body, HasSubstr("wants the role 'user'"));
  EXPECT_THAT(Ask("GET", "/v1/models", "ended-secret")->body,
              HasSubstr("'ended' was ended 2027-01-15T08:00:00Z"));
  EXPECT_EQ(Ask("GET", "/v1/models", "other-secret")->body, Ask("GET", "/v1/models", "")->body);
}

TEST_F(NamedKeys, CountWhereNoneIsDemandedToo) {
  DemandNothing();
  EXPECT_EQ(StatusOf("/v1/models", ""), 200);
  EXPECT_EQ(StatusOf("/v1/models", "whatever clients send"), 200);
  EXPECT_EQ(StatusOf("/v1/models", "", kAnother), 403);
  EXPECT_EQ(StatusOf("/v1/models", "other-secret", kAnother), 403);
  EXPECT_EQ(StatusOf("/v1/models", "user-secret", kAnother), 200);
  EXPECT_EQ(StatusOf("/api/keys", "user-secret"), 403);
  EXPECT_EQ(StatusOf("/api/keys", ""), 200);
  EXPECT_EQ(StatusOf("/v1/models", "ended-secret"), 401);
}

TEST_F(NamedKeys, SocketsTakeHelpersAndAdmins) {
  const auto is_refused = [this](const char* secret) {
    return CheckSecret(policy_, RequestWith(secret), Secret::kWorkerSocket).has_value();
  };
  EXPECT_FALSE(is_refused("helper-secret"));
  EXPECT_FALSE(is_refused("admin-secret"));
  EXPECT_TRUE(is_refused("user-secret"));
  EXPECT_TRUE(is_refused("ended-secret"));
  EXPECT_FALSE(is_refused("")) << "a browser's comes with Connect";
  EXPECT_FALSE(IsOwner(policy_, RequestWith("helper-secret")));
}

TEST_F(NamedKeys, OnlyAdminsAreOwners) {
  for (const bool demands : {true, false}) {
    if (!demands) DemandNothing();
    const auto is_owner = [this](const char* secret, uint32_t user) {
      return IsOwner(policy_, RequestWith(secret, user));
    };
    EXPECT_TRUE(is_owner("admin-secret", kAnother));
    EXPECT_FALSE(is_owner("user-secret", kOurs));
    EXPECT_FALSE(is_owner("ended-secret", kOurs));
    EXPECT_EQ(is_owner("", kOurs), !demands);
    EXPECT_FALSE(is_owner("", kAnother));
  }
}

TEST_F(NamedKeys, AreClientsOfTheirOwnAndShareNothing) {
  Ask("POST", "/v1/chat", "user-secret");
  EXPECT_EQ(last_.client, ClientOfKey(1));
  const std::string salt = last_.salt;
  EXPECT_FALSE(salt.empty());
  Ask("POST", "/v1/chat", "admin-secret");
  EXPECT_EQ(last_.client, ClientOfKey(2));
  EXPECT_NE(last_.salt, salt);
  Ask("POST", "/v1/chat", "key-key-key");
  EXPECT_EQ(KeyOfClient(last_.client), 0);
  EXPECT_NE(last_.salt, salt);
  DemandNothing();
  Ask("POST", "/v1/chat", "user-secret");
  EXPECT_EQ(last_.salt, salt);
  Ask("POST", "/v1/chat", "whatever");
  EXPECT_EQ(last_.salt, "");
}

TEST_F(NamedKeys, AreHeldToTheirLimits) {
  EXPECT_EQ(Ask("POST", "/v1/chat", "limited-secret")->answers, 0) << "let in";
  const auto second = Ask("POST", "/v1/chat", "limited-secret");
  EXPECT_EQ(second->status, 429);
  EXPECT_EQ(second->Header("Retry-After"), "1");
  EXPECT_THAT(second->body, HasSubstr("rate_limit_exceeded"));
  EXPECT_EQ(Ask("GET", "/v1/models", "limited-secret")->status, 200) << "computes nothing";
  owed_[0]->Send(net::TextResponse(200, "text/plain", "whole"));
  const auto third = Ask("POST", "/v1/chat", "limited-secret");
  EXPECT_EQ(third->answers, 0) << "the first has its answer, though somebody holds it still";
  owed_[1]->StartStream(200, {});
  EXPECT_EQ(third->Header("X-Ratelimit-Remaining-Requests"), "0");
  EXPECT_EQ(third->Header("X-Ratelimit-Limit-Requests"), "2");
  owed_[1]->End();
  const auto fourth = Ask("POST", "/v1/chat", "limited-secret");
  EXPECT_EQ(fourth->status, 429);
  EXPECT_EQ(fourth->Header("Retry-After"), "60");
  EXPECT_EQ(fourth->Header("X-Ratelimit-Reset-Requests"), "1m0s");
  now_ = now_ + Seconds(60);
  EXPECT_EQ(Ask("POST", "/v1/chat", "limited-secret")->answers, 0);
  owed_.pop_back();
  EXPECT_EQ(Ask("POST", "/v1/chat", "limited-secret")->answers, 0) << "one that was dropped ended";
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Ask("POST", "/v1/chat", "key-key-key")->answers, 0);
}

}  // namespace
}  // namespace weft::server
