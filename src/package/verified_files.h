// Which files of a folder of blobs were read and found to match, so that a later start does not
// hash them all again: 0.8 s for each GB and processor. Kept in the folder's ".verified", a line a
// file:
//   <64 hex digits> <device> <inode> <bytes> <modified> <changed>      times in nanoseconds
//
// A file is taken for unchanged while its stamp is the one of its last look. As with git's index, a
// stamp that was young at that look is not kept: a later change could have the same times. What a
// failing disk does to bytes behind the file system's back is not noticed; Forget makes the next
// start look again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <unordered_map>

#include "base/file.h"
#include "package/digest.h"

namespace weft::package {

// May be shared by threads; processes may share a folder. A folder that cannot be written keeps
// nothing, which costs time and nothing else.
class VerifiedFiles {
 public:
  // Reads what was kept; lines that are no such line are passed over.
  explicit VerifiedFiles(std::filesystem::path folder);

  bool Has(const Digest& digest, const FileStamp& stamp) const;
  // The file had this stamp before and after a look that began at `looked_ms` (UnixNowMs).
  void Add(const Digest& digest, const FileStamp& stamp, int64_t looked_ms);
  // Of all files.
  void Forget();

 private:
  std::filesystem::path path_;
  mutable std::mutex mutex_;
  std::unordered_map<Digest, FileStamp> stamps_;
};

}  // namespace weft::package
