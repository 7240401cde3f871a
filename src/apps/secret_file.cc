#include "apps/secret_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>

namespace weft::apps {
namespace {

constexpr size_t kLongestSecret = 256;  // as servers take it

}  // namespace

// A stream, not a regular file alone: `--token-file <(pass show weft)` names a pipe.
Result<std::string> ReadSecretFile(const std::string& path, const std::string& what) {
  std::ifstream file(path);
  std::string line;
  if (file) std::getline(file, line);
  if (!file.is_open() || file.bad())
    return Error(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                 "The file of the " + what + " '" + path +
                     "' cannot be read: " + std::strerror(errno) + ".");
  constexpr const char* kSpaces = " \t\r";
  const size_t first = line.find_first_not_of(kSpaces);
  const std::string secret = first == std::string::npos
                                 ? ""
                                 : line.substr(first, line.find_last_not_of(kSpaces) - first + 1);
  if (!secret.empty() && secret.size() <= kLongestSecret) return secret;
  return Error(ErrorCode::kInvalidArgument, "The first line of '" + path + "' has " +
                                                std::to_string(secret.size()) +
                                                " characters, expected as " + what + " 1 to " +
                                                std::to_string(kLongestSecret) + ".");
}

}  // namespace weft::apps
