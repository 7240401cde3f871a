// One blob while one connection downloads it: "<etag>.incomplete", hashed as it grows, renamed when
// it is whole and its hash is right. What was written survives a kill and is hashed again by the
// next run.
#pragma once

#include <atomic>
#include <functional>
#include <optional>

#include "base/descriptor.h"
#include "registry/registry_cache.h"
#include "registry/registry_client.h"

namespace weft::registry {

inline constexpr size_t kReadBytes = 1 << 20;  // of a file that is hashed, at a time

// Keeps other processes from writing a blob.
class BlobLock {
 public:
  // Waits for another process that writes it, after `on_wait` (kCancelled when told to stop).
  static Result<BlobLock> Take(const RegistryCache& cache, const ContentName& content,
                               const std::atomic<bool>& cancelled,
                               const std::function<void()>& on_wait);

 private:
  BlobLock() = default;
  Descriptor fd_;
};

class BlobFile {
 public:
  // REQUIRES: the blob's lock is held. `file` and `cache` outlive this object.
  static Result<BlobFile> Open(const RegistryCache& cache, const RemoteFile& file);

  uint64_t byte_count() const { return byte_count_; }
  bool IsWhole() const { return byte_count_ == file_->byte_count; }
  // Errors: kInvalidData beyond the length that the registry stated; a full disk is kIo.
  Status Append(ByteSpan bytes);
  // Begins again with nothing.
  Status Clear();
  // Compares the hash and renames. A blob that is wrong is removed: kInvalidData says so.
  // REQUIRES: IsWhole().
  Status Publish();
  // Begins again with a new file, after Publish removed a wrong one.
  Status Reopen();

 private:
  BlobFile() = default;
  Status HashWhatIsThere();

  const RegistryCache* cache_ = nullptr;
  const RemoteFile* file_ = nullptr;
  std::optional<ContentHash> hash_;
  uint64_t byte_count_ = 0;
  Descriptor fd_;
};

// What errno says about a file of the cache; a full disk in words of its own.
Error DownloadError(const std::string& what, const std::filesystem::path& path);
// What was downloaded is not what the registry stated.
Error WrongHash(const RemoteFile& file, const std::string& actual);

}  // namespace weft::registry
