#include "wire/elsewhere.h"

#include <algorithm>

namespace weft::wire {
namespace {

constexpr size_t kFingerprintDigits = 64;

bool IsFingerprint(std::string_view text) {
  return text.size() == kFingerprintDigits && std::ranges::all_of(text, [](char digit) {
           return (digit >= '0' && digit <= '9') || (digit >= 'a' && digit <= 'f');
         });
}

}  // namespace

std::string EncodeElsewhere(const Elsewhere& to) {
  if (to.url.size() > kMostElsewhereBytes) return "";
  const std::string whole = to.fingerprint.empty() ? to.url : to.url + "#" + to.fingerprint;
  return whole.size() <= kMostElsewhereBytes ? whole : to.url;
}

Elsewhere DecodeElsewhere(std::string_view reason) {
  const size_t mark = reason.find('#');
  Elsewhere to{std::string(reason.substr(0, mark)), ""};
  if (mark == std::string_view::npos) return to;
  const std::string_view fingerprint = reason.substr(mark + 1);
  if (!IsFingerprint(fingerprint)) return {};
  to.fingerprint = std::string(fingerprint);
  return to;
}

}  // namespace weft::wire
