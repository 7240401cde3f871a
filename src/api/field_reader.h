// Reads a request's body and its fields: values within their ranges, and refusals that name the
// field, its value and what was expected.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/api_error.h"
#include "sampling/parameters.h"

namespace weft::api {

inline constexpr uint32_t kMaxBodyDepth = 64;
// This number of tokens is beyond any context.
inline constexpr int64_t kMostTokens = 1 << 24;

// Reads one JSON object, nested at most kMaxBodyDepth deep, with a byte order mark or without.
ApiResult<boost::json::object> ParseBody(std::string_view text);

// Says a range: "a number from 0 to 2".
std::string TextOf(const sampling::Range& range);

// Reads fields of one object; remembers the first error, after which every read gives its default.
class FieldReader {
 public:
  // Errors name a field with `prefix` in front: "options." of an object called options. The
  // `object` outlives this.
  explicit FieldReader(const boost::json::object& object, std::string prefix = "")
      : object_(object), prefix_(std::move(prefix)) {}

  const std::optional<ApiError>& error() const { return error_; }

  // Gives nullptr when absent or null.
  const boost::json::value* Find(const char* name) const {
    const boost::json::value* value = object_.if_contains(name);
    return value != nullptr && !value->is_null() ? value : nullptr;
  }

  bool Bool(const char* name, bool if_absent);
  std::optional<double> Number(const char* name, sampling::Range range);
  // Numbers such as 2.0 are integers, too.
  std::optional<int64_t> Integer(const char* name, int64_t lowest, int64_t highest);
  // Gives the name of a model, or "" where none is named.
  std::string Model();
  // Gives a string, or a list of at most 16 strings, of at most 1,024 bytes each.
  std::vector<std::string> Stop(const char* name);

  void Fail(const ApiError& error) {
    if (!error_) error_ = error;
  }
  void Fail(const std::string& name, const boost::json::value& value, const std::string& expected);
  // Reads a field that has to be there.
  void FailMissing(const std::string& name, const std::string& expected);

 private:
  const boost::json::object& object_;
  const std::string prefix_;
  std::optional<ApiError> error_;
};

}  // namespace weft::api
