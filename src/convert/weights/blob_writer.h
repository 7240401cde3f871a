// Writes the blobs of a package while it is being made: named by their SHA-256 when they are
// complete, each stored once.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/descriptor.h"
#include "base/result.h"
#include "convert/weights/stored_weight.h"
#include "package/manifest.h"

namespace weft::convert {

// Smaller arrays of a layer share a blob, and are as quick to make as to find again.
inline constexpr uint64_t kSmallBytes = 64 << 10;
inline constexpr uint64_t kAlignment = 64;  // of arrays inside a blob: one cache line

// Bytes of one blob in order; hashed and written as they come, never held.
class BlobWriter {
 public:
  // `folder` is the package's blobs folder. Bytes go to a temporary name in it.
  static Result<std::unique_ptr<BlobWriter>> Open(const std::filesystem::path& folder);
  ~BlobWriter();  // removes what was not finished
  BlobWriter(const BlobWriter&) = delete;
  BlobWriter& operator=(const BlobWriter&) = delete;

  Status Append(ByteSpan bytes);
  // Zero bytes up to the next multiple of `alignment`; returns the offset reached.
  Result<uint64_t> Align(uint64_t alignment);
  uint64_t byte_count() const { return byte_count_; }

  struct Finished {
    package::Digest digest;
    package::BlobInfo info;
  };
  // Gives the file its name. REQUIRES: byte_count() > 0; called once.
  Result<Finished> Finish();

 private:
  BlobWriter() = default;
  void HashChunks(ByteSpan bytes);

  std::filesystem::path folder_;
  std::filesystem::path path_;
  Descriptor fd_;
  uint64_t byte_count_ = 0;
  uint64_t chunk_fill_ = 0;
  Sha256Stream whole_;
  Sha256Stream chunk_;
  std::vector<Sha256Digest> chunks_;
};

}  // namespace weft::convert
