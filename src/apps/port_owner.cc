#include "apps/port_owner.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>

#include "apps/terminal_text.h"

namespace weft::apps {
namespace {

namespace fs = std::filesystem;

constexpr char kListening[] = "0A";

// The sockets that listen on the port: "socket:[12345]", as /proc/PID/fd has them.
std::set<std::string> ListeningSockets(uint16_t port) {
  std::set<std::string> sockets;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);  // its head
    while (std::getline(file, line)) {
      // sl local:port remote:port state queues timer retransmissions user timeout inode
      std::istringstream words(line);
      std::string number, local, remote, state, skipped, inode;
      words >> number >> local >> remote >> state;
      for (int i = 0; i < 5; ++i) words >> skipped;
      words >> inode;
      const size_t colon = local.rfind(':');
      if (state != kListening || colon == std::string::npos) continue;
      unsigned local_port = 0;
      std::from_chars(local.data() + colon + 1, local.data() + local.size(), local_port, 16);
      if (local_port == port) sockets.insert("socket:[" + inode + "]");
    }
  }
  return sockets;
}

bool Holds(const fs::path& process, const std::set<std::string>& sockets) {
  std::error_code denied;
  for (fs::directory_iterator each(process / "fd", denied), end; !denied && each != end;
       each.increment(denied)) {
    std::error_code gone;
    if (sockets.contains(fs::read_symlink(each->path(), gone).string())) return true;
  }
  return false;
}

}  // namespace

std::string DescribePortOwner(uint16_t port) {
  const std::set<std::string> sockets = ListeningSockets(port);
  std::error_code failed;
  if (sockets.empty()) return "";
  for (fs::directory_iterator each("/proc", failed), end; !failed && each != end;
       each.increment(failed)) {
    const std::string id = each->path().filename().string();
    if (!std::all_of(id.begin(), id.end(), [](char c) { return c >= '0' && c <= '9'; })) continue;
    if (!Holds(each->path(), sockets)) continue;
    std::string name;
    std::ifstream file(each->path() / "comm");
    std::getline(file, name);
    return "process " + id + " (" + TerminalText(name) + ")";
  }
  return "";
}

}  // namespace weft::apps
