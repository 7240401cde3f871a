// The AEAD against the example of RFC 8439, 2.8.2.
#include "base/aead.h"

#include <gtest/gtest.h>

#include <optional>
#include <string_view>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace weft {
namespace {

std::vector<uint8_t> Hex(std::string_view hex) {
  std::vector<uint8_t> bytes;
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(digit(hex[i]) * 16 + digit(hex[i + 1])));
  return bytes;
}

TEST(Aead, IsThatOfTheRfc) {
  AeadKey key{};
  for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<uint8_t>(0x80 + i);
  AeadNonce nonce{};
  std::ranges::copy(Hex("070000004041424344454647"), nonce.begin());
  const std::vector<uint8_t> header = Hex("50515253c0c1c2c3c4c5c6c7");
  const std::string_view text =
      "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
      "sunscreen would be it.";
  const std::vector<uint8_t> plain(text.begin(), text.end());
  std::vector<uint8_t> sealed(plain.size() + kAeadTagBytes);
  Aead aead(key);
  aead.Seal(nonce, header, plain, sealed);
  const std::vector<uint8_t> tag(sealed.end() - kAeadTagBytes, sealed.end());
  EXPECT_EQ(tag, Hex("1ae10b594f09e26a7e902ecbd0600691"));
  EXPECT_EQ(std::vector<uint8_t>(sealed.begin(), sealed.begin() + 16),
            Hex("d31a8d34648e60db7b86afbc53ef7ec2"));

  std::vector<uint8_t> opened(plain.size());
  EXPECT_TRUE(aead.Open(nonce, header, sealed, opened));
  EXPECT_EQ(opened, plain);
  for (const size_t at : {size_t{0}, plain.size() - 1, plain.size(), sealed.size() - 1}) {
    std::vector<uint8_t> changed = sealed;
    changed[at] ^= 1;
    EXPECT_FALSE(aead.Open(nonce, header, changed, opened)) << at;
  }
  EXPECT_FALSE(aead.Open(nonce, plain, sealed, opened)) << "another header";
  EXPECT_TRUE(aead.Open(nonce, header, sealed, opened)) << "a forgery leaves nothing behind";
}

#if defined(__x86_64__)
// Bit 2 of XINUSE: upper halves of vector registers are not all 0. nullopt: it cannot be asked.
std::optional<bool> HasUpperHalves() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kOsxsave = 1u << 27, kTellsUse = 1u << 2;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & kOsxsave) == 0) return std::nullopt;
  if (__get_cpuid_count(0xd, 1, &eax, &ebx, &ecx, &edx) == 0 || (eax & kTellsUse) == 0)
    return std::nullopt;
  uint32_t used = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(used), "=d"(high) : "c"(1));
  return (used & 4) != 0;
}

TEST(Aead, LeavesNoUpperHalvesOfRegistersInUse) {
  if (!__builtin_cpu_supports("avx")) GTEST_SKIP() << "there are no upper halves";
  __asm__ volatile("vzeroupper" ::: "memory");
  if (HasUpperHalves().value_or(true)) GTEST_SKIP() << "this processor does not tell";
  std::vector<uint8_t> plain(1200), sealed(plain.size() + kAeadTagBytes);
  Aead aead{AeadKey{}};
  aead.Seal({}, {}, plain, sealed);
  const bool after_seal = *HasUpperHalves();
  const bool opened = aead.Open({}, {}, sealed, plain);
  const bool after_open = *HasUpperHalves();
  EXPECT_TRUE(opened);
  EXPECT_FALSE(after_seal);
  EXPECT_FALSE(after_open);
}
#endif

}  // namespace
}  // namespace weft
