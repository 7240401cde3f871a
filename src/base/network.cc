#include "base/network.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

namespace weft {

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
