// Which server is tried next, and which ones a server may name.
#include "apps/server_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::apps {
namespace {

using testing::ElementsAre;

ServerAddress At(const std::string& url, const std::string& fingerprint = "") {
  return {*net::ParseUrl(url), {fingerprint, false}};
}

std::vector<wire::pb::Init::Successor> Named(const std::vector<std::string>& urls) {
  std::vector<wire::pb::Init::Successor> successors;
  for (const std::string& url : urls) successors.emplace_back().set_url(url);
  return successors;
}

std::string Now(const ServerList& list) {
  return list.current().url.Authority();
}

std::vector<std::string> Order(const ServerList& list) {
  std::vector<std::string> order;
  for (const ServerAddress& each : list.InOrder()) order.push_back(each.url.Authority());
  return order;
}

// "b:1!" is tried without a pause.
std::vector<std::string> Tries(ServerList& list, int count) {
  std::vector<std::string> tries;
  for (int i = 0; i < count; ++i) {
    const bool is_first = list.Next();
    tries.push_back(Now(list) + (is_first ? "!" : ""));
  }
  return tries;
}

// A worker that was told one address alone, of a server that does not lead.
TEST(ServerListTest, TheServerNamesTheCertificateOfTheNextOne) {
  const std::string known(64, 'a'), named(64, 'b'), other(64, 'c');
  ServerList list({At("wss://a:1", known)});
  EXPECT_TRUE(list.NextIs("wss://b:1#" + named));
  EXPECT_EQ(Now(list), "b:1");
  EXPECT_EQ(list.current().tls.pinned_fingerprint, named);
  list.NextIs("wss://a:1#" + other);
  EXPECT_EQ(list.current().tls.pinned_fingerprint, known) << "the user's word counts";
  list.NextIs("wss://b:1#" + other);
  EXPECT_EQ(list.current().tls.pinned_fingerprint, named);
  // Without one the certificate has to be one that the system trusts.
  list.NextIs("wss://c:1");
  EXPECT_EQ(Now(list), "c:1");
  EXPECT_EQ(list.current().tls.pinned_fingerprint, "");
  EXPECT_FALSE(list.current().tls.insecure);
}

TEST(ServerListTest, NobodyIsFollowedWithHalfAFingerprint) {
  ServerList list({At("wss://a:1", std::string(64, 'a'))});
  list.NextIs("wss://b:1#" + std::string(50, 'b'));
  EXPECT_THAT(Order(list), ElementsAre("a:1"));
  list.NextIs("ws://b:1#" + std::string(64, 'b'));
  EXPECT_THAT(Order(list), ElementsAre("a:1")) << "never without TLS";
}

TEST(ServerListTest, OneServerIsTriedAgainAndAgain) {
  ServerList list({At("ws://a:1")});
  EXPECT_THAT(Tries(list, 3), ElementsAre("a:1", "a:1", "a:1"));
  list.Settle();
  EXPECT_THAT(Tries(list, 1), ElementsAre("a:1"));
}

TEST(ServerListTest, EachIsTriedOnceWithoutAPause) {
  ServerList list({At("ws://a:1"), At("ws://b:1")});
  list.SetSuccessors(Named({"ws://c:1", "ws://b:1"}));
  EXPECT_THAT(Order(list), ElementsAre("a:1", "b:1", "c:1"));
  EXPECT_THAT(Tries(list, 5), ElementsAre("b:1!", "c:1!", "a:1", "b:1", "c:1"));
  EXPECT_THAT(Order(list), ElementsAre("c:1", "a:1", "b:1"));
  list.Settle();
  EXPECT_THAT(Tries(list, 4), ElementsAre("a:1!", "b:1!", "c:1", "a:1"));
}

TEST(ServerListTest, TheOneThatServesStaysWhenItNamesOthers) {
  ServerList list({At("ws://a:1")});
  list.SetSuccessors(Named({"ws://b:1"}));
  EXPECT_THAT(Tries(list, 1), ElementsAre("b:1!"));
  list.SetSuccessors(Named({"ws://c:1"}));
  EXPECT_THAT(Order(list), ElementsAre("b:1", "c:1", "a:1"));
  list.SetSuccessors({});
  EXPECT_THAT(Order(list), ElementsAre("b:1", "a:1"));
}

TEST(ServerListTest, AFingerprintCountsForItsAddressAlone) {
  ServerList list({At("wss://a:1", "aa")});
  auto named = Named({"wss://b:1", "wss://c:1", "wss://a:1"});
  named[0].set_fingerprint("bb");
  named[2].set_fingerprint("another one");
  list.SetSuccessors(named);
  std::vector<std::string> fingerprints;
  for (const ServerAddress& each : list.InOrder())
    fingerprints.push_back(each.url.Authority() + " " + each.tls.pinned_fingerprint);
  EXPECT_THAT(fingerprints, ElementsAre("a:1 aa", "b:1 bb", "c:1 "));
}

TEST(ServerListTest, NobodyIsSentFromTlsToPlainText) {
  ServerList list({At("wss://a:1")});
  list.SetSuccessors(Named({"ws://b:1", "", "ftp://c:1", "wss://d:1", std::string(400, 'x')}));
  EXPECT_THAT(Order(list), ElementsAre("a:1", "d:1"));
  EXPECT_TRUE(list.NextIs("ws://e:1")) << "as if none had been named";
  EXPECT_EQ(Now(list), "d:1");
  ServerList plain({At("ws://a:1")});
  plain.SetSuccessors(Named({"wss://b:1"}));
  EXPECT_THAT(Order(plain), ElementsAre("a:1", "b:1"));
}

TEST(ServerListTest, TheServerMayNameTheNextOne) {
  ServerList list({At("ws://a:1"), At("ws://b:1")});
  list.SetSuccessors(Named({"ws://c:1"}));
  EXPECT_TRUE(list.NextIs("ws://c:1"));
  EXPECT_EQ(Now(list), "c:1");
  EXPECT_TRUE(list.NextIs("ws://new:1"));
  EXPECT_EQ(Now(list), "new:1");
  EXPECT_FALSE(list.NextIs("ws://c:1"));
  EXPECT_FALSE(list.NextIs("")) << "the next one";
  EXPECT_EQ(Now(list), "new:1");
}

TEST(ServerListTest, AServerCannotMakeTheListLong) {
  ServerList list({At("ws://a:1")});
  std::vector<std::string> many;
  for (int i = 0; i < 100; ++i) many.push_back("ws://b" + std::to_string(i) + ":1");
  list.SetSuccessors(Named(many));
  EXPECT_EQ(list.size(), 9u);
  for (int i = 0; i < 100; ++i) list.NextIs("ws://c" + std::to_string(i) + ":1");
  EXPECT_LE(list.size(), 10u);
}

}  // namespace
}  // namespace weft::apps
