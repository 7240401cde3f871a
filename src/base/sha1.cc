#include "base/sha1.h"

#include <openssl/evp.h>

namespace weft {

struct Sha1Stream::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

Sha1Stream::Sha1Stream() : state_(std::make_unique<State>()) {
  CHECK(EVP_DigestInit_ex(state_->context, EVP_sha1(), nullptr) == 1);
}
Sha1Stream::~Sha1Stream() = default;
Sha1Stream::Sha1Stream(Sha1Stream&&) noexcept = default;
Sha1Stream& Sha1Stream::operator=(Sha1Stream&&) noexcept = default;

void Sha1Stream::Update(ByteSpan bytes) {
  CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

Sha1Digest Sha1Stream::Finish() {
  Sha1Digest digest;
  unsigned length = 0;
  CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), &length) == 1 && length == 20);
  return digest;
}

}  // namespace weft
