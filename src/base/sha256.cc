#include "base/sha256.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

namespace weft {

struct Sha256Stream::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256Stream::Sha256Stream() : state_(std::make_unique<State>()) {
  CHECK(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}
Sha256Stream::~Sha256Stream() = default;
Sha256Stream::Sha256Stream(Sha256Stream&&) noexcept = default;
Sha256Stream& Sha256Stream::operator=(Sha256Stream&&) noexcept = default;

void Sha256Stream::Update(ByteSpan bytes) {
  CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

Sha256Digest Sha256Stream::Finish() {
  Sha256Digest digest;
  unsigned length = 0;
  CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), &length) == 1 && length == 32);
  return digest;
}

Sha256Digest HmacSha256(ByteSpan key, ByteSpan bytes) {
  Sha256Digest mac;
  unsigned length = 0;
  const unsigned char* const made = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                                         bytes.data(), bytes.size(), mac.data(), &length);
  CHECK(made != nullptr && length == mac.size());
  return mac;
}

Sha256Digest Sha256(ByteSpan bytes) {
  Sha256Stream stream;
  stream.Update(bytes);
  return stream.Finish();
}

}  // namespace weft
