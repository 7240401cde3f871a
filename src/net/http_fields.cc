#include "net/http_fields.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iomanip>
#include <locale>
#include <sstream>

namespace weft::net {
namespace {

char LowerLetter(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// The pieces between `separator`s that stand outside of quotes, trimmed; empty ones, too.
std::vector<std::string_view> Pieces(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  size_t begin = 0;
  bool is_quoted = false;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == separator && !is_quoted)) {
      pieces.push_back(Trimmed(text.substr(begin, i - begin)));
      begin = i + 1;
    } else if (text[i] == '"') {
      is_quoted = !is_quoted;
    } else if (text[i] == '\\' && is_quoted) {
      ++i;
      if (i == text.size()) --i;
    }
  }
  return pieces;
}

// Thousandths of "0.5", "1", "1.000"; 1000 where it is none (RFC 9110 12.4.2).
int Weight(std::string_view text) {
  if (text.empty() || (text[0] != '0' && text[0] != '1') || text.size() > 5) return 1000;
  if (text.size() > 1 && text[1] != '.') return 1000;
  int weight = text[0] == '1' ? 1000 : 0;
  int unit = 100;
  for (size_t i = 2; i < text.size(); ++i, unit /= 10) {
    if (text[i] < '0' || text[i] > '9') return 1000;
    weight += (text[i] - '0') * unit;
  }
  return std::min(weight, 1000);
}

}  // namespace

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = LowerLetter(c);
  return lower;
}

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return LowerLetter(x) == LowerLetter(y); });
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

bool IsFieldToken(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    const char lower = LowerLetter(c);
    return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

std::vector<std::string_view> ListMembers(std::string_view value) {
  std::vector<std::string_view> members = Pieces(value, ',');
  std::erase_if(members, [](std::string_view member) { return member.empty(); });
  return members;
}

int EncodingWeight(std::string_view accept_encoding, std::string_view coding) {
  std::optional<int> by_name, by_star;
  for (const std::string_view member : ListMembers(accept_encoding)) {
    const std::vector<std::string_view> parts = Pieces(member, ';');
    int weight = 1000;
    for (size_t i = 1; i < parts.size(); ++i) {
      const size_t equals = parts[i].find('=');
      if (equals == std::string_view::npos) continue;
      if (!EqualsIgnoringCase(Trimmed(parts[i].substr(0, equals)), "q")) continue;
      weight = Weight(Trimmed(parts[i].substr(equals + 1)));
    }
    std::string name = LowerCase(parts[0]);
    if (name.starts_with("x-")) name.erase(0, 2);  // x-gzip
    if (name == coding) by_name = std::max(by_name.value_or(0), weight);
    if (name == "*") by_star = weight;
  }
  return by_name.value_or(by_star.value_or(coding == "identity" ? 1000 : 0));
}

bool NamesEtag(std::string_view value, std::string_view etag, EtagComparison comparison) {
  if (Trimmed(value) == "*") return true;
  const auto opaque = [](std::string_view tag) {
    return tag.substr(tag.starts_with("W/") ? 2 : 0);
  };
  const std::vector<std::string_view> members = ListMembers(value);
  return std::any_of(members.begin(), members.end(), [&](std::string_view member) {
    return comparison == EtagComparison::kWeak ? opaque(member) == opaque(etag)
                                               : member == etag && !member.starts_with("W/");
  });
}

std::optional<std::string> MediaTypeParameter(std::string_view media_type, std::string_view name) {
  const std::vector<std::string_view> parts = Pieces(media_type, ';');
  for (size_t i = 1; i < parts.size(); ++i) {
    const size_t equals = parts[i].find('=');
    if (equals == std::string_view::npos) continue;
    if (!EqualsIgnoringCase(Trimmed(parts[i].substr(0, equals)), name)) continue;
    std::string_view value = Trimmed(parts[i].substr(equals + 1));
    if (value.size() >= 2 && value.starts_with('"') && value.ends_with('"')) {
      value = value.substr(1, value.size() - 2);
    }
    return LowerCase(value);
  }
  return std::nullopt;
}

std::string HttpDate(std::time_t time) {
  constexpr std::array kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm utc = {};
  gmtime_r(&time, &utc);
  char text[64];
  // The names are English whatever the locale is, so strftime does not write them.
  const int count = std::snprintf(text, sizeof(text), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                                  kDays.at(static_cast<size_t>(utc.tm_wday)), utc.tm_mday,
                                  kMonths.at(static_cast<size_t>(utc.tm_mon)), utc.tm_year + 1900,
                                  utc.tm_hour, utc.tm_min, utc.tm_sec);
  return {text, static_cast<size_t>(count)};
}

std::optional<std::time_t> ParseHttpDate(std::string_view text) {
  // get_time is content with the beginning of a date.
  if (std::count(text.begin(), text.end(), ':') != 2) return std::nullopt;
  for (const char* form :
       {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y"}) {
    std::istringstream in{std::string(Trimmed(text))};
    in.imbue(std::locale::classic());
    std::tm utc = {};
    in >> std::get_time(&utc, form);
    if (in.fail() || in.peek() != std::istringstream::traits_type::eof()) continue;
    return timegm(&utc);
  }
  return std::nullopt;
}

}  // namespace weft::net
