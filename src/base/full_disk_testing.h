// A disk that is full, for tests.
#pragma once

#include <sys/resource.h>

#include <csignal>

namespace weft {

// While it lives no file of this process may become longer, as on a disk that is full.
class FullDisk {
 public:
  explicit FullDisk(rlim_t file_bytes) : old_handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit = {file_bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &old_);
    signal(SIGXFSZ, old_handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  sighandler_t old_handler_;
  rlimit old_ = {};
};

}  // namespace weft
