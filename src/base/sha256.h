// SHA-256 of bytes, in one call or streamed (OpenSSL underneath).
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/bytes.h"

namespace weft {

using Sha256Digest = std::array<uint8_t, 32>;

Sha256Digest Sha256(ByteSpan bytes);
// HMAC-SHA256 (RFC 2104): a digest that only those who know the key can make.
Sha256Digest HmacSha256(ByteSpan key, ByteSpan bytes);

class Sha256Stream {
 public:
  Sha256Stream();
  ~Sha256Stream();
  Sha256Stream(Sha256Stream&&) noexcept;
  Sha256Stream& operator=(Sha256Stream&&) noexcept;

  void Update(ByteSpan bytes);
  // The digest of everything so far; the stream must not be updated afterwards.
  Sha256Digest Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
