// The keywords of JSON Schema: what each is about, and what is said of those that are not followed.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace weft::grammar {

// JSON's types as bits: "integer" is a part of "number".
using Types = uint8_t;
inline constexpr Types kNull = 1, kBoolean = 2, kInteger = 4, kFraction = 8, kString = 16,
                       kArray = 32, kObject = 64;
inline constexpr Types kNumber = kInteger | kFraction, kAllTypes = 127;

// A place in a schema, for errors: "#/properties/a~1b".
class Pointer {
 public:
  Pointer() = default;
  Pointer operator/(std::string_view key) const;
  Pointer operator/(size_t index) const { return *this / std::to_string(index); }
  const std::string& text() const { return text_; }

 private:
  std::string text_ = "#";
};

// "'minimum' at #/properties/a/minimum is 0.5; expected ...": `sentence` is what follows the place.
Error SchemaError(ErrorCode code, const Pointer& at, std::string_view keyword,
                  const std::string& sentence);
// A value, not more of it than a sentence has room for.
std::string ShortJson(const boost::json::value& value);

// Refuses what is not followed, and what no draft has. Annotations are good and mean nothing.
Status CheckKeywords(const boost::json::object& schema, const Pointer& at);
// The schema without its annotations.
boost::json::object WithoutAnnotations(const boost::json::object& schema);

// What "type" says; without it, the types that the other keywords are about: {"minLength": 1} is
// taken for a string's. All types where nothing says.
Result<Types> TypesOf(const boost::json::object& schema, const Pointer& at);
Types TypeOfValue(const boost::json::value& value);

}  // namespace weft::grammar
