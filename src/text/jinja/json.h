// Values as JSON: the context comes in so, and `tojson` writes it.
#pragma once

#include <boost/json/value.hpp>
#include <optional>
#include <string>

#include "text/jinja/value.h"

namespace weft::jinja {

struct ToJsonOptions {
  std::optional<std::string> indent;  // of one level; absent: all in one line
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::pair<Text, Text>> separators;  // between items, after keys
};

// As Python's json.dumps writes it. Errors: kInvalidData for what JSON has not, such as undefined
// or a function, for too deep values and for more than 64 MiB of text.
Result<Text> ToJson(const Value& value, const ToJsonOptions& options);

// `quoted`: whether its strings are. Errors: kInvalidArgument for more than kMaxValueDepth - 2
// levels.
Result<Value> FromJson(const boost::json::value& value, bool quoted);

}  // namespace weft::jinja
