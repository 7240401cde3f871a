// BlobStore: a folder of content-addressed blobs, read by mapping, written atomically, verified
// before use. One store may be shared by threads; two processes may share a folder.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/bytes.h"
#include "base/file.h"
#include "package/digest.h"
#include "package/manifest.h"

namespace weft::package {

// What becomes of a file whose bytes are found not to match.
enum class DamagedFile {
  kMoveAway,  // of a cache: it is renamed, so that it is downloaded again
  kKeep,      // of a package: it is its owner's, and stays as it is
};

class BlobStore {
 public:
  // `folder` holds files named by 64 hex digits; created when missing.
  static Result<std::unique_ptr<BlobStore>> Open(const std::filesystem::path& folder,
                                                 DamagedFile damaged = DamagedFile::kMoveAway);
  virtual ~BlobStore() = default;

  virtual bool Contains(const Digest& digest) const = 0;
  // The whole blob, mapped. A blob is verified once, chunk by chunk: on its download through this
  // store, or the first time that it is handed out. That is skipped if its file has not changed
  // since an earlier process verified it (verified_files.h). A mismatch is kInvalidData naming the
  // chunk.
  virtual Result<Slice> Get(const Digest& digest, const BlobInfo& info) = 0;
  // Forgets what earlier processes verified.
  virtual void Distrust() = 0;
  // The same bytes without a look at them: for handing them on to somebody who verifies them.
  virtual Result<Slice> Map(const Digest& digest, const BlobInfo& info) = 0;
  // Writes a blob whose bytes must hash to `digest`.
  virtual Status Put(const Digest& digest, ByteSpan bytes) = 0;

  // Piecewise, resumable writing of a download: verified chunks are appended to "<digest>.partial".
  // ResumeOffset: how many bytes of whole, verified chunks are there already.
  virtual Result<uint64_t> ResumeOffset(const Digest& digest, const BlobInfo& info) = 0;
  // Appends chunk `index` after verifying it; the last chunk completes the blob (atomic rename).
  virtual Status AppendChunk(const Digest& digest, const BlobInfo& info, uint64_t index,
                             ByteSpan chunk) = 0;
};

}  // namespace weft::package
