// strftime for chat templates: names in English, whatever the machine's locale.
#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include "text/jinja/library.h"

namespace weft::jinja {
namespace {

constexpr std::array<const char*, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                              "Thursday", "Friday", "Saturday"};
constexpr std::array<const char*, 12> kMonths = {"January",   "February", "March",    "April",
                                                 "May",       "June",     "July",     "August",
                                                 "September", "October",  "November", "December"};

std::string Digits(int value, int width) {
  char digits[16];
  std::snprintf(digits, sizeof(digits), "%0*d", width, value);
  return digits;
}

std::string Day(const std::tm& tm, size_t length) {
  return std::string(kDays[static_cast<size_t>(tm.tm_wday)]).substr(0, length);
}

std::string Month(const std::tm& tm, size_t length) {
  return std::string(kMonths[static_cast<size_t>(tm.tm_mon)]).substr(0, length);
}

// The letters of strftime that templates use.
constexpr std::pair<char, std::string (*)(const std::tm&)> kFields[] = {
    {'Y', [](const std::tm& tm) { return Digits(tm.tm_year + 1900, 4); }},
    {'y', [](const std::tm& tm) { return Digits(tm.tm_year % 100, 2); }},
    {'m', [](const std::tm& tm) { return Digits(tm.tm_mon + 1, 2); }},
    {'d', [](const std::tm& tm) { return Digits(tm.tm_mday, 2); }},
    {'e', [](const std::tm& tm) { return (tm.tm_mday < 10 ? " " : "") + Digits(tm.tm_mday, 1); }},
    {'j', [](const std::tm& tm) { return Digits(tm.tm_yday + 1, 3); }},
    {'H', [](const std::tm& tm) { return Digits(tm.tm_hour, 2); }},
    {'I', [](const std::tm& tm) { return Digits((tm.tm_hour + 11) % 12 + 1, 2); }},
    {'M', [](const std::tm& tm) { return Digits(tm.tm_min, 2); }},
    {'S', [](const std::tm& tm) { return Digits(tm.tm_sec, 2); }},
    {'p', [](const std::tm& tm) { return std::string(tm.tm_hour < 12 ? "AM" : "PM"); }},
    {'B', [](const std::tm& tm) { return Month(tm, std::string::npos); }},
    {'b', [](const std::tm& tm) { return Month(tm, 3); }},
    {'A', [](const std::tm& tm) { return Day(tm, std::string::npos); }},
    {'a', [](const std::tm& tm) { return Day(tm, 3); }},
    {'w', [](const std::tm& tm) { return Digits(tm.tm_wday, 1); }},
    {'%', [](const std::tm&) { return std::string("%"); }}};

// Letters that stand for several others.
std::string_view Expansion(char letter) {
  if (letter == 'F') return "%Y-%m-%d";
  if (letter == 'T') return "%H:%M:%S";
  return {};
}

}  // namespace

Result<std::string> FormatTime(std::string_view format, int64_t local_seconds) {
  const auto time = static_cast<std::time_t>(local_seconds);
  std::tm tm{};
  gmtime_r(&time, &tm);
  std::string text;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      text.push_back(format[i]);
      continue;
    }
    char letter = format[++i];
    const bool plain = letter == '-' && i + 1 < format.size();  // %-d: without leading zeros
    if (plain) letter = format[++i];
    if (const std::string_view expansion = Expansion(letter); !expansion.empty()) {
      ASSIGN_OR_RETURN(const std::string expanded, FormatTime(expansion, local_seconds));
      text += expanded;
      continue;
    }
    const auto* field = std::find_if(std::begin(kFields), std::end(kFields),
                                     [&](const auto& known) { return known.first == letter; });
    if (field == std::end(kFields)) {
      return Refuse(std::string("strftime_now() does not know %") + letter + ".");
    }
    std::string value = field->second(tm);
    while (plain && value.size() > 1 && value[0] == '0') value.erase(0, 1);
    text += value;
  }
  return text;
}

}  // namespace weft::jinja
