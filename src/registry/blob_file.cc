#include "registry/blob_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

namespace weft::registry {
namespace {

constexpr auto kLockInterval = std::chrono::milliseconds(100);

}  // namespace

Error DownloadError(const std::string& what, const std::filesystem::path& path) {
  const int number = errno;
  if (number == ENOSPC || number == EDQUOT) {
    return Error(ErrorCode::kIo, "The disk with '" + path.string() +
                                     "' is full. What was downloaded is kept: make room and run "
                                     "the command again to go on.");
  }
  return Error(ErrorCode::kIo, what + " '" + path.string() + "': " + std::strerror(number) + ".");
}

Error WrongHash(const RemoteFile& file, const std::string& actual) {
  return Error(ErrorCode::kInvalidData,
               "What was downloaded as '" + file.name + "' hashes to " + actual +
                   ", but the registry says " + file.content.hex() +
                   ". It was removed; run the command again to download it anew.");
}

Result<BlobLock> BlobLock::Take(const RegistryCache& cache, const ContentName& content,
                                const std::atomic<bool>& cancelled,
                                const std::function<void()>& on_wait) {
  BlobLock lock;
  const auto path = cache.LockPath(content);
  lock.fd_ = Descriptor(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!lock.fd_.is_open()) return DownloadError("Cannot open", path);
  for (bool waits = false; flock(lock.fd_.get(), LOCK_EX | LOCK_NB) != 0; waits = true) {
    if (errno != EWOULDBLOCK && errno != EINTR) return DownloadError("Cannot lock", path);
    if (cancelled) return Error(ErrorCode::kCancelled, "The download was stopped.");
    if (!waits) on_wait();
    std::this_thread::sleep_for(kLockInterval);
  }
  return lock;
}

Result<BlobFile> BlobFile::Open(const RegistryCache& cache, const RemoteFile& file) {
  BlobFile blob;
  blob.cache_ = &cache;
  blob.file_ = &file;
  TRY(blob.Reopen());
  return blob;
}

Status BlobFile::Reopen() {
  const auto path = cache_->IncompletePath(file_->content);
  fd_ = Descriptor(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd_.is_open()) return DownloadError("Cannot open", path);
  return HashWhatIsThere();
}

Status BlobFile::HashWhatIsThere() {
  const auto path = cache_->IncompletePath(file_->content);
  hash_.emplace(file_->content, file_->byte_count);
  byte_count_ = 0;
  std::vector<uint8_t> piece(kReadBytes);
  while (true) {
    const ssize_t count = read(fd_.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return DownloadError("Cannot read", path);
    if (count == 0) return OkStatus();
    byte_count_ += static_cast<size_t>(count);
    if (byte_count_ > file_->byte_count) return Clear();  // of another length: of no use
    hash_->Update(ByteSpan(piece.data(), static_cast<size_t>(count)));
  }
}

Status BlobFile::Append(ByteSpan bytes) {
  if (bytes.size() > file_->byte_count - byte_count_) {
    return Error(ErrorCode::kInvalidData, "The registry said that '" + file_->name + "' has " +
                                              std::to_string(file_->byte_count) +
                                              " bytes and sends more.");
  }
  while (!bytes.empty()) {
    const ssize_t count = write(fd_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return DownloadError("Cannot write", cache_->IncompletePath(file_->content));
    const auto written = bytes.first(static_cast<size_t>(count));
    hash_->Update(written);
    byte_count_ += written.size();
    bytes = bytes.subspan(written.size());
  }
  return OkStatus();
}

Status BlobFile::Clear() {
  if (ftruncate(fd_.get(), 0) != 0 || lseek(fd_.get(), 0, SEEK_SET) != 0) {
    return DownloadError("Cannot empty", cache_->IncompletePath(file_->content));
  }
  hash_.emplace(file_->content, file_->byte_count);
  byte_count_ = 0;
  return OkStatus();
}

Status BlobFile::Publish() {
  CHECK(IsWhole());
  const auto path = cache_->IncompletePath(file_->content);
  const std::string actual = hash_->Finish();
  if (actual != file_->content.hex()) {
    unlink(path.c_str());
    return WrongHash(*file_, actual);
  }
  if (fdatasync(fd_.get()) != 0) return DownloadError("Cannot write", path);
  const auto blob = cache_->BlobPath(file_->content);
  if (rename(path.c_str(), blob.c_str()) != 0) return DownloadError("Cannot rename to", blob);
  return OkStatus();
}

}  // namespace weft::registry
