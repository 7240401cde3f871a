#include "package/verified_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "base/descriptor.h"

namespace weft::package {
namespace {

// Time stamps of some file systems are as coarse as two seconds.
constexpr int64_t kYoungMs = 3000;
// A folder has at most some thousand blobs; what is longer is not ours.
constexpr uint64_t kMostBytes = 16 << 20;

}  // namespace

VerifiedFiles::VerifiedFiles(std::filesystem::path folder) : path_(std::move(folder)) {
  path_ /= ".verified";
  const auto text = ReadTextFile(path_, kMostBytes);
  if (!text.ok()) return;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, rest;
    FileStamp stamp;
    words >> name >> stamp.device >> stamp.inode >> stamp.byte_count >> stamp.modified_ns >>
        stamp.changed_ns;
    if (!words || words >> rest) continue;
    if (const auto digest = Digest::Parse(name); digest.ok()) stamps_[*digest] = stamp;
  }
}

bool VerifiedFiles::Has(const Digest& digest, const FileStamp& stamp) const {
  const std::lock_guard lock(mutex_);
  const auto found = stamps_.find(digest);
  return found != stamps_.end() && found->second == stamp;
}

void VerifiedFiles::Add(const Digest& digest, const FileStamp& stamp, int64_t looked_ms) {
  const int64_t changed_ms = std::max(stamp.modified_ns, stamp.changed_ns) / 1'000'000;
  if (looked_ms - changed_ms < kYoungMs) return;
  const std::lock_guard lock(mutex_);
  stamps_[digest] = stamp;
  std::ostringstream line;
  line << digest.ToHex() << ' ' << stamp.device << ' ' << stamp.inode << ' ' << stamp.byte_count
       << ' ' << stamp.modified_ns << ' ' << stamp.changed_ns << '\n';
  const std::string text = line.str();
  const Descriptor fd(
      open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  // One write appends the whole line, whoever else does; a torn one is no line.
  if (fd.is_open() && write(fd.get(), text.data(), text.size()) < 0) return;
}

void VerifiedFiles::Forget() {
  const std::lock_guard lock(mutex_);
  stamps_.clear();
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

}  // namespace weft::package
