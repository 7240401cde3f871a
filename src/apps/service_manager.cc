#include "apps/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/descriptor.h"
#include "base/log.h"

namespace weft::apps {

bool IsKeptInJournal(const Environment& environment, bool is_terminal) {
  return !is_terminal && (!EnvironmentValue(environment, "INVOCATION_ID").empty() ||
                          !EnvironmentValue(environment, "JOURNAL_STREAM").empty());
}

void NotifyReady() {
  const char* const named = std::getenv("NOTIFY_SOCKET");
  if (named == nullptr || *named == '\0') return;
  std::string path = named;
  unsetenv("NOTIFY_SOCKET");
  sockaddr_un address = {};
  if (path.size() >= sizeof(address.sun_path)) {
    LogWarn("NOTIFY_SOCKET has {} characters, more than an address of a socket", path.size());
    return;
  }
  // "@name" has no file: in the kernel it begins with a zero byte.
  if (path.front() == '@') path.front() = '\0';
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const auto byte_count = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  constexpr char kReady[] = "READY=1";
  const Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open() || sendto(socket.get(), kReady, sizeof(kReady) - 1, MSG_NOSIGNAL,
                                  reinterpret_cast<const sockaddr*>(&address), byte_count) < 0) {
    LogWarn("the service manager cannot be told that the server is ready: {}",
            std::strerror(errno));
  }
}

}  // namespace weft::apps
