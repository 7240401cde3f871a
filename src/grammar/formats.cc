#include "grammar/formats.h"

#include <utility>

namespace weft::grammar {
namespace {

// Months with 31 and 30 days; February; and its 29th day in years that 4 divides, unless 100 does
// and 400 does not.
const std::string kDate =
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)";
// RFC 3339, without leap seconds.
const std::string kTime =
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?"
    "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
const std::string kByte = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
const std::string kIpv4 = "(?:" + kByte + "\\.){3}" + kByte;
const std::string kLabel = "[0-9A-Za-z](?:[0-9A-Za-z-]{0,58}[0-9A-Za-z])?";
const std::string kHostname = kLabel + "(?:\\." + kLabel + "){0,3}";
const std::string kEmailWord = "[0-9A-Za-z_+-]{1,32}";
const std::string kSpan = "[0-9]{1,9}";

// Eight groups, or fewer with "::" for those that are left out.
std::string Ipv6Pattern() {
  const std::string group = "[0-9A-Fa-f]{1,4}";
  const auto groups = [&](int count) {
    return count == 0 ? std::string()
                      : "(?:" + group + ":){" + std::to_string(count - 1) + "}" + group;
  };
  std::string pattern = "(?:" + groups(8);
  for (int before = 0; before <= 7; ++before)
    for (int behind = 0; before + behind <= 7; ++behind)
      pattern += "|" + groups(before) + "::" + groups(behind);
  return pattern + ")";
}

const std::pair<std::string_view, std::string> kFormats[] = {
    {"date", kDate},
    {"time", kTime},
    {"date-time", kDate + "T" + kTime},
    {"duration", "P(?:" + kSpan + "W|(?:" + kSpan + "Y(?:" + kSpan + "M)?(?:" + kSpan + "D)?|" +
                     kSpan + "M(?:" + kSpan + "D)?|" + kSpan + "D)(?:T" + kSpan +
                     "H)?|T(?:" + kSpan + "H(?:" + kSpan + "M)?(?:" + kSpan + "S)?|" + kSpan +
                     "M(?:" + kSpan + "S)?|" + kSpan + "S))"},
    {"email",
     kEmailWord + "(?:\\." + kEmailWord + "){0,3}@(?:" + kLabel + "\\.){1,4}[A-Za-z]{2,24}"},
    {"hostname", kHostname},
    {"ipv4", kIpv4},
    {"ipv6", Ipv6Pattern()},
    {"uuid", "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"},
    {"uri", "[A-Za-z][A-Za-z0-9+.-]{0,15}://" + kHostname +
                "(?::[1-9][0-9]{0,4})?"
                "(?:/(?:[0-9A-Za-z._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2}){0,200}){0,20}"
                "(?:\\?(?:[0-9A-Za-z._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2}){0,200})?"
                "(?:#(?:[0-9A-Za-z._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2}){0,200})?"},
};

}  // namespace

std::optional<std::string> FormatPattern(std::string_view name) {
  for (const auto& [known, pattern] : kFormats)
    if (known == name) return pattern;
  return std::nullopt;
}

std::string FormatNames() {
  std::string names;
  for (const auto& [known, pattern] : kFormats)
    names += (names.empty() ? "" : ", ") + std::string(known);
  return names;
}

}  // namespace weft::grammar
