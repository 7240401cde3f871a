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

TEST(Network, LeavesOtherTextAlone) {
  EXPECT_EQ(NetworkOf(""), "");
  EXPECT_EQ(NetworkOf("in this process"), "in this process");
}

}  // namespace
}  // namespace weft
