// What a registry names a file's bytes by (its ETag), and the check of bytes against it: SHA-256
// for large files, git's blob hash (SHA-1 over a header and the bytes) for small ones.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/bytes.h"
#include "base/result.h"
#include "base/sha1.h"
#include "base/sha256.h"

namespace weft::registry {

class ContentName {
 public:
  ContentName() = default;
  // An ETag as it comes: quotes and "W/" are taken off; 64 or 40 hexadecimal digits must remain.
  static Result<ContentName> Parse(std::string_view etag);

  const std::string& hex() const { return hex_; }
  bool is_sha256() const { return hex_.size() == 64; }

 private:
  std::string hex_;
};

// Hashes a file's bytes as they arrive.
class ContentHash {
 public:
  ContentHash(const ContentName& name, uint64_t byte_count);
  void Update(ByteSpan bytes);
  // The hash of all bytes in hex. Once.
  std::string Finish();

 private:
  std::variant<Sha256Stream, Sha1Stream> stream_;
};

}  // namespace weft::registry
