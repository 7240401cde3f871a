// Digest: the SHA-256 name of a blob. Paths and URLs of blobs are only ever made from a parsed
// Digest.
#pragma once

#include <compare>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/sha256.h"

namespace weft::package {

class Digest {
 public:
  Digest() = default;
  explicit Digest(const Sha256Digest& bytes) : bytes_(bytes) {}
  // Exactly 64 lower-case hexadecimal digits; anything else is kInvalidArgument.
  static Result<Digest> Parse(std::string_view hex);
  static Digest Of(ByteSpan bytes) { return Digest(Sha256(bytes)); }

  const Sha256Digest& bytes() const { return bytes_; }
  std::string ToHex() const { return weft::ToHex(bytes_); }
  auto operator<=>(const Digest&) const = default;

 private:
  Sha256Digest bytes_{};
};

}  // namespace weft::package

template <>
struct std::hash<weft::package::Digest> {
  size_t operator()(const weft::package::Digest& digest) const noexcept {
    return weft::LoadLe<size_t>(digest.bytes().data());  // already uniform
  }
};
