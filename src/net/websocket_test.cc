// WebSockets of the server against our own client.
#include <gtest/gtest.h>

#include "net/net_testing.h"

namespace weft::net {
namespace {

TEST_F(NetTest, WebSocketEchoes) {
  Listen();
  const std::string big(3000000, 'w');
  const auto [echo, reason] = EchoOnce(ServerUrl("ws", "/ws"), {}, big);
  EXPECT_EQ(echo, big);
  EXPECT_EQ(reason, "as you wish");
}

TEST_F(NetTest, WebSocketRefusalCarriesTheReason) {
  Listen();
  const auto [echo, reason] = EchoOnce(ServerUrl("ws", "/elsewhere"), {}, "x");
  EXPECT_NE(reason.find("403: not here"), std::string::npos) << reason;
}

}  // namespace
}  // namespace weft::net
