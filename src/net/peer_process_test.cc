// Lines as kernels write them, and real sockets whose owner is this process.
#include "net/peer_process.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace weft::net {
namespace {

SocketEnd V4(std::array<uint8_t, 4> address, uint16_t port) {
  SocketEnd end;
  end.address = {0, 0, 0,    0,    0,          0,          0,          0,
                 0, 0, 0xff, 0xff, address[0], address[1], address[2], address[3]};
  end.port = port;
  return end;
}

SocketEnd V6Loopback(uint16_t port) {
  SocketEnd end;
  end.address[15] = 1;
  end.port = port;
  return end;
}

constexpr char kHead[] =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n";

std::string Line(const std::string& local, const std::string& remote, const std::string& state,
                 const std::string& user, const std::string& inode) {
  return "   7: " + local + " " + remote + " " + state +
         " 00000000:00000000 00:00000000 00000000 " + user + "        0 " + inode +
         " 1 ffff8c0 20 4 30 10 -1\n";
}

TEST(PeerProcess, FindsTheLineWhoseOwnEndIsThePeers) {
  const SocketEnd peer = V4({127, 0, 0, 1}, 50000);
  const SocketEnd server = V4({127, 0, 0, 1}, 8080);
  const std::string table = kHead + Line("0100007F:1F90", "00000000:0000", "0A", "   33", "5") +
                            Line("0100007F:1F90", "0100007F:C350", "01", "   33", "6") +
                            Line("0100007F:C350", "0100007F:1F90", "01", " 1000", "7");
  EXPECT_EQ(FindSocketUser(table, peer, server), 1000u);
  EXPECT_EQ(FindSocketUser(table, server, peer), 33u);
  EXPECT_EQ(FindSocketUser(table, V4({127, 0, 0, 1}, 50001), server), std::nullopt);
  EXPECT_EQ(FindSocketUser(table, V4({127, 0, 0, 2}, 50000), server), std::nullopt);
}

TEST(PeerProcess, KnowsV6AndMappedAddresses) {
  const std::string loopback = "00000000000000000000000001000000";
  const std::string mapped = "0000000000000000FFFF00000100007F";
  const std::string table = kHead +
                            Line(loopback + ":C350", loopback + ":1F90", "01", "1001", "9") +
                            Line(mapped + ":C350", mapped + ":1F90", "01", "1002", "9");
  EXPECT_EQ(FindSocketUser(table, V6Loopback(50000), V6Loopback(8080)), 1001u);
  EXPECT_EQ(FindSocketUser(table, V4({127, 0, 0, 1}, 50000), V4({127, 0, 0, 1}, 8080)), 1002u);
}

TEST(PeerProcess, SocketsThatNobodyHoldsHaveNoUser) {
  const SocketEnd peer = V4({127, 0, 0, 1}, 50000);
  const SocketEnd server = V4({127, 0, 0, 1}, 8080);
  const auto user = [&](const std::string& state, const std::string& uid,
                        const std::string& inode) {
    return FindSocketUser(kHead + Line("0100007F:C350", "0100007F:1F90", state, uid, inode), peer,
                          server);
  };
  EXPECT_EQ(user("01", "    0", "12"), 0u);                  // really root
  EXPECT_EQ(user("06", "    0", "0"), std::nullopt);         // TIME_WAIT
  EXPECT_EQ(user("04", "    0", "0"), std::nullopt);         // closed, its last bytes on their way
  EXPECT_EQ(user("01", "65534", "12"), std::nullopt);        // of no user that is known here
  EXPECT_EQ(user("01", "   -1", "12"), std::nullopt);        // no number
  EXPECT_EQ(user("01", "99999999999", "12"), std::nullopt);  // no user's number
}

TEST(PeerProcess, LinesThatEndEarlyHaveNoUser) {
  const std::string table = Line("0100007F:C350", "0100007F:1F90", "01", " 1000", "7");
  const SocketEnd peer = V4({127, 0, 0, 1}, 50000);
  const SocketEnd server = V4({127, 0, 0, 1}, 8080);
  const size_t end_of_inode = table.find(" 7 ") + 2;
  for (size_t length = 0; length < end_of_inode; ++length) {
    EXPECT_EQ(FindSocketUser(table.substr(0, length), peer, server), std::nullopt) << length;
  }
  EXPECT_EQ(FindSocketUser(table.substr(0, end_of_inode), peer, server), 1000u);
}

// A listening socket and a client of it, both of this process.
void ExpectOwnUser(int family) {
  const int listener = socket(family, SOCK_STREAM, 0);
  if (listener < 0) GTEST_SKIP() << "this machine has no such addresses";
  sockaddr_storage address = {};
  address.ss_family = static_cast<sa_family_t>(family);
  void* raw = &address;
  if (family == AF_INET) {
    static_cast<sockaddr_in*>(raw)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  } else {
    static_cast<sockaddr_in6*>(raw)->sin6_addr = in6addr_loopback;
  }
  socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (bind(listener, static_cast<sockaddr*>(raw), length) != 0) {
    close(listener);
    GTEST_SKIP() << "this machine has no such loopback address";
  }
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, static_cast<sockaddr*>(raw), &length), 0);
  const int client = socket(family, SOCK_STREAM, 0);
  ASSERT_EQ(connect(client, static_cast<sockaddr*>(raw), length), 0);
  const auto port = [&](int fd) {
    sockaddr_storage own = {};
    socklen_t own_length = sizeof(own);
    void* own_raw = &own;
    EXPECT_EQ(getsockname(fd, static_cast<sockaddr*>(own_raw), &own_length), 0);
    return ntohs(family == AF_INET ? static_cast<sockaddr_in*>(own_raw)->sin_port
                                   : static_cast<sockaddr_in6*>(own_raw)->sin6_port);
  };
  const auto end = [&](uint16_t at) {
    return family == AF_INET ? V4({127, 0, 0, 1}, at) : V6Loopback(at);
  };
  EXPECT_EQ(PeerUser(end(port(client)), end(port(listener))), getuid());
  EXPECT_EQ(PeerUser(end(port(listener)), V4({192, 168, 1, 1}, port(client))), std::nullopt);
  const uint16_t client_port = port(client);
  close(client);
  EXPECT_EQ(PeerUser(end(client_port), end(port(listener))), std::nullopt);
  close(listener);
}

TEST(PeerProcess, NamesTheUserOfALoopbackClient) {
  ExpectOwnUser(AF_INET);
}
TEST(PeerProcess, NamesTheUserOfAV6LoopbackClient) {
  ExpectOwnUser(AF_INET6);
}

}  // namespace
}  // namespace weft::net
