#include "base/network.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Network, CountsV6BySixtyFourBits) {
  EXPECT_EQ(NetworkOf("2001:db8:1:2:3:4:5:6"), NetworkOf("2001:db8:1:2:ffff::9"));
  EXPECT_NE(NetworkOf("2001:db8:1:2::1"), NetworkOf("2001:db8:1:3::1"));
  EXPECT_NE(NetworkOf("10.0.0.1"), NetworkOf("10.0.0.2"));
  EXPECT_NE(NetworkOf("::ffff:10.0.0.1"), NetworkOf("::ffff:10.0.0.2"));
}

TEST(Network, CountsTheSameMachineOnceInEitherForm) {
  EXPECT_EQ(NetworkOf("::ffff:10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(NetworkOf("::FFFF:a00:1"), "10.0.0.1");
}

TEST(Network, KeepsLoopbackAddressesApart) {
  EXPECT_NE(NetworkOf("127.0.0.1"), NetworkOf("127.0.0.2"));
  EXPECT_EQ(NetworkOf("::1"), "::1");
  EXPECT_NE(NetworkOf("::1"), NetworkOf("::2"));
}

TEST(Network, KnowsWhoseAnAddressIs) {
  const auto ip = [](const char* text) { return ParseIp(text).value(); };
  EXPECT_EQ(ParseIp("in this process"), std::nullopt);
  EXPECT_EQ(ip("10.0.0.1"), ip("::ffff:10.0.0.1"));
  for (const char* text : {"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"})
    EXPECT_TRUE(IsLoopback(ip(text))) << text;
  for (const char* text : {"10.1.2.3", "172.16.0.1", "172.31.255.1", "192.168.1.1", "169.254.1.1",
                           "100.64.0.1", "fe80::1", "fd00::1", "fc00::1"})
    EXPECT_TRUE(IsPrivate(ip(text)) && IsOneHost(ip(text)) && !IsLoopback(ip(text))) << text;
  for (const char* text :
       {"8.8.8.8", "172.32.0.1", "100.128.0.1", "11.0.0.1", "2001:db8::1", "::2", "fec0::1"})
    EXPECT_TRUE(!IsPrivate(ip(text)) && IsOneHost(ip(text)) && !IsLoopback(ip(text))) << text;
  for (const char* text :
       {"0.0.0.0", "::", "224.0.0.1", "239.1.1.1", "255.255.255.255", "ff02::1", "0.1.2.3"})
    EXPECT_FALSE(IsOneHost(ip(text))) << text;
  EXPECT_TRUE(IsSameNetwork(ip("2001:db8:1:2::3"), ip("2001:db8:1:2:9::")));
  EXPECT_FALSE(IsSameNetwork(ip("2001:db8:1:2::3"), ip("2001:db8:1:3::3")));
  EXPECT_TRUE(IsSameNetwork(ip("9.8.7.6"), ip("9.8.7.6")));
  EXPECT_FALSE(IsSameNetwork(ip("9.8.7.6"), ip("9.8.7.7")));
}

TEST(Network, LeavesOtherTextAlone) {
  EXPECT_EQ(NetworkOf(""), "");
  EXPECT_EQ(NetworkOf("in this process"), "in this process");
}

}  // namespace
}  // namespace weft
