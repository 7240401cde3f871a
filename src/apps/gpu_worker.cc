#include "apps/gpu_worker.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "apps/web_files.h"

namespace weft::apps {
namespace {

constexpr const char* kWorkerFile = "headless/worker.mjs";  // web/packages/headless/vite.config.ts

}  // namespace

std::filesystem::path GpuWorkerFile() {
  return FindWebRoot(kWorkerFile) / kWorkerFile;
}

Error BecomeGpuWorker(const std::vector<std::string>& arguments) {
  const std::string worker = GpuWorkerFile();
  if (!std::filesystem::exists(worker)) {
    return Error(ErrorCode::kNotFound,
                 "The GPU worker is not at '" + worker + "': build it with './dev build'.");
  }
  std::vector<const char*> command = {"node", worker.c_str()};
  for (const std::string& argument : arguments) command.push_back(argument.c_str());
  command.push_back(nullptr);
  // The type that execvp takes is older than const.
  execvp(command[0], const_cast<char* const*>(command.data()));
  if (errno == ENOENT) {
    return Error(ErrorCode::kNotFound,
                 "The GPU worker runs on Node.js, which is not installed. Install version 20 or "
                 "newer (https://nodejs.org) and start this again: it says what else it needs.");
  }
  return Error(ErrorCode::kIo, std::string("Cannot start node: ") + std::strerror(errno) + ".");
}

}  // namespace weft::apps
