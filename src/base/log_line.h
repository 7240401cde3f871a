// Lines of the log that programs read: fields with names, and the form of all lines.
//
//   text  14:05:09.120 I request id=7f3a method=GET status=200
//   json  {"time":"2027-01-09T14:05:09.120Z","level":"info","event":"request","id":"7f3a",...}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace weft {

// format: "text" or "json"; false when it is neither. REQUIRES: SetLogLevel was called.
bool SetLogFormat(std::string_view format);

struct LogField {
  std::string name;
  std::variant<std::string, uint64_t, double> value;  // a text without spaces
};

// One line on level info. `may_be_left_out`: it counts as any other line where there are too many.
void LogLine(std::string_view event, const std::vector<LogField>& fields, bool may_be_left_out);

// In the quotes of JSON.
std::string QuotedForJson(std::string_view text);

}  // namespace weft
