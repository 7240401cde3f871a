// How a server is named, for each way of listening; secrets: when they are demanded, where they
// come from, and where they do not stay.
#include "server/sharing.h"
#include "base/secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <cstdlib>
#include <cstring>

#include "server/access.h"

namespace weft::server {
namespace {

constexpr char kKey[] = "0123456789abcdef0123456789abcdef-key";

class SecretsTest : public testing::Test {
 protected:
  void SetUp() override { Clear(); }
  void TearDown() override { Clear(); }
  static void Clear() {
    unsetenv("WEFT_API_KEY");
    unsetenv("WEFT_JOIN_TOKEN");
  }
};

TEST_F(SecretsTest, AreMadeWhereTheyAreDemandedOnly) {
  EXPECT_EQ(MakeSecrets(false)->api_key, "");
  EXPECT_EQ(MakeSecrets(false)->join_token, "");
  const Secrets made = *MakeSecrets(true);
  EXPECT_EQ(made.api_key.size(), 32u);
  EXPECT_EQ(made.join_token.size(), 32u);
  EXPECT_NE(made.api_key, MakeSecrets(true)->api_key);
}

TEST_F(SecretsTest, ThatAreSetCountAlsoWhereNoneIsDemanded) {
  setenv("WEFT_API_KEY", kKey, 1);
  const Secrets secrets = *MakeSecrets(false);
  EXPECT_EQ(secrets.api_key, kKey);
  EXPECT_EQ(secrets.join_token.size(), 32u) << "whoever may not ask may not join either";
}

TEST_F(SecretsTest, OneThatIsTooShortIsRefusedByItsName) {
  for (const char* name : {"WEFT_API_KEY", "WEFT_JOIN_TOKEN"}) {
    setenv(name, "short", 1);
    const auto secrets = MakeSecrets(false);
    ASSERT_FALSE(secrets.ok());
    const std::string message = secrets.error().message();
    EXPECT_THAT(message, testing::HasSubstr(std::string(name) + " has 5 characters"));
    EXPECT_THAT(message, testing::HasSubstr("at least 32"));
    EXPECT_THAT(message, testing::Not(testing::HasSubstr("short")));
  }
}

TEST_F(SecretsTest, AreWipedFromTheEnvironment) {
  setenv("WEFT_API_KEY", kKey, 1);
  const char* const place = std::getenv("WEFT_API_KEY");
  ASSERT_TRUE(MakeSecrets(false).ok());
  EXPECT_EQ(std::getenv("WEFT_API_KEY"), nullptr);
  EXPECT_NE(std::memcmp(place, kKey, sizeof(kKey) - 1), 0);
}

Reach At(const std::string& address) {
  Reach reach;
  reach.address = address;
  reach.port = 8080;
  return reach;
}

TEST(Reach, NamesV6AddressesInBrackets) {
  for (const char* address : {"2001:db8::7", "[2001:db8::7]"}) {
    const Reach reach = At(address);
    EXPECT_TRUE(reach.IsPublic());
    EXPECT_EQ(reach.Base("http"), "http://[2001:db8::7]:8080");
    EXPECT_THAT(reach.Hosts(), testing::Contains("2001:db8::7"));  // for a certificate
    EXPECT_THAT(reach.AllowedHosts(), testing::Contains("[2001:db8::7]:8080"));
  }
}

TEST(Reach, ListeningOnV6LoopbackIsReachedThere) {
  const Reach reach = At("::1");
  EXPECT_FALSE(reach.IsPublic());
  EXPECT_EQ(reach.Base("ws"), "ws://[::1]:8080");
  EXPECT_EQ(At("127.0.0.1").Base("ws"), "ws://127.0.0.1:8080");
}

TEST(Reach, ItsUrlIsWhatOthersAreGiven) {
  Reach reach{"0.0.0.0", {}, 8080, true, "https://a.weft.school.lan"};
  EXPECT_EQ(reach.JoinUrl("token"), "https://a.weft.school.lan/join#token");
  EXPECT_EQ(reach.PublicBase("ws"), "wss://a.weft.school.lan");
  EXPECT_TRUE(reach.Base("ws").ends_with(":8080")) << "this machine's own";
  reach.url = "https://a.weft.school.lan:8443/";
  EXPECT_EQ(reach.PublicBase("http"), "https://a.weft.school.lan:8443");
  reach.url = "http://127.0.0.1:9";
  EXPECT_EQ(reach.PublicBase("http"), "http://127.0.0.1:9");
  EXPECT_EQ((Reach{"127.0.0.1", {}, 8080, false, ""}.PublicBase("http")), "http://127.0.0.1:8080");
}

TEST(Reach, ListeningEverywhereNamesWhatOthersCanUse) {
  Reach reach = At("::");
  reach.host_names = {"weft.example"};
  EXPECT_TRUE(reach.IsPublic());
  EXPECT_THAT(reach.Hosts(), testing::Not(testing::Contains("::")));
  EXPECT_THAT(reach.AllowedHosts(),
              testing::IsSupersetOf({"weft.example:8080", "localhost:8080", "127.0.0.1:8080",
                                     "[::1]:8080", "weft.example"}));
}

Reach PublicReach() {
  Reach reach;
  reach.address = "192.168.1.7";
  reach.port = 8080;
  return reach;
}

TEST(SharedLinks, GiveTheJoinTokenToWhoShowsTheKey) {
  const Secrets secrets = {kKey, std::string(70, 't') + "-token"};
  const SharedLinks links(PublicReach(), secrets);
  net::HttpRequest request;
  request.headers = {{"authorization", std::string("Bearer ") + kKey}};
  const auto told = boost::json::parse(links.ToJson(request));
  EXPECT_EQ(std::string(told.at("join_url").as_string()),
            "http://192.168.1.7:8080/join#" + secrets.join_token);
  EXPECT_EQ(told.at("lan"), true);
  EXPECT_TRUE(told.at("qr_svg").as_string().starts_with("<svg"));
}

TEST(SharedLinks, GiveTheTokenOfAnEarlierStartToWhoShowsItsKey) {
  const Secrets before = {std::string(32, 'a'), std::string(32, 'b')};
  const Secrets now = {std::string(32, 'c'), std::string(32, 'd')};
  SharedLinks links(PublicReach(), now);
  links.AddEarlier(HashSecret(before.api_key), SharedLinks(PublicReach(), before).hidden_token());
  for (const Secrets& each : {before, now}) {
    net::HttpRequest request;
    request.headers = {{"authorization", "Bearer " + each.api_key}};
    EXPECT_THAT(links.ToJson(request), testing::HasSubstr("/join#" + each.join_token));
  }
}

TEST(SharedLinks, GiveNoTokenToWhoShowsAnotherKey) {
  const SharedLinks links(PublicReach(), {kKey, std::string(32, 't')});
  net::HttpRequest request;
  request.headers = {{"authorization", "Bearer weft-0123456789abcdef0123456789abcdef"}};
  const auto told = boost::json::parse(links.ToJson(request));
  EXPECT_EQ(told.at("join_url"), "http://192.168.1.7:8080/join");
}

TEST(SharedLinks, DoNotHoldTheTokenInClear) {
  const std::string token(64, 't');
  const SharedLinks links(PublicReach(), {kKey, token});
  const void* const at = &links;
  const std::string_view bytes(static_cast<const char*>(at), sizeof(links));
  EXPECT_EQ(bytes.find("tttt"), std::string_view::npos);
  net::HttpRequest stranger;
  EXPECT_THAT(links.ToJson(stranger), testing::Not(testing::HasSubstr("tttt")));
}

TEST(SharedLinks, WithoutSecretsAreAddressesAlone) {
  Reach reach;
  reach.address = "127.0.0.1";
  reach.port = 8080;
  const auto told = boost::json::parse(SharedLinks(reach, {}).ToJson({}));
  EXPECT_EQ(told.at("join_url"), "http://127.0.0.1:8080/join");
  EXPECT_TRUE(told.at("qr_svg").is_null());
}

}  // namespace
}  // namespace weft::server
