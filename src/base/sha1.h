// SHA-1, streamed (OpenSSL underneath). Only for formats that name things by it (git's objects):
// it tells apart what was damaged, not what was forged. Our own formats use SHA-256.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/bytes.h"

namespace weft {

using Sha1Digest = std::array<uint8_t, 20>;

class Sha1Stream {
 public:
  Sha1Stream();
  ~Sha1Stream();
  Sha1Stream(Sha1Stream&&) noexcept;
  Sha1Stream& operator=(Sha1Stream&&) noexcept;

  void Update(ByteSpan bytes);
  // The digest of everything so far; the stream must not be updated afterwards.
  Sha1Digest Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
