#include "apps/token_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>

namespace weft::apps {
namespace {

constexpr size_t kLongestToken = 256;  // as servers take it

}  // namespace

// A stream, not a regular file alone: `--token-file <(pass show weft)` names a pipe.
Result<std::string> ReadTokenFile(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (file) std::getline(file, line);
  if (!file.is_open() || file.bad())
    return Error(
        errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
        "The join token's file '" + path + "' cannot be read: " + std::strerror(errno) + ".");
  constexpr const char* kSpaces = " \t\r";
  const size_t first = line.find_first_not_of(kSpaces);
  const std::string token = first == std::string::npos
                                ? ""
                                : line.substr(first, line.find_last_not_of(kSpaces) - first + 1);
  if (!token.empty() && token.size() <= kLongestToken) return token;
  return Error(ErrorCode::kInvalidArgument, "The first line of '" + path + "' has " +
                                                std::to_string(token.size()) +
                                                " characters, expected a join token of 1 to " +
                                                std::to_string(kLongestToken) + ".");
}

}  // namespace weft::apps
