// Values as text: the context comes in as JSON, `tojson` writes it, `{{ value }}` prints it.
#pragma once

#include <boost/json/value.hpp>
#include <optional>
#include <string>

#include "text/jinja/value.h"

namespace weft::jinja {

struct ToJsonOptions {
  int indent = 0;  // spaces a level; 0 is one line
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::pair<std::string, std::string>> separators;  // between items, after keys
  std::string undefined_text = "null";
};

// As Python's json.dumps writes it. Errors: kInvalidData for functions, too deep values and more
// than 64 MiB of text.
Result<std::string> ToJson(const Value& value, const ToJsonOptions& options);

// Errors: kInvalidArgument for more than kMaxValueDepth - 2 levels.
Result<Value> FromJson(const boost::json::value& value);

// What `{{ value }}` prints: nothing for none and undefined, true and false, JSON for containers,
// as @huggingface/jinja does. Errors: kInvalidData for a container that is too deep or holds a
// function.
Result<std::string> ToText(const Value& value);

// The shortest digits that give the number back, "1.0" for whole ones, as Python prints it.
std::string FloatText(double value);

}  // namespace weft::jinja
