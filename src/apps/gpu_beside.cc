#include "apps/gpu_beside.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "apps/gpu_worker.h"
#include "base/clock.h"
#include "base/log.h"

namespace weft::apps {
namespace {

constexpr const char* kName = "the GPU of this server";
constexpr Duration kGoodbye = Milliseconds(500);  // what a worker gets to leave

// Logs lines until the worker's output ends.
void LogLines(const Descriptor& output) {
  std::string text;
  std::array<char, 4096> some;
  while (true) {
    const ssize_t count = read(output.get(), some.data(), some.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    text.append(some.data(), static_cast<size_t>(count));
    for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
      const std::string line = text.substr(0, end);
      if (line.find_first_not_of(" \t\r") != std::string::npos) LogInfo("{}: {}", kName, line);
      text.erase(0, end + 1);
    }
  }
}

std::vector<std::string> CommandOf(const GpuBesideOptions& options, const std::string& worker) {
  std::vector<std::string> command = {"node", worker, options.server, "--name", kName};
  if (!options.fingerprint.empty()) {
    command.emplace_back("--fingerprint");
    command.push_back(options.fingerprint);
  }
  if (options.use == GpuUse::kSoftware) command.emplace_back("--allow-software");
  return command;
}

// The environment with the join token, which others may not read there.
std::vector<std::string> EnvironmentWith(const std::string& join_token) {
  std::vector<std::string> environment;
  constexpr std::string_view kToken = "WEFT_JOIN_TOKEN=";
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (!std::string_view(*variable).starts_with(kToken)) environment.emplace_back(*variable);
  if (!join_token.empty()) environment.push_back(std::string(kToken) + join_token);
  return environment;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Where `program` is in PATH; "": nowhere.
std::string FindProgram(const char* program) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    std::string file = std::string(folder) + "/" + program;
    if (!folder.empty() && access(file.c_str(), X_OK) == 0) return file;
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
  }
  return "";
}

}  // namespace

bool HasGpu(const std::filesystem::path& devices) {
  std::error_code failure;
  if (std::filesystem::exists(devices / "dxg", failure)) return true;  // Windows below Linux
  for (const auto& [folder, begin] : {std::pair{devices, "nvidia"}, {devices / "dri", "renderD"}}) {
    for (const auto& file : std::filesystem::directory_iterator(folder, failure)) {
      const std::string name = file.path().filename();
      const size_t length = std::strlen(begin);
      if (name.starts_with(begin) && name.size() > length && name[length] >= '0' &&
          name[length] <= '9')
        return true;
    }
  }
  return false;
}

std::unique_ptr<GpuBeside> GpuBeside::Start(const GpuBesideOptions& options) {
  if (options.use == GpuUse::kOff) return nullptr;
  if (options.use == GpuUse::kAuto && !HasGpu("/dev")) return nullptr;
  const std::filesystem::path worker = GpuWorkerFile();
  const std::string node = FindProgram("node");
  if (node.empty() || !std::filesystem::exists(worker)) {
    LogInfo("this machine's GPU does not help: {}",
            node.empty() ? "install Node.js 20 or newer (https://nodejs.org) and start again, or "
                           "say --gpu off"
                         : "the GPU worker is not at '" + worker.string() +
                               "'; build it with './dev build', or say --gpu off");
    return nullptr;
  }
  std::vector<std::string> command = CommandOf(options, worker);
  std::vector<std::string> environment = EnvironmentWith(options.join_token);
  // Both are made before the fork: the child of a process with threads may not allocate.
  const std::vector<char*> arguments = Pointers(command), variables = Pointers(environment);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    LogWarn("this machine's GPU does not help: {}", std::strerror(errno));
    return nullptr;
  }
  Descriptor output(ends[0]), input(ends[1]);
  const pid_t process = fork();
  if (process < 0) {
    LogWarn("this machine's GPU does not help: {}", std::strerror(errno));
    return nullptr;
  }
  if (process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    // Ctrl-C of the terminal is the server's, which ends its worker.
    setpgid(0, 0);
    dup2(input.get(), STDOUT_FILENO);
    dup2(input.get(), STDERR_FILENO);
    execve(node.c_str(), arguments.data(), variables.data());
    _exit(127);
  }
  return std::unique_ptr<GpuBeside>(new GpuBeside(process, std::move(output)));
}

GpuBeside::GpuBeside(pid_t process, Descriptor output)
    : process_(process), reader_([output = std::move(output)] { LogLines(output); }) {}

GpuBeside::~GpuBeside() {
  kill(process_, SIGTERM);
  const Instant deadline = MonotonicNow() + kGoodbye;
  while (waitpid(process_, nullptr, WNOHANG) == 0) {
    if (MonotonicNow() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    break;
  }
}

}  // namespace weft::apps
