// Where a worker is sent: the reason of a close frame with the code net::kTryElsewhere.
//
//   wss://b.weft.school.lan:8443#6a09e667...    its certificate has this fingerprint
//   wss://b.weft.school.lan                     its certificate is one that the system trusts
//   (empty)                                     nobody is known to lead: to any server that may
//
// Whoever knows no fragments ignores the fingerprint.
#pragma once

#include <string>
#include <string_view>

namespace weft::wire {

struct Elsewhere {
  std::string url;          // "wss://host:port"
  std::string fingerprint;  // SHA-256 of its own certificate, in hex; "": it has none
  bool operator==(const Elsewhere&) const = default;
};

// At most kMostElsewhereBytes long. A fingerprint that has no room is left out, and so is an
// address: a part of one would name somebody else.
inline constexpr size_t kMostElsewhereBytes = 120;
std::string EncodeElsewhere(const Elsewhere& to);
// The url is what the server said. A fingerprint that is none gives an empty url, so that the
// worker goes to no server that it cannot tell from another one.
Elsewhere DecodeElsewhere(std::string_view reason);

}  // namespace weft::wire
