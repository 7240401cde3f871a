// How a server is named, for each way of listening.
#include "server/sharing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::server {
namespace {

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

TEST(Reach, ListeningEverywhereNamesWhatOthersCanUse) {
  Reach reach = At("::");
  reach.host_names = {"weft.example"};
  EXPECT_TRUE(reach.IsPublic());
  EXPECT_THAT(reach.Hosts(), testing::Not(testing::Contains("::")));
  EXPECT_THAT(reach.AllowedHosts(),
              testing::IsSupersetOf({"weft.example:8080", "localhost:8080", "127.0.0.1:8080",
                                     "[::1]:8080", "weft.example"}));
}

}  // namespace
}  // namespace weft::server
