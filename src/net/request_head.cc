#include "net/request_head.h"

#include <algorithm>
#include <boost/url/pct_string_view.hpp>

#include "net/http_fields.h"

namespace weft::net {
namespace {

std::optional<std::string> DecodePath(std::string_view raw) {
  const auto encoded = boost::urls::make_pct_string_view({raw.data(), raw.size()});
  if (!encoded || raw.empty() || raw.front() != '/') return std::nullopt;
  std::string path = encoded->decode();
  if (path.find('\0') != std::string::npos || path.find('\\') != std::string::npos) {
    return std::nullopt;
  }
  size_t begin = 1;
  while (begin <= path.size()) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view segment(path.data() + begin, end - begin);
    if (segment == "." || segment == "..") return std::nullopt;
    begin = end + 1;
  }
  return path;
}

}  // namespace

std::optional<RequestTarget> ParseTarget(std::string_view method, std::string_view target) {
  RequestTarget parsed;
  if (target == "*") {
    parsed.path = "*";
    return method == "OPTIONS" ? std::optional(parsed) : std::nullopt;
  }
  const size_t scheme_end = target.find("://");
  if (!target.starts_with('/') && scheme_end != std::string_view::npos) {
    const std::string_view scheme = target.substr(0, scheme_end);
    if (!EqualsIgnoringCase(scheme, "http") && !EqualsIgnoringCase(scheme, "https")) {
      return std::nullopt;
    }
    target.remove_prefix(scheme_end + 3);
    const size_t authority_end = std::min(target.find_first_of("/?"), target.size());
    parsed.authority = target.substr(0, authority_end);
    // A user's name there leads people astray (RFC 9110 4.2.4).
    if (parsed.authority.empty() || parsed.authority.find('@') != std::string::npos) {
      return std::nullopt;
    }
    target.remove_prefix(authority_end);
    // A proxy asks so for the server as a whole (RFC 9112 3.2.4).
    if (target.empty() && method == "OPTIONS") {
      parsed.path = "*";
      return parsed;
    }
  }
  const size_t question = target.find('?');
  const std::string_view raw_path = target.substr(0, question);
  const bool is_root = raw_path.empty() && !parsed.authority.empty();
  const auto path = is_root ? std::optional<std::string>("/") : DecodePath(raw_path);
  if (!path) return std::nullopt;
  parsed.path = *path;
  if (question != std::string_view::npos) parsed.query = target.substr(question + 1);
  return parsed;
}

std::optional<HeadRefusal> CheckFraming(const HttpRequest& head) {
  const std::string coding = head.HeaderList("transfer-encoding");
  if (coding.empty()) return std::nullopt;
  if (head.is_http_1_0) {
    return HeadRefusal{400, "A request of HTTP/1.0 has no Transfer-Encoding; use Content-Length."};
  }
  const auto members = ListMembers(coding);
  if (members.size() == 1 && EqualsIgnoringCase(members[0], "chunked")) return std::nullopt;
  return HeadRefusal{501, "Of transfer codings this server undoes 'chunked' alone."};
}

bool ExpectsContinue(const HttpRequest& head) {
  if (head.is_http_1_0) return false;  // RFC 9110 10.1.1
  const std::string expect = head.HeaderList("expect");
  const auto members = ListMembers(expect);
  return std::any_of(members.begin(), members.end(), [](std::string_view member) {
    return EqualsIgnoringCase(member, "100-continue");
  });
}

Headers ScanFields(std::string_view bytes) {
  Headers fields;
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    if (end == std::string_view::npos) break;  // half a line may be half a value
    std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) break;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || !IsFieldToken(line.substr(0, colon))) continue;
    fields.emplace_back(LowerCase(line.substr(0, colon)), Trimmed(line.substr(colon + 1)));
  }
  return fields;
}

bool NamesOtherVersion(std::string_view bytes) {
  std::string_view line = bytes.substr(0, bytes.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  const size_t space = line.rfind(' ');
  if (space == std::string_view::npos) return false;
  const std::string_view version = line.substr(space + 1);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return version.starts_with("HTTP/") && version.size() == 8 && is_digit(version[5]) &&
         version[6] == '.' && is_digit(version[7]) && version != "HTTP/1.0" &&
         version != "HTTP/1.1";
}

}  // namespace weft::net
