#include "base/secret.h"

#include <openssl/crypto.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

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

}  // namespace

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
