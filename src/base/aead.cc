#include "base/aead.h"

#include <openssl/evp.h>

#include <algorithm>

#include "base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft {
namespace {

#if defined(__x86_64__)
__attribute__((target("avx"))) void ZeroUpperHalves() {
  _mm256_zeroupper();
}
#endif

// libcrypto (3.0 with AVX-512, say) leaves upper halves of vector registers in use. Every
// instruction for 128 bits that follows has to keep them: kernels for SSSE3 take twice as long.
void LeaveNoUpperHalves() {
#if defined(__x86_64__)
  static const bool has_them = __builtin_cpu_supports("avx") != 0;
  if (has_them) ZeroUpperHalves();
#endif
}

}  // namespace

// The context keeps cipher and key. To name a cipher again makes libcrypto look it up, under locks,
// which takes longer than to seal 500 bytes.
struct Aead::State {
  EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
  explicit State(const AeadKey& key) {
    CHECK(EVP_CipherInit_ex(context, EVP_chacha20_poly1305(), nullptr, key.data(), nullptr, 1) ==
          1);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_CIPHER_CTX_free(context); }

  void Begin(const AeadNonce& nonce, ByteSpan header, bool seals) const {
    CHECK(EVP_CipherInit_ex(context, nullptr, nullptr, nullptr, nonce.data(), seals ? 1 : 0) == 1);
    int length = 0;
    CHECK(EVP_CipherUpdate(context, nullptr, &length, header.data(),
                           static_cast<int>(header.size())) == 1);
  }
  void Update(ByteSpan in, uint8_t* out) const {
    int length = 0;
    if (in.empty()) return;
    CHECK(EVP_CipherUpdate(context, out, &length, in.data(), static_cast<int>(in.size())) == 1 &&
          static_cast<size_t>(length) == in.size());
  }
};

Aead::Aead(const AeadKey& key) : state_(std::make_unique<State>(key)) {}
Aead::~Aead() = default;
Aead::Aead(Aead&&) noexcept = default;
Aead& Aead::operator=(Aead&&) noexcept = default;

void Aead::Seal(const AeadNonce& nonce, ByteSpan header, ByteSpan plain, MutableByteSpan sealed) {
  CHECK(sealed.size() == plain.size() + kAeadTagBytes);
  state_->Begin(nonce, header, true);
  state_->Update(plain, sealed.data());
  int length = 0;
  CHECK(EVP_CipherFinal_ex(state_->context, sealed.data() + plain.size(), &length) == 1);
  CHECK(EVP_CIPHER_CTX_ctrl(state_->context, EVP_CTRL_AEAD_GET_TAG, kAeadTagBytes,
                            sealed.data() + plain.size()) == 1);
  LeaveNoUpperHalves();
}

bool Aead::Open(const AeadNonce& nonce, ByteSpan header, ByteSpan sealed, MutableByteSpan plain) {
  CHECK(sealed.size() == plain.size() + kAeadTagBytes);
  state_->Begin(nonce, header, false);
  state_->Update(sealed.first(plain.size()), plain.data());
  std::array<uint8_t, kAeadTagBytes> tag{};
  std::copy_n(sealed.data() + plain.size(), tag.size(), tag.begin());
  CHECK(EVP_CIPHER_CTX_ctrl(state_->context, EVP_CTRL_AEAD_SET_TAG, kAeadTagBytes, tag.data()) ==
        1);
  int length = 0;
  std::array<uint8_t, kAeadTagBytes> rest{};
  const bool is_authentic = EVP_CipherFinal_ex(state_->context, rest.data(), &length) == 1;
  LeaveNoUpperHalves();
  return is_authentic;
}

}  // namespace weft
