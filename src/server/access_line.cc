#include "server/access_line.h"

#include <algorithm>
#include <vector>

#include "base/log_line.h"
#include "base/random.h"

namespace weft::server {
namespace {

constexpr size_t kLongestId = 128;
constexpr size_t kIdBytes = 8;
constexpr size_t kLongestText = 200;  // of a path, in the line

bool IsOfId(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
         c == '_' || c == ':' || c == '-';
}

}  // namespace

std::string RequestIdOf(const net::HttpRequest& request) {
  const std::string_view given = request.Header("x-request-id");
  if (!given.empty() && given.size() <= kLongestId && std::ranges::all_of(given, IsOfId))
    return std::string(given);
  return SecureRandomHex(kIdBytes);
}

std::string Printable(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string printable;
  for (const char c : text.substr(0, kLongestText)) {
    if (c > ' ' && c < 0x7f && c != '"' && c != '%' && c != '\\') {
      printable += c;
      continue;
    }
    const auto byte = static_cast<uint8_t>(c);
    printable += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  if (text.size() > kLongestText) printable += "...";
  return printable;
}

void WriteAccessLine(const AccessLine& line) {
  std::vector<LogField> fields = {
      {"request_id", line.request_id},      {"method", Printable(line.method)},
      {"path", Printable(line.path)},       {"status", static_cast<uint64_t>(line.status)},
      {"bytes", line.byte_count},           {"ms", (MonotonicNow() - line.begun).ms()},
      {"address", Printable(line.address)},
  };
  if (!line.key.empty()) fields.push_back({"key", Printable(line.key)});
  if (!line.model.empty()) {
    fields.push_back({"model", Printable(line.model)});
    if (line.first_token) fields.push_back({"first_token_ms", line.first_token->ms()});
    fields.push_back({"prompt_tokens", uint64_t{line.prompt_tokens}});
    fields.push_back({"tokens", uint64_t{line.generated_tokens}});
  }
  if (line.is_cut_off) fields.push_back({"cut_off", uint64_t{1}});
  LogLine("request", fields, /*may_be_left_out=*/!line.is_admitted);
}

}  // namespace weft::server
