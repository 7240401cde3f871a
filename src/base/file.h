// Files: read whole, map read-only, write atomically. Errors name the path and the operating
// system's reason.
#pragma once

#include <filesystem>
#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace weft {

// What the operating system says of its last call (errno) as an error: "<what> '<path>': <reason>."
// kNotFound, kPermissionDenied or kIo.
Error SystemError(const std::string& what, const std::filesystem::path& path);

Result<std::string> ReadTextFile(const std::filesystem::path& path,
                                 uint64_t byte_limit = 256ull << 20);

// Writes beside `path` and renames over it: a reader sees the old file or the new one, never half.
Status WriteFileAtomically(const std::filesystem::path& path, ByteSpan bytes);

// What the file system says of a file, and changes whenever its bytes do. Times are nanoseconds
// since 1970.
struct FileStamp {
  uint64_t device = 0, inode = 0, byte_count = 0;
  int64_t modified_ns = 0, changed_ns = 0;

  bool operator==(const FileStamp&) const = default;
};

// A read-only mapping of a whole file. Moves; unmapped when destroyed. Slices taken with `AsSlice`
// keep it alive.
class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> Open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  ByteSpan bytes() const { return {data_, byte_count_}; }
  // When it was opened.
  const FileStamp& stamp() const { return stamp_; }
  const std::string& path() const { return path_; }

 private:
  MappedFile() = default;
  std::string path_;
  FileStamp stamp_;
  const uint8_t* data_ = nullptr;
  size_t byte_count_ = 0;
};

// Reads what of mapped bytes is not in memory yet, so that whoever uses them next does not wait for
// the disk. A file that was cut short meanwhile is left to them.
void BringIntoMemory(ByteSpan mapped);

inline Slice AsSlice(const std::shared_ptr<const MappedFile>& file) {
  return Slice(file, file->bytes());
}

}  // namespace weft
