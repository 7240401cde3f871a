#include "chat/tools.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <optional>

#include "chat/literal.h"

namespace weft::chat {
namespace json = boost::json;

namespace {

// Schemas within schemas beyond this are not looked at.
constexpr int kMaxDepth = 16;

const json::value* FieldOf(const json::value* value, std::string_view name) {
  const json::object* object = value == nullptr ? nullptr : value->if_object();
  return object == nullptr ? nullptr : object->if_contains(name);
}

std::string_view TypeOf(const json::value& value) {
  if (value.is_string()) return "string";
  if (value.is_bool()) return "boolean";
  if (value.is_null()) return "null";
  if (value.is_array()) return "array";
  if (value.is_object()) return "object";
  return value.is_double() ? "number" : "integer";
}

// Types are written in capitals by some.
bool IsNamed(const json::value& type, std::string_view name) {
  return type.is_string() && std::ranges::equal(type.as_string(), name, [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b;
         });
}

bool Allows(const json::value* schema, std::string_view type, int depth) {
  if (schema == nullptr || depth > kMaxDepth) return false;
  if (const json::value* types = FieldOf(schema, "type")) {
    if (!types->is_array()) return IsNamed(*types, type);
    return std::ranges::any_of(types->as_array(),
                               [&](const json::value& each) { return IsNamed(each, type); });
  }
  if (const json::value* values = FieldOf(schema, "enum"); values != nullptr && values->is_array())
    return std::ranges::any_of(values->as_array(),
                               [&](const json::value& each) { return TypeOf(each) == type; });
  if (const json::value* value = FieldOf(schema, "const")) return TypeOf(*value) == type;
  for (const char* name : {"anyOf", "oneOf", "allOf"}) {
    const json::value* choices = FieldOf(schema, name);
    if (choices == nullptr || !choices->is_array()) continue;
    for (const json::value& choice : choices->as_array())
      if (Allows(&choice, type, depth + 1)) return true;
  }
  return false;
}

}  // namespace

Tools::Tools(const json::array& tools) {
  for (const json::value& tool : tools) {
    const json::value* inner = FieldOf(&tool, "function");
    const json::value* function = inner != nullptr ? inner : &tool;
    const json::value* name = FieldOf(function, "name");
    if (name == nullptr || !name->is_string()) continue;
    const json::value* schema = FieldOf(function, "parameters");
    schemas_.emplace(std::string(name->as_string()), schema == nullptr ? json::value() : *schema);
  }
}

const json::value* Tools::SchemaOf(std::string_view name) const {
  const auto found = schemas_.find(name);
  return found == schemas_.end() ? nullptr : &found->second;
}

const json::value* Tools::SchemaOf(std::string_view name, std::string_view argument) const {
  return PropertyOf(SchemaOf(name), argument);
}

const json::value* PropertyOf(const json::value* schema, std::string_view name) {
  return FieldOf(FieldOf(schema, "properties"), name);
}

const json::value* ItemsOf(const json::value* schema) {
  return FieldOf(schema, "items");
}

bool Allows(const json::value* schema, std::string_view type) {
  return Allows(schema, type, 0);
}

std::string ArgumentJson(std::string_view text, const json::value* schema) {
  const bool may_be_string = Allows(schema, "string");
  std::string literal;
  LiteralReader reader(text);
  const bool is_literal = reader.Value(&literal) && reader.AtEnd();
  if (may_be_string && is_literal && literal == "null" && Allows(schema, "null")) return literal;
  if (may_be_string || !is_literal) return Quoted(text);
  return literal;
}

}  // namespace weft::chat
