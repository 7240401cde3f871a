#include "base/secret.h"

#include <openssl/crypto.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/sha256.h"

namespace weft {
namespace {

constexpr std::string_view kSecretOptions[] = {"--token", "--api-key"};

void Hide(char* text) {
  std::memset(text, '*', std::strlen(text));
}

// What of the argument is a secret; null: nothing. `before`: the argument in front of it.
char* SecretIn(char* argument, std::string_view before) {
  for (const std::string_view option : kSecretOptions) {
    if (before == option) return argument;
    const std::string_view text = argument;
    if (text.starts_with(option) && text.substr(option.size()).starts_with('='))
      return argument + option.size() + 1;
  }
  if (std::strstr(argument, "://") == nullptr) return nullptr;
  char* const hash = std::strchr(argument, '#');
  return hash == nullptr ? nullptr : hash + 1;
}

bool EqualInConstantTime(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

std::string HashSecret(std::string_view secret) {
  return ToHex(Sha256(AsBytes(secret)));
}

bool IsOneOfHashes(std::string_view hash, std::string_view expected,
                   std::span<const std::string> earlier) {
  bool matches = EqualInConstantTime(hash, expected);
  for (const std::string& each : earlier) matches = EqualInConstantTime(hash, each) || matches;
  return matches;
}

void Wipe(std::string& secret) {
  OPENSSL_cleanse(secret.data(), secret.size());
  secret.clear();
}

std::string TakeFromEnvironment(const char* name) {
  char* const given = std::getenv(name);
  if (given == nullptr) return {};
  std::string value = given;
  OPENSSL_cleanse(given, value.size());
  unsetenv(name);
  return value;
}

std::vector<std::string> TakeArguments(int count, char** arguments) {
  std::vector<std::string> copy(arguments, arguments + count);
  for (int i = 1; i < count; ++i)
    if (char* const secret = SecretIn(arguments[i], copy[static_cast<size_t>(i) - 1])) Hide(secret);
  return copy;
}

}  // namespace weft
