#include "package/digest.h"

#include <algorithm>

namespace weft::package {
namespace {

// What of a refused text may be repeated in a message: short and printable.
std::string Excerpt(std::string_view text) {
  std::string excerpt(text.substr(0, 80));
  for (char& c : excerpt) {
    if (c < ' ' || c > '~') c = '?';
  }
  if (text.size() > 80) excerpt += "...";
  return excerpt;
}

}  // namespace

Result<Digest> Digest::Parse(std::string_view hex) {
  const bool digits = std::all_of(hex.begin(), hex.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
  if (hex.size() != 64 || !digits) {
    return Error(ErrorCode::kInvalidArgument,
                 "'" + Excerpt(hex) +
                     "' is not a digest: expected 64 lower-case hexadecimal digits, got " +
                     std::to_string(hex.size()) + " characters.");
  }
  const std::vector<uint8_t> bytes = *FromHex(hex);
  Sha256Digest digest{};
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return Digest(digest);
}

}  // namespace weft::package
