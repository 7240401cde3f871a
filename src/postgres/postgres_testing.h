// A PostgreSQL of its own, for tests: in a folder of its own, on a free port, until the test ends.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/file_testing.h"
#include "net/net_testing.h"

namespace weft::postgres {

// A port that nobody listens on.
inline uint16_t FreePort() {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(probe, generic, size), 0);
  EXPECT_EQ(getsockname(probe, generic, &size), 0);
  close(probe);
  return ntohs(address.sin_port);
}

class TestServer {
 public:
  // "" where PostgreSQL is not installed.
  static std::filesystem::path Programs() {
    std::vector<std::filesystem::path> found;
    std::error_code error;
    for (const auto& version : std::filesystem::directory_iterator("/usr/lib/postgresql", error))
      if (std::filesystem::exists(version.path() / "bin" / "initdb"))
        found.push_back(version.path() / "bin");
    std::ranges::sort(found);
    return found.empty() ? std::filesystem::path() : found.back();
  }

  TestServer() : port_(FreePort()) {
    // It refuses to run as root: another user then needs the folder.
    if (geteuid() == 0) user_ = getpwnam("postgres");
    if (user_ != nullptr) {
      EXPECT_EQ(chown(folder_.path().c_str(), user_->pw_uid, user_->pw_gid), 0);
    }
    const std::string data = (folder_.path() / "data").string();
    const pid_t made = Spawn({"initdb", "-D", data, "-A", "trust", "-U", "weft", "-N"});
    int status = 0;
    EXPECT_EQ(waitpid(made, &status, 0), made);
    EXPECT_EQ(status, 0) << "initdb";
    Start();
  }
  ~TestServer() { Kill(SIGQUIT); }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  std::string url() const {
    return "host=127.0.0.1 port=" + std::to_string(port_) + " user=weft dbname=postgres";
  }
  void Start() {
    const std::string data = (folder_.path() / "data").string();
    process_ = Spawn({"postgres", "-D", data, "-p", std::to_string(port_), "-c",
                      "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c",
                      "max_connections=20", "-c", "shared_buffers=8MB"});
    for (int attempt = 0; attempt < 200 && !net::RawClient(port_).is_connected(); ++attempt)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  // SIGQUIT ends it at once, as a crash would.
  void Kill(int signal) {
    if (process_ <= 0) return;
    kill(process_, signal);
    waitpid(process_, nullptr, 0);
    process_ = 0;
  }
  // All of its processes stop, or go on. Each is in a session of its own.
  void Pause(bool is_paused) {
    const int signal = is_paused ? SIGSTOP : SIGCONT;
    kill(process_, signal);
    for (const pid_t child : Children()) kill(child, signal);
  }

 private:
  std::vector<pid_t> Children() const {
    std::vector<pid_t> children;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      // "1234 (postgres) S 1000 ...": the parent stands behind the state.
      std::ifstream file(entry.path() / "stat");
      std::string stat;
      std::getline(file, stat);
      const size_t end = stat.rfind(')');
      if (end == std::string::npos || end + 4 > stat.size()) continue;
      if (NumberOf(stat.substr(end + 4)) == process_) children.push_back(NumberOf(name));
    }
    return children;
  }

  static pid_t NumberOf(const std::string& text) {
    pid_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
  }
  pid_t Spawn(const std::vector<std::string>& words) const {
    const std::string program = (Programs() / words[0]).string();
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    const pid_t child = fork();
    if (child != 0) return child;
    setpgid(0, 0);
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int stream : {0, 1, 2}) dup2(nothing, stream);
    if (chdir("/") != 0) _exit(126);
    if (user_ != nullptr && (setgid(user_->pw_gid) != 0 || setuid(user_->pw_uid) != 0)) _exit(126);
    execve(program.c_str(), arguments.data(), environ);
    _exit(127);
  }

  const TemporaryFolder folder_;
  const uint16_t port_;
  const passwd* user_ = nullptr;
  pid_t process_ = 0;
};

}  // namespace weft::postgres
