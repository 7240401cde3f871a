// The head of a request says this before anybody answers it: its target in each form of RFC 9112
// 3.2, how its body is sent, and the readable part of a head that is not whole. For src/net only.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "net/http.h"

namespace weft::net {

struct RequestTarget {
  std::string path;       // decoded, begins with '/'; "*": the server as a whole
  std::string query;      // raw
  std::string authority;  // of "http://host/path", where it counts instead of Host; else ""
};

// nullopt: not acceptable. A path has no NUL, no backslash, no "." or ".." as a part; "*" is for
// OPTIONS alone.
std::optional<RequestTarget> ParseTarget(std::string_view method, std::string_view target);

struct HeadRefusal {
  int status = 0;
  std::string sentence;
};

// Transfer codings that are not ours to undo, or that a client of HTTP/1.0 cannot mean.
std::optional<HeadRefusal> CheckFraming(const HttpRequest& head);

// Whether the client waits for "100 Continue" before it sends a body.
bool ExpectsContinue(const HttpRequest& head);

// The fields of the lines in `bytes`, names in lower case. Lines that are none, such as a request's
// first, are passed over.
Headers ScanFields(std::string_view bytes);

// "GET / HTTP/2.0": a version that exists, and that is not 1.0 or 1.1.
bool NamesOtherVersion(std::string_view bytes);

}  // namespace weft::net
