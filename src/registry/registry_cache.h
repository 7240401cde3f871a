// The standard cache of Hugging Face downloads on disk, the same layout that huggingface_hub reads
// and writes:
//   models--org--name/blobs/<etag>                the bytes, once, whatever revisions have them
//   models--org--name/refs/<revision>             the commit that a branch stood for
//   models--org--name/snapshots/<commit>/<file>   relative links to ../../blobs/<etag>
//   .locks/models--org--name/<etag>.lock          locked while a blob is written
// A download in progress is blobs/<etag>.incomplete, or blobs/<etag>.ranges (range_file.h). Names
// were checked before they come here (model_reference.h, content_hash.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "registry/content_hash.h"

namespace weft::registry {

class RegistryCache {
 public:
  RegistryCache(std::filesystem::path root, const std::string& repository);

  std::filesystem::path BlobPath(const ContentName& content) const;
  std::filesystem::path IncompletePath(const ContentName& content) const;
  std::filesystem::path RangesPath(const ContentName& content) const;
  std::filesystem::path RangesDonePath(const ContentName& content) const;
  std::filesystem::path LockPath(const ContentName& content) const;
  std::filesystem::path SnapshotPath(const std::string& commit) const;

  // Makes the folders; the error names the one that cannot be made.
  Status Prepare() const;
  // The blob is there with that length (it was verified when it was written).
  bool HasBlob(const ContentName& content, uint64_t byte_count) const;
  // Bytes of the unfinished download of a file of that length; 0 when there is none.
  uint64_t IncompleteBytes(const ContentName& content, uint64_t byte_count) const;

  // Puts a whole blob into the snapshot under its name, and notes what the revision stands for.
  Status Link(const std::string& commit, const std::string& name, const ContentName& content) const;
  Status WriteRef(const std::string& revision, const std::string& commit) const;

  // The commit that the revision stood for when it was last asked; a commit stands for itself.
  std::optional<std::string> ReadRef(const std::string& revision) const;
  // Files of a snapshot whose blob is there.
  std::vector<std::string> SnapshotFiles(const std::string& commit) const;

  // Removes a snapshot, the refs that lead to it and what no other snapshot of the repository
  // uses. Gives the bytes that became free.
  Result<uint64_t> RemoveSnapshot(const std::string& commit) const;

 private:
  std::filesystem::path root_;
  std::string folder_name_;
  std::filesystem::path folder_;
};

// How far the ranges of a download came (range_file.h).
struct RangesDone {
  uint64_t range_bytes = 0;
  std::vector<uint64_t> done_bytes;
};
// Gives nullopt when there are none, or they are not of a file of that length.
std::optional<RangesDone> ReadRanges(const RegistryCache& cache, const ContentName& content,
                                     uint64_t byte_count);

// Free bytes for this user where `path` is, or will be.
Result<uint64_t> FreeBytesAt(std::filesystem::path path);

}  // namespace weft::registry
