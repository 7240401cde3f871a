#include "base/network.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

namespace weft {
namespace {

constexpr size_t kIpv4At = 12;  // of an IpAddress, behind 80 zero bits and 16 set ones

bool IsIpv4(const IpAddress& ip) {
  return std::all_of(ip.begin(), ip.begin() + 10, [](uint8_t byte) { return byte == 0; }) &&
         ip[10] == 0xff && ip[11] == 0xff;
}

bool IsZeroBefore(const IpAddress& ip, size_t end) {
  return std::all_of(ip.begin(), ip.begin() + end, [](uint8_t byte) { return byte == 0; });
}

}  // namespace

std::optional<IpAddress> ParseIp(const std::string& text) {
  IpAddress ip{};
  if (inet_pton(AF_INET6, text.c_str(), ip.data()) == 1) return ip;
  ip[10] = ip[11] = 0xff;
  if (inet_pton(AF_INET, text.c_str(), ip.data() + kIpv4At) == 1) return ip;
  return std::nullopt;
}

bool IsLoopback(const IpAddress& ip) {
  if (IsIpv4(ip)) return ip[kIpv4At] == 127;
  return IsZeroBefore(ip, 15) && ip[15] == 1;
}

bool IsPrivate(const IpAddress& ip) {
  if (!IsIpv4(ip)) return (ip[0] & 0xfe) == 0xfc || (ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80);
  const uint8_t first = ip[kIpv4At], second = ip[kIpv4At + 1];
  return first == 10 || (first == 172 && second >= 16 && second < 32) ||
         (first == 192 && second == 168) || (first == 169 && second == 254) ||
         (first == 100 && second >= 64 && second < 128);
}

bool IsOneHost(const IpAddress& ip) {
  if (!IsIpv4(ip)) return ip[0] != 0xff && !IsZeroBefore(ip, ip.size());
  return ip[kIpv4At] != 0 && ip[kIpv4At] < 224;
}

bool IsSameNetwork(const IpAddress& one, const IpAddress& other) {
  if (IsIpv4(one) || IsIpv4(other)) return one == other;
  return std::equal(one.begin(), one.begin() + 8, other.begin());
}

std::string NetworkOf(const std::string& address) {
  in6_addr parsed = {};
  if (inet_pton(AF_INET6, address.c_str(), &parsed) != 1 || IN6_IS_ADDR_LOOPBACK(&parsed)) {
    return address;
  }
  char text[INET6_ADDRSTRLEN] = {};
  if (IN6_IS_ADDR_V4MAPPED(&parsed)) {
    inet_ntop(AF_INET, std::begin(parsed.s6_addr) + 12, text, sizeof(text));
    return text;
  }
  std::fill(std::begin(parsed.s6_addr) + 8, std::end(parsed.s6_addr), uint8_t{0});
  inet_ntop(AF_INET6, &parsed, text, sizeof(text));
  return text;
}

}  // namespace weft
