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

std::string Spaced(int value) {
  return (value < 10 ? " " : "") + Digits(value, 1);
}

std::string Day(const std::tm& tm, size_t length) {
  return std::string(kDays[static_cast<size_t>(tm.tm_wday)]).substr(0, length);
}

std::string Month(const std::tm& tm, size_t length) {
  return std::string(kMonths[static_cast<size_t>(tm.tm_mon)]).substr(0, length);
}

// The letters of strftime that templates use.
// Weeks since the one with the year's first `first_day`.
int WeekOf(const std::tm& tm, int first_day) {
  return (tm.tm_yday + 7 - (tm.tm_wday - first_day + 7) % 7) / 7;
}

// ISO 8601: the week of a Thursday is of that Thursday's year.
std::pair<int, int> IsoWeek(const std::tm& tm) {
  const int weekday = (tm.tm_wday + 6) % 7;  // Monday is 0
  const auto days_of = [](int year) {
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 ? 366 : 365;
  };
  int year = tm.tm_year + 1900;
  int thursday = tm.tm_yday - weekday + 3;
  if (thursday < 0) {
    thursday += days_of(--year);
  } else if (thursday >= days_of(year)) {
    thursday -= days_of(year++);
  }
  return {year, thursday / 7 + 1};
}

int Hour12(const std::tm& tm) {
  return (tm.tm_hour + 11) % 12 + 1;
}

constexpr std::pair<char, std::string (*)(const std::tm&)> kFields[] = {
    {'C', [](const std::tm& tm) { return Digits((tm.tm_year + 1900) / 100, 2); }},
    {'G', [](const std::tm& tm) { return Digits(IsoWeek(tm).first, 4); }},
    {'g', [](const std::tm& tm) { return Digits(IsoWeek(tm).first % 100, 2); }},
    {'V', [](const std::tm& tm) { return Digits(IsoWeek(tm).second, 2); }},
    {'U', [](const std::tm& tm) { return Digits(WeekOf(tm, 0), 2); }},
    {'W', [](const std::tm& tm) { return Digits(WeekOf(tm, 1), 2); }},
    {'u', [](const std::tm& tm) { return Digits((tm.tm_wday + 6) % 7 + 1, 1); }},
    {'h', [](const std::tm& tm) { return Month(tm, 3); }},
    {'P', [](const std::tm& tm) { return std::string(tm.tm_hour < 12 ? "am" : "pm"); }},
    {'k', [](const std::tm& tm) { return Spaced(tm.tm_hour); }},
    {'l', [](const std::tm& tm) { return Spaced(Hour12(tm)); }},
    {'f', [](const std::tm&) { return std::string("000000"); }},
    {'n', [](const std::tm&) { return std::string("\n"); }},
    {'t', [](const std::tm&) { return std::string("\t"); }},
    // A local time without a zone, as datetime.now() is one.
    {'z', [](const std::tm&) { return std::string(); }},
    {'Z', [](const std::tm&) { return std::string(); }},
    {'Y', [](const std::tm& tm) { return Digits(tm.tm_year + 1900, 4); }},
    {'y', [](const std::tm& tm) { return Digits(tm.tm_year % 100, 2); }},
    {'m', [](const std::tm& tm) { return Digits(tm.tm_mon + 1, 2); }},
    {'d', [](const std::tm& tm) { return Digits(tm.tm_mday, 2); }},
    {'e', [](const std::tm& tm) { return Spaced(tm.tm_mday); }},
    {'j', [](const std::tm& tm) { return Digits(tm.tm_yday + 1, 3); }},
    {'H', [](const std::tm& tm) { return Digits(tm.tm_hour, 2); }},
    {'I', [](const std::tm& tm) { return Digits(Hour12(tm), 2); }},
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
  constexpr std::pair<char, std::string_view> kExpansions[] = {
      {'F', "%Y-%m-%d"}, {'T', "%H:%M:%S"}, {'X', "%H:%M:%S"},    {'D', "%m/%d/%y"},
      {'x', "%m/%d/%y"}, {'R', "%H:%M"},    {'r', "%I:%M:%S %p"}, {'c', "%a %b %e %H:%M:%S %Y"}};
  for (const auto& [known, expansion] : kExpansions) {
    if (known == letter) return expansion;
  }
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
    while (plain && value.size() > 1 && (value[0] == '0' || value[0] == ' ')) value.erase(0, 1);
    text += value;
  }
  return text;
}

}  // namespace weft::jinja
