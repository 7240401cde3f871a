#include "apps/device_id.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/log.h"
#include "base/random.h"

namespace weft::apps {
namespace {

constexpr int kIdBytes = 16;
constexpr size_t kIdDigits = 2 * kIdBytes;
constexpr int kMostWorkers = 256;  // on one cache

}  // namespace

DeviceId::DeviceId(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  for (int number = 1; number <= kMostWorkers; ++number) {
    const std::string name = number == 1 ? "worker-id" : "worker-id-" + std::to_string(number);
    if (Take(folder / name)) return;
  }
  LogWarn("no id could be kept in '{}': this worker is a new device each time it starts",
          folder.string());
  text_ = SecureRandomHex(kIdBytes);
}

bool DeviceId::Take(const std::filesystem::path& file) {
  Descriptor opened(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  const int fd = opened.get();
  if (!opened.is_open() || flock(fd, LOCK_EX | LOCK_NB) != 0) return false;
  lock_ = std::move(opened);
  char kept[kIdDigits + 1];
  const ssize_t count = pread(fd, kept, sizeof(kept), 0);
  text_.assign(kept, kept + std::max<ssize_t>(count, 0));
  if (text_.size() == kIdDigits && FromHex(text_)) return true;
  // A new file, or one that holds something else.
  text_ = SecureRandomHex(kIdBytes);
  const bool written = ftruncate(fd, 0) == 0 &&
                       pwrite(fd, text_.data(), kIdDigits, 0) == static_cast<ssize_t>(kIdDigits);
  if (!written) LogWarn("cannot write '{}': the worker will be another device", file.string());
  return true;
}

}  // namespace weft::apps
