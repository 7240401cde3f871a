#include "server/model_field.h"

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <optional>

namespace weft::server {
namespace {

// The string that begins at `body[at]`, quotes and escapes included; empty: it does not end.
std::string_view StringAt(std::string_view body, size_t at) {
  for (size_t i = at + 1; i < body.size(); ++i) {
    if (body[i] == '\\')
      ++i;
    else if (body[i] == '"')
      return body.substr(at, i + 1 - at);
  }
  return {};
}

std::string TextOf(std::string_view quoted) {
  boost::system::error_code failed;
  const auto value = boost::json::parse({quoted.data(), quoted.size()}, failed);
  return failed || !value.is_string() ? std::string() : std::string(value.get_string());
}

}  // namespace

std::string FindModelField(std::string_view body) {
  constexpr std::string_view kSpaces = " \t\r\n";
  int depth = 0;
  bool is_key = false;   // a string here would be a key
  bool is_ours = false;  // the last key of the outermost object was "model"
  for (size_t i = 0; i < body.size(); ++i) {
    const char c = body[i];
    if (kSpaces.find(c) != std::string_view::npos) continue;
    if (c == '"') {
      const std::string_view text = StringAt(body, i);
      if (text.empty()) return "";
      if (depth == 1 && is_key) {
        is_ours = text == "\"model\"";
      } else if (depth == 1 && is_ours) {
        return TextOf(text);
      }
      i += text.size() - 1;
      is_key = false;
    } else if (c == '{' || c == '[') {
      if (++depth == 1 && c == '[') return "";
      is_key = c == '{';
      if (depth > 1) is_ours = false;
    } else if (c == '}' || c == ']') {
      if (--depth <= 0) return "";
    } else if (c == ',') {
      is_key = depth == 1;
    }
  }
  return "";
}

}  // namespace weft::server
