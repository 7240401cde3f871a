#include "grammar/keywords.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <utility>

#include "grammar/json_rules.h"
#include "grammar/schema_limits.h"

namespace weft::grammar {
namespace json = boost::json;

namespace {

enum class Role {
  kFollowed,
  kAnnotation,  // says nothing about what is valid
  kRefused,
};

struct Keyword {
  std::string_view name;
  Role role = Role::kFollowed;
  Types about = 0;           // which types' values it restricts
  std::string_view instead;  // of kRefused
};

constexpr Keyword kKeywords[] = {
    {"type", Role::kFollowed, 0, ""},
    {"enum", Role::kFollowed, 0, ""},
    {"const", Role::kFollowed, 0, ""},
    {"$ref", Role::kFollowed, 0, ""},
    {"anyOf", Role::kFollowed, 0, ""},
    {"oneOf", Role::kFollowed, 0, ""},
    {"allOf", Role::kFollowed, 0, ""},
    {"properties", Role::kFollowed, kObject, ""},
    {"required", Role::kFollowed, kObject, ""},
    {"additionalProperties", Role::kFollowed, kObject, ""},
    {"items", Role::kFollowed, kArray, ""},
    {"prefixItems", Role::kFollowed, kArray, ""},
    {"minItems", Role::kFollowed, kArray, ""},
    {"maxItems", Role::kFollowed, kArray, ""},
    {"minLength", Role::kFollowed, kString, ""},
    {"maxLength", Role::kFollowed, kString, ""},
    {"pattern", Role::kFollowed, kString, ""},
    {"format", Role::kFollowed, kString, ""},
    {"minimum", Role::kFollowed, kNumber, ""},
    {"maximum", Role::kFollowed, kNumber, ""},
    {"exclusiveMinimum", Role::kFollowed, kNumber, ""},
    {"exclusiveMaximum", Role::kFollowed, kNumber, ""},
    {"$defs", Role::kAnnotation, 0, ""},
    {"definitions", Role::kAnnotation, 0, ""},
    {"title", Role::kAnnotation, 0, ""},
    {"description", Role::kAnnotation, 0, ""},
    {"default", Role::kAnnotation, 0, ""},
    {"examples", Role::kAnnotation, 0, ""},
    {"example", Role::kAnnotation, 0, ""},
    {"deprecated", Role::kAnnotation, 0, ""},
    {"readOnly", Role::kAnnotation, 0, ""},
    {"writeOnly", Role::kAnnotation, 0, ""},
    {"discriminator", Role::kAnnotation, 0, ""},
    {"contentEncoding", Role::kAnnotation, 0, ""},
    {"contentMediaType", Role::kAnnotation, 0, ""},
    {"$comment", Role::kAnnotation, 0, ""},
    {"$schema", Role::kAnnotation, 0, ""},
    {"multipleOf", Role::kRefused, 0, "list the values in 'enum', or leave it out"},
    {"uniqueItems", Role::kRefused, 0,
     "leave it out, or give each element its own place in 'prefixItems'"},
    {"contains", Role::kRefused, 0, "leave it out"},
    {"minContains", Role::kRefused, 0, "leave it out"},
    {"maxContains", Role::kRefused, 0, "leave it out"},
    {"additionalItems", Role::kRefused, 0, "use 'prefixItems' and 'items'"},
    {"unevaluatedItems", Role::kRefused, 0, "use 'items'"},
    {"patternProperties", Role::kRefused, 0, "use 'properties' or 'additionalProperties'"},
    {"minProperties", Role::kRefused, 0, "use 'required'"},
    {"maxProperties", Role::kRefused, 0, "use 'properties' with 'additionalProperties': false"},
    {"propertyNames", Role::kRefused, 0, "use 'properties'"},
    {"dependentRequired", Role::kRefused, 0, "use 'anyOf' with 'required'"},
    {"dependentSchemas", Role::kRefused, 0, "use 'anyOf'"},
    {"dependencies", Role::kRefused, 0, "use 'anyOf'"},
    {"unevaluatedProperties", Role::kRefused, 0, "use 'additionalProperties'"},
    {"not", Role::kRefused, 0, "say what is allowed"},
    {"if", Role::kRefused, 0, "use 'anyOf'"},
    {"then", Role::kRefused, 0, "use 'anyOf'"},
    {"else", Role::kRefused, 0, "use 'anyOf'"},
    {"contentSchema", Role::kRefused, 0, "leave it out"},
    {"nullable", Role::kRefused, 0, "use 'type': [..., \"null\"]"},
    {"$id", Role::kRefused, 0,
     "leave it out; '$ref' names places of the schema itself: '#/$defs/a'"},
    {"$anchor", Role::kRefused, 0, "name the place by its pointer: '#/$defs/a'"},
    {"$dynamicRef", Role::kRefused, 0, "use '$ref'"},
    {"$dynamicAnchor", Role::kRefused, 0, "use '$ref'"},
    {"$recursiveRef", Role::kRefused, 0, "use '$ref'"},
    {"$recursiveAnchor", Role::kRefused, 0, "use '$ref'"},
    {"$vocabulary", Role::kRefused, 0, "leave it out"},
};

const Keyword* FindKeyword(std::string_view name) {
  const auto* const found = std::ranges::find(kKeywords, name, &Keyword::name);
  return found == std::end(kKeywords) ? nullptr : found;
}

// Says nothing, though the keyword is refused; `$id` of the whole schema names it for nobody.
bool IsNeutral(std::string_view name, const json::value& value, const Pointer& at) {
  if (name == "uniqueItems" || name == "nullable") return value == false;
  if (name == "minProperties" || name == "minContains") return value == 0;
  return (name == "$id" || name == "$vocabulary") && at.text() == "#";
}

// What is wrong with the form of a keyword's value; "": nothing.
std::string ExpectedForm(std::string_view name, const json::value& value) {
  const auto is_one_of = [name](std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, name) != names.end();
  };
  if (is_one_of({"properties", "$defs", "definitions"}))
    return value.is_object() ? "" : "an object of schemas";
  if (name == "required") {
    const bool is_good = value.is_array() && std::ranges::all_of(value.as_array(), [](auto& one) {
                           return one.is_string();
                         });
    return is_good ? "" : "a list of names";
  }
  if (name == "prefixItems") return value.is_array() ? "" : "a list of schemas";
  if (name == "enum") {
    const bool is_good =
        value.is_array() && !value.as_array().empty() && value.as_array().size() <= kMaxEnumValues;
    return is_good ? "" : "a list of 1 to " + std::to_string(kMaxEnumValues) + " values";
  }
  if (is_one_of({"pattern", "format"})) return value.is_string() ? "" : "a string";
  if (is_one_of({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}))
    return value.is_number() ? "" : "a number";
  if (is_one_of({"minItems", "maxItems", "minLength", "maxLength"})) {
    boost::system::error_code error;
    const auto count = value.is_number() ? value.to_number<int64_t>(error) : -1;
    return !error && count >= 0 && count <= kMaxRepeat
               ? ""
               : "a whole number from 0 to " + std::to_string(kMaxRepeat);
  }
  return "";
}

std::optional<Types> TypeNamed(const json::value& name) {
  constexpr std::pair<std::string_view, Types> kNames[] = {
      {"null", kNull},     {"boolean", kBoolean}, {"integer", kInteger}, {"number", kNumber},
      {"string", kString}, {"array", kArray},     {"object", kObject}};
  for (const auto& [known, types] : kNames)
    if (name.is_string() && std::string_view(name.as_string()) == known) return types;
  return std::nullopt;
}

}  // namespace

