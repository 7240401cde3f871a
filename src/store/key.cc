#include "store/key.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>

#include "base/random.h"
#include "base/sentence.h"
#include "base/spelling.h"

namespace weft::store {
namespace {

constexpr size_t kKeyBytes = 16;  // 128 bits
constexpr size_t kLongestName = 64, kLongestModel = 200, kMostModels = 32;
constexpr int64_t kMsPerMinute = 60'000, kMsPerHour = 60 * kMsPerMinute;
constexpr int64_t kMsPerDay = 24 * kMsPerHour;
constexpr int64_t kFarthestMs = 36'525 * kMsPerDay;  // a hundred years

const std::vector<std::string>& RoleNames() {
  static const std::vector<std::string> names = {"user", "admin", "metrics", "helper"};
  return names;
}

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

// What is shown of a text that is wrong: not all of it, and nothing that steers a terminal.
std::string Shown(std::string_view text) {
  std::string shown(text.substr(0, kLongestName));
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return "'" + shown + (text.size() > kLongestName ? "..." : "") + "'";
}

Error Invalid(std::string sentence) {
  return {ErrorCode::kInvalidArgument, std::move(sentence)};
}

template <typename Number>
Status CheckLimit(const char* what, const std::optional<Number>& limit, uint64_t most) {
  if (!limit || (*limit >= 1 && *limit <= most)) return OkStatus();
  return Invalid(Sentence("The limit of ", what, " is ", *limit, "; expected 1 to ", most, "."));
}

// The digits from `at`, which moves behind them; nullopt: not exactly `count` of them.
std::optional<int> Digits(std::string_view text, size_t& at, size_t count) {
  int number = 0;
  for (size_t i = 0; i < count; ++i, ++at) {
    if (at >= text.size() || text[at] < '0' || text[at] > '9') return std::nullopt;
    number = number * 10 + (text[at] - '0');
  }
  return number;
}

// "-MM" of "2027-MM": a separator and two digits; nullopt: they are not there.
std::optional<int> Part(std::string_view text, size_t& at, char separator) {
  if (at >= text.size() || text[at] != separator) return std::nullopt;
  ++at;
  return Digits(text, at, 2);
}

// nullopt: no such date, or no such form.
std::optional<int64_t> ParseDate(std::string_view text) {
  if (text.ends_with('Z') || text.ends_with('z')) text.remove_suffix(1);
  size_t at = 0;
  const auto year = Digits(text, at, 4);
  const auto month = year ? Part(text, at, '-') : std::nullopt;
  const auto day = month ? Part(text, at, '-') : std::nullopt;
  if (!day) return std::nullopt;
  std::tm wanted = {};
  wanted.tm_year = *year - 1900;
  wanted.tm_mon = *month - 1;
  wanted.tm_mday = *day;
  const bool is_whole_day = at == text.size();
  if (!is_whole_day) {
    const auto hour = Part(text, at, text[at] == ' ' ? ' ' : 'T');
    const auto minute = hour ? Part(text, at, ':') : std::nullopt;
    const auto second = minute && at < text.size() ? Part(text, at, ':') : std::optional<int>(0);
    if (!minute || !second || at != text.size()) return std::nullopt;
    wanted.tm_hour = *hour;
    wanted.tm_min = *minute;
    wanted.tm_sec = *second;
  }
  std::tm made = wanted;
  const std::time_t seconds = timegm(&made);
  // timegm takes the 30th of February for the 1st or 2nd of March.
  const bool is_same = made.tm_mon == wanted.tm_mon && made.tm_mday == wanted.tm_mday &&
                       made.tm_hour == wanted.tm_hour && made.tm_min == wanted.tm_min &&
                       made.tm_sec == wanted.tm_sec;
  if (!is_same) return std::nullopt;
  return static_cast<int64_t>(seconds) * 1000 + (is_whole_day ? kMsPerDay : 0);
}

// nullopt: no duration. One that is too long to count is the farthest one and a millisecond.
std::optional<int64_t> ParseDuration(std::string_view text) {
  if (text.size() < 2) return std::nullopt;
  int64_t unit_ms = 0;
  switch (text.back()) {
    case 'm':
      unit_ms = kMsPerMinute;
      break;
    case 'h':
      unit_ms = kMsPerHour;
      break;
    case 'd':
      unit_ms = kMsPerDay;
      break;
    case 'w':
      unit_ms = 7 * kMsPerDay;
      break;
    default:
      return std::nullopt;
  }
  uint64_t count = 0;
  const char* const end = text.data() + text.size() - 1;
  const auto [stopped, error] = std::from_chars(text.data(), end, count);
  if (stopped != end || error == std::errc::invalid_argument) return std::nullopt;
  const bool fits = error == std::errc() && count <= static_cast<uint64_t>(kFarthestMs / unit_ms);
  return fits ? static_cast<int64_t>(count) * unit_ms : kFarthestMs + 1;
}

}  // namespace

std::string_view RoleName(Role role) {
  return RoleNames()[static_cast<size_t>(role)];
}

Result<Role> ParseRole(std::string_view text) {
  const auto& names = RoleNames();
  const auto found = std::find(names.begin(), names.end(), text);
  if (found != names.end()) return static_cast<Role>(found - names.begin());
  return Invalid("There is no role " + Shown(text) + "; expected user, admin, metrics or helper." +
                 DidYouMean(text, names));
}

Status CheckNewKey(const NewKey& key, int64_t now_ms) {
  const bool is_name = !key.name.empty() && key.name.size() <= kLongestName &&
                       std::all_of(key.name.begin(), key.name.end(), IsNameCharacter) &&
                       key.name.front() != '-' && key.name.front() != '.';
  if (!is_name)
    return Invalid("A key cannot have the name " + Shown(key.name) +
                   Sentence(": expected 1 to ", kLongestName,
                            " letters, digits, '.', '_' and '-', the first a letter, a digit "
                            "or '_'."));
  TRY(CheckLimit("requests per minute", key.limits.per_minute, kMostPerMinute));
  TRY(CheckLimit("tokens per day", key.limits.tokens_per_day, kMostTokensPerDay));
  TRY(CheckLimit("requests at once", key.limits.at_once, kMostAtOnce));
  if (key.models.size() > kMostModels)
    return Invalid(Sentence("A key names ", key.models.size(), " models; expected at most ",
                            kMostModels, "."));
  for (const std::string& model : key.models) {
    const bool is_printable = std::all_of(model.begin(), model.end(), [](char c) {
      return static_cast<unsigned char>(c) > 0x20 && c != 0x7f && c != ',';
    });
    if (model.empty() || model.size() > kLongestModel || !is_printable)
      return Invalid(Shown(model) + " is no name of a model.");
  }
  if (key.IsExpired(now_ms))
    return Invalid("The time " + TimeText(*key.expires_ms) + " is over already.");
  if (key.expires_ms && *key.expires_ms - now_ms > kFarthestMs)
    return Invalid("A key ends within a hundred years, or never.");
  return OkStatus();
}

Result<int64_t> ParseExpiry(std::string_view text, int64_t now_ms) {
  const auto duration_ms = ParseDuration(text);
  const auto date_ms = duration_ms ? std::nullopt : ParseDate(text);
  if (!duration_ms && !date_ms)
    return Invalid(Shown(text) +
                   " is no time; expected a date like 2027-06-30 or 2027-06-30T18:00 (UTC), or a "
                   "duration like 30m, 8h, 90d or 2w.");
  const int64_t when_ms = date_ms ? *date_ms : now_ms + *duration_ms;
  if (when_ms <= now_ms) return Invalid("The time " + Shown(text) + " is over already.");
  if (when_ms - now_ms > kFarthestMs)
    return Invalid("The time " + Shown(text) + " is in more than a hundred years.");
  return when_ms;
}

std::string TimeText(int64_t time_ms) {
  const std::time_t when = time_ms / 1000;
  std::tm parts = {};
  char text[32] = "";
  if (gmtime_r(&when, &parts) != nullptr)
    std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string MakeApiKey() {
  return "weft-" + SecureRandomHex(kKeyBytes);
}

}  // namespace weft::store
