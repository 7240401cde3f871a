#include "net/peer_process.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "base/bytes.h"
#include "base/descriptor.h"

namespace weft::net {
namespace {

constexpr std::array<uint8_t, 12> kMappedPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
// What the kernel shows for users that this process's user namespace has no number for. Two such
// users look the same, so none of them is anybody.
constexpr uint32_t kOverflowUser = 65534;

void AppendHex(std::string* text, uint32_t value, int digit_count) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  for (int shift = 4 * (digit_count - 1); shift >= 0; shift -= 4) {
    *text += kDigits[(value >> shift) & 15];
  }
}

// The kernel prints an address as 32-bit words, each read from memory as a number of this machine:
// 127.0.0.1 is 0100007F here. The port is printed as people write it.
std::string AsInTable(const SocketEnd& end, bool in_v6_table) {
  std::string text;
  for (size_t at = in_v6_table ? 0 : kMappedPrefix.size(); at < end.address.size(); at += 4) {
    AppendHex(&text, LoadLe<uint32_t>(end.address.data() + at), 8);
  }
  text += ':';
  AppendHex(&text, end.port, 4);
  return text;
}

// Takes the next field off the front of `rest`; fields are apart by spaces.
std::string_view TakeField(std::string_view* rest) {
  const size_t begin = std::min(rest->find_first_not_of(' '), rest->size());
  const size_t end = std::min(rest->find(' ', begin), rest->size());
  const std::string_view field = rest->substr(begin, end - begin);
  rest->remove_prefix(end);
  return field;
}

std::optional<uint64_t> Number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The number of a user that is somebody; no inode: nobody holds the socket (TIME_WAIT, or closed
// with data on its way).
std::optional<uint32_t> UserOf(uint64_t user, uint64_t inode) {
  if (inode == 0 || user >= kOverflowUser) return std::nullopt;
  return static_cast<uint32_t>(user);
}

// `fields` is a line from the state on: state, queues, timer, retransmits, uid, timeout, inode.
std::optional<uint32_t> UserOfLine(std::string_view fields) {
  for (int skipped = 0; skipped < 4; ++skipped) TakeField(&fields);
  const auto user = Number(TakeField(&fields));
  TakeField(&fields);  // timeout
  const auto inode = Number(TakeField(&fields));
  if (!user || !inode) return std::nullopt;
  return UserOf(*user, *inode);
}

// Files of /proc have no length beforehand; the kernel makes their text while it is read.
std::string ReadTable(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Asks the kernel for the one socket with these two ends (sock_diag(7)): microseconds, where a
// table costs milliseconds. nullopt also where this kernel or a sandbox does not answer.
std::optional<uint32_t> AskForSocket(const SocketEnd& holder, const SocketEnd& other) {
  struct {
    nlmsghdr head;
    inet_diag_req_v2 body;
  } question = {};
  question.head.nlmsg_len = sizeof(question);
  question.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.head.nlmsg_flags = NLM_F_REQUEST;
  const bool is_v4 = holder.IsV4() && other.IsV4();
  const size_t begin = is_v4 ? kMappedPrefix.size() : 0;
  question.body.sdiag_family = is_v4 ? AF_INET : AF_INET6;
  question.body.sdiag_protocol = IPPROTO_TCP;
  question.body.idiag_states = ~0u;
  inet_diag_sockid& id = question.body.id;
  id.idiag_sport = htons(holder.port);
  id.idiag_dport = htons(other.port);
  std::memcpy(id.idiag_src, holder.address.data() + begin, holder.address.size() - begin);
  std::memcpy(id.idiag_dst, other.address.data() + begin, other.address.size() - begin);
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;

  const Descriptor kernel(socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!kernel.is_open()) return std::nullopt;
  // The answer is there when send returns: the kernel makes it in that call.
  std::array<uint8_t, 1024> answer;
  ssize_t count = send(kernel.get(), &question, sizeof(question), 0);
  if (count > 0) count = recv(kernel.get(), answer.data(), answer.size(), MSG_DONTWAIT);
  if (count < static_cast<ssize_t>(NLMSG_HDRLEN + sizeof(inet_diag_msg))) return std::nullopt;
  if (LoadLe<nlmsghdr>(answer.data()).nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;
  const auto found = LoadLe<inet_diag_msg>(answer.data() + NLMSG_HDRLEN);
  // Where there is no such connection the kernel answers with whoever listens on that port.
  if (found.id.idiag_sport != id.idiag_sport || found.id.idiag_dport != id.idiag_dport) {
    return std::nullopt;
  }
  return UserOf(found.idiag_uid, found.idiag_inode);
}

std::optional<uint32_t> LookOnce(const SocketEnd& peer, const SocketEnd& own) {
  if (peer.IsV4()) {
    if (const auto user = FindSocketUser(ReadTable("/proc/net/tcp"), peer, own)) return user;
  }
  // Also for IPv4: a program may use an IPv6 socket for it.
  return FindSocketUser(ReadTable("/proc/net/tcp6"), peer, own);
}

}  // namespace

bool SocketEnd::IsV4() const {
  return std::equal(kMappedPrefix.begin(), kMappedPrefix.end(), address.begin());
}

bool SocketEnd::IsLoopback() const {
  if (IsV4()) return address[12] == 127;
  constexpr std::array<uint8_t, 16> kLoopback = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return address == kLoopback;
}

std::optional<uint32_t> FindSocketUser(std::string_view table, const SocketEnd& holder,
                                       const SocketEnd& other) {
  for (const bool in_v6_table : {false, true}) {
    if (!in_v6_table && !(holder.IsV4() && other.IsV4())) continue;
    // Both columns with the spaces around them: a v4 address is no part of a v6 one by chance.
    const std::string columns =
        " " + AsInTable(holder, in_v6_table) + " " + AsInTable(other, in_v6_table) + " ";
    const size_t found = table.find(columns);
    if (found == std::string_view::npos) continue;
    const std::string_view rest = table.substr(found + columns.size());
    return UserOfLine(rest.substr(0, rest.find('\n')));
  }
  return std::nullopt;
}

std::optional<uint32_t> PeerUser(const SocketEnd& peer, const SocketEnd& own) {
  if (!peer.IsLoopback() || !own.IsLoopback()) return std::nullopt;
  if (const auto user = AskForSocket(peer, own)) return user;
  // The kernel writes the table in pieces, and a socket that closes between two of them can hide
  // the line after it: whoever is not found is looked for once more.
  if (const auto user = LookOnce(peer, own)) return user;
  return LookOnce(peer, own);
}

}  // namespace weft::net
