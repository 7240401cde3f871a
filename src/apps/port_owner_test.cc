#include "apps/port_owner.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptor.h"

namespace weft::apps {
namespace {

TEST(PortOwnerTest, IsFoundByTheSocketThatListens) {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof(address);
  ASSERT_EQ(bind(socket.get(), plain, length), 0);
  ASSERT_EQ(getsockname(socket.get(), plain, &length), 0);
  const uint16_t port = ntohs(address.sin_port);
  EXPECT_EQ(DescribePortOwner(port), "") << "nobody listens yet";
  ASSERT_EQ(listen(socket.get(), 1), 0);
  const std::string owner = DescribePortOwner(port);
  EXPECT_TRUE(owner.starts_with("process " + std::to_string(getpid()) + " (")) << owner;
}

}  // namespace
}  // namespace weft::apps