Pointer Pointer::operator/(std::string_view key) const {
  Pointer inner = *this;
  inner.text_ += '/';
  for (const char c : key) {
    if (c == '~') {
      inner.text_ += "~0";
    } else if (c == '/') {
      inner.text_ += "~1";
    } else {
      inner.text_ += c;
    }
  }
  return inner;
}

Error SchemaError(ErrorCode code, const Pointer& at, std::string_view keyword,
                  const std::string& sentence) {
  return Error(code,
               "'" + std::string(keyword) + "' at " + (at / keyword).text() + " " + sentence + ".");
}

std::string ShortJson(const json::value& value) {
  constexpr size_t kMostBytes = 60;
  std::string text = value.is_number() ? NumberText(value) : json::serialize(value);
  if (text.size() <= kMostBytes) return text;
  size_t end = kMostBytes - 3;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

Status CheckKeywords(const json::object& schema, const Pointer& at) {
  for (const auto& [key, value] : schema) {
    const std::string_view name(key.data(), key.size());
    const Keyword* keyword = FindKeyword(name);
    if (keyword == nullptr && !name.starts_with("x-")) {
      return SchemaError(ErrorCode::kUnsupported, at, name.substr(0, 100),
                         "is no keyword of JSON Schema that weft knows; what it means would be "
                         "passed over");
    }
    if (const std::string expected = ExpectedForm(name, value); !expected.empty())
      return SchemaError(ErrorCode::kInvalidArgument, at, name,
                         "is " + ShortJson(value) + "; expected " + expected);
    if (keyword == nullptr || keyword->role != Role::kRefused || IsNeutral(name, value, at))
      continue;
    return SchemaError(ErrorCode::kUnsupported, at, name,
                       "is not supported; " + std::string(keyword->instead));
  }
  return OkStatus();
}

json::object WithoutAnnotations(const json::object& schema) {
  json::object out;
  for (const auto& [key, value] : schema) {
    const Keyword* keyword = FindKeyword(std::string_view(key.data(), key.size()));
    if (keyword != nullptr && keyword->role == Role::kFollowed) out.emplace(key, value);
  }
  return out;
}

Result<Types> TypesOf(const json::object& schema, const Pointer& at) {
  const json::value* type = schema.if_contains("type");
  if (type == nullptr) {
    Types about = 0;
    for (const auto& [key, value] : schema) {
      if (const Keyword* keyword = FindKeyword(std::string_view(key.data(), key.size())))
        about |= keyword->about;
    }
    return about == 0 ? kAllTypes : about;
  }
  const json::array one = {*type};
  const json::array& names = type->is_array() ? type->as_array() : one;
  Types types = 0;
  for (const json::value& name : names) {
    const auto named = TypeNamed(name);
    if (!named) {
      return SchemaError(ErrorCode::kInvalidArgument, at, "type",
                         "is " + ShortJson(*type) +
                             "; expected null, boolean, integer, number, string, array, object, or "
                             "a list of these");
    }
    types |= *named;
  }
  if (types == 0) return SchemaError(ErrorCode::kInvalidArgument, at, "type", "is an empty list");
  return types;
}

Types TypeOfValue(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return kNull;
    case json::kind::bool_:
      return kBoolean;
    case json::kind::string:
      return kString;
    case json::kind::array:
      return kArray;
    case json::kind::object:
      return kObject;
    case json::kind::double_:
      return std::trunc(value.as_double()) == value.as_double() ? kInteger : kFraction;
    default:
      return kInteger;
  }
}

}  // namespace weft::grammar
