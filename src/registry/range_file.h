// One large blob while several connections download it at once. Its bytes lie in their places in
// "<etag>.ranges". "<etag>.ranges.done" says how far each range came, so that a later run goes on
// in all of them. What the file is worth shows its hash, which is made when it is whole.
//
// Tools that know only one connection keep "<etag>.incomplete", the file's beginning; such a
// beginning is taken over. A blob's lock (BlobLock) is held while this object lives.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "base/descriptor.h"
#include "registry/registry_cache.h"
#include "registry/registry_client.h"

namespace weft::registry {

class RangeFile {
 public:
  // Goes on with what is there if it belongs to a file of that length. `cache` and `file` outlive
  // this object.
  static Result<RangeFile> Open(const RegistryCache& cache, const RemoteFile& file,
                                uint64_t range_bytes);
  RangeFile(RangeFile&& other) noexcept;
  RangeFile& operator=(RangeFile&&) = delete;

  // Bytes of the file that are there.
  uint64_t DoneBytes() const;
  // A range that is neither whole nor somebody else's; nullopt when there is none.
  std::optional<size_t> Take();
  // Not whole yet; another may take it.
  void GiveBack(size_t range);
  // The bytes of the range that are missing: [first, end). Of one's own range.
  ByteRange Missing(size_t range) const;
  // The next bytes of a range, at most as many as are missing. By whoever took it.
  Status Append(size_t range, ByteSpan bytes);

  // Hashes the whole file and gives it its name. kInvalidData, and nothing is left, when it is not
  // what the registry stated. REQUIRES: every range is whole.
  Status Publish();
  // Removes everything that was downloaded.
  void Remove();

 private:
  RangeFile() = default;
  uint64_t RangeBegin(size_t range) const { return range * range_bytes_; }
  uint64_t RangeEnd(size_t range) const;
  void TakeOverBeginning();
  void ReadDone();
  Status WriteDone(size_t range);

  const RegistryCache* cache_ = nullptr;
  const RemoteFile* file_ = nullptr;
  uint64_t range_bytes_ = 0;
  mutable std::mutex mutex_;      // taken_
  std::vector<uint64_t> done_;    // bytes of each range; an entry is its taker's
  std::vector<uint64_t> stored_;  // what the disk says of done_
  std::vector<bool> taken_;
  Descriptor fd_, done_fd_;
};

}  // namespace weft::registry
