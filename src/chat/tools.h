// The tools of a request, and what their JSON schemas say of arguments. Some forms of calls write
// every value as plain text, and leave to the schema whether 5 is a number.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <map>
#include <string>
#include <string_view>

namespace weft::chat {

// Immutable; any number of threads may use it at once.
class Tools {
 public:
  Tools() = default;
  // OpenAI's `tools`: [{"type": "function", "function": {"name", "parameters"}}], or the functions
  // themselves. What is neither has no name and no schema.
  explicit Tools(const boost::json::array& tools);

  bool Has(std::string_view name) const { return schemas_.find(name) != schemas_.end(); }
  // The schema of all arguments, of one of them, or nullptr where nothing is said.
  const boost::json::value* SchemaOf(std::string_view name) const;
  const boost::json::value* SchemaOf(std::string_view name, std::string_view argument) const;

 private:
  std::map<std::string, boost::json::value, std::less<>> schemas_;
};

// Of an object's schema that of one of its properties, of an array's that of its items; nullptr.
const boost::json::value* PropertyOf(const boost::json::value* schema, std::string_view name);
const boost::json::value* ItemsOf(const boost::json::value* schema);
// Whether values may be of this type ("string", "array"), by `type`, `enum`, `anyOf` and the like.
bool Allows(const boost::json::value* schema, std::string_view type);

// Text of an argument as JSON: a string where the schema allows one, else what it says as a
// literal, else a string again. Where `null` is allowed, too, the text null is that. Without a
// word about types it is a literal if it can be one.
std::string ArgumentJson(std::string_view text, const boost::json::value* schema);

}  // namespace weft::chat
