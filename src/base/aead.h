// ChaCha20-Poly1305 (RFC 8439): bytes that nobody without the key can read, change or make up.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/bytes.h"

namespace weft {

using AeadKey = std::array<uint8_t, 32>;
using AeadNonce = std::array<uint8_t, 12>;  // never twice with the same key
inline constexpr size_t kAeadTagBytes = 16;

// One key. Not for several threads at once.
class Aead {
 public:
  explicit Aead(const AeadKey& key);
  ~Aead();
  Aead(Aead&&) noexcept;
  Aead& operator=(Aead&&) noexcept;

  // Writes plain.size() bytes of ciphertext and the tag. `header` is authenticated, not encrypted.
  // REQUIRES: sealed.size() == plain.size() + kAeadTagBytes; no overlap.
  void Seal(const AeadNonce& nonce, ByteSpan header, ByteSpan plain, MutableByteSpan sealed);
  // False if anything but a Seal with the same key, nonce and header made these bytes; what `plain`
  // then holds means nothing. REQUIRES: as above.
  [[nodiscard]] bool Open(const AeadNonce& nonce, ByteSpan header, ByteSpan sealed,
                          MutableByteSpan plain);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
