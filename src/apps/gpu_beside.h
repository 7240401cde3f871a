// The GPU worker beside a server: `weft serve` starts the headless worker (gpu_worker.h) as a
// process of its own where this machine has a GPU, and passes on what it says.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "base/descriptor.h"
#include "base/result.h"

namespace weft::apps {

// Of `--gpu`.
enum class GpuUse {
  kAuto,      // a GPU that is there
  kOff,       // none
  kSoftware,  // a software adapter, too: for tests, since it is slow
};

struct GpuBesideOptions {
  GpuUse use = GpuUse::kAuto;
  std::string server;       // "ws://127.0.0.1:8080"
  std::string join_token;   // "": none is demanded
  std::string fingerprint;  // of the server's certificate; "": without TLS
};

class GpuBeside {
 public:
  // Null where there is nothing to start: no GPU, or none is wanted. What would have it helps is
  // logged in a line.
  static std::unique_ptr<GpuBeside> Start(const GpuBesideOptions& options);
  // Ends the worker.
  ~GpuBeside();

 private:
  GpuBeside(pid_t process, Descriptor output);

  pid_t process_;
  std::jthread reader_;  // logs what the worker says
};

// Whether `devices` ("/dev") has the files of a GPU.
bool HasGpu(const std::filesystem::path& devices);

}  // namespace weft::apps
