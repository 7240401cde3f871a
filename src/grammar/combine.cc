#include "grammar/combine.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "base/sentence.h"
#include "grammar/schema_limits.h"

namespace weft::grammar {
namespace json = boost::json;

namespace {

// Of references and allOf inside of each other.
constexpr size_t kMaxCombineDepth = 64;
// Deeper than this nobody looks for what tells alternatives apart.
constexpr size_t kMaxApartDepth = 4;

// "%25" and "~1" of a reference's part.
std::optional<std::string> PartOf(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    uint8_t byte = 0;
    const std::string_view hex = text.substr(i + 1, 2);
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), byte, 16);
    if (error != std::errc() || end != hex.data() + 2) return std::nullopt;
    plain += static_cast<char>(byte);
    i += 2;
  }
  std::string out;
  for (size_t i = 0; i < plain.size(); ++i) {
    const char next = i + 1 < plain.size() ? plain[i + 1] : '\0';
    const bool is_escape = plain[i] == '~' && (next == '0' || next == '1');
    out += !is_escape ? plain[i] : next == '0' ? '~' : '/';
    i += is_escape ? 1 : 0;
  }
  return out;
}

const json::value* Inner(const json::value& value, const std::string& part) {
  if (const json::object* object = value.if_object()) return object->if_contains(part);
  const json::array* array = value.if_array();
  size_t index = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
  if (array == nullptr || error != std::errc() || end != part.data() + part.size() ||
      index >= array->size())
    return nullptr;
  return &array->at(index);
}

// What "enum" and "const" leave; nullopt: they say nothing.
std::optional<json::array> ValuesOf(const json::object& schema) {
  if (const json::value* constant = schema.if_contains("const")) return json::array{*constant};
  const json::value* values = schema.if_contains("enum");
  if (values == nullptr || !values->is_array()) return std::nullopt;
  return values->as_array();
}

bool ShareAValue(const json::array& a, const json::array& b) {
  return std::ranges::any_of(
      a, [&b](const json::value& value) { return std::ranges::find(b, value) != b.end(); });
}

std::optional<Types> KnownTypes(const json::object& schema) {
  if (const auto values = ValuesOf(schema)) {
    Types types = 0;
    for (const json::value& value : *values) types |= TypeOfValue(value);
    return types;
  }
  if (!schema.contains("type")) return std::nullopt;
  const auto types = TypesOf(schema, {});
  return types.ok() ? std::optional(*types) : std::nullopt;
}

bool IsRequired(const json::object& schema, std::string_view name) {
  const json::value* required = schema.if_contains("required");
  return required != nullptr && required->is_array() &&
         std::ranges::find(required->as_array(), json::value(name)) != required->as_array().end();
}

}  // namespace

Result<Combiner::Place> Combiner::Resolve(const json::value& reference, const Pointer& at) const {
  const auto bad = [&](const std::string& sentence) {
    return SchemaError(ErrorCode::kInvalidArgument, at, "$ref",
                       "is " + ShortJson(reference) + sentence);
  };
  if (!reference.is_string()) return bad("; expected a string");
  const std::string_view text = reference.as_string();
  if (text != "#" && !text.starts_with("#/"))
    return SchemaError(ErrorCode::kUnsupported, at, "$ref",
                       "is " + ShortJson(reference) +
                           "; it can only name a place of the schema itself, as '#/$defs/a'");
  Place place{&root_, {}};
  for (size_t begin = 2; begin <= text.size();) {
    const size_t end = std::min(text.find('/', begin), text.size());
    const auto part = PartOf(text.substr(begin, end - begin));
    place.schema = part ? Inner(*place.schema, *part) : nullptr;
    if (place.schema == nullptr) return bad(", which is nowhere in the schema");
    place.at = place.at / *part;
    begin = end + 1;
  }
  return place;
}

Result<Combined> Combiner::Combine(const json::value& schema, const Pointer& at,
                                   size_t depth) const {
  Combined out;
  if (schema.is_bool()) {
    out.never = !schema.as_bool();
    return out;
  }
  if (!schema.is_object())
    return Error(ErrorCode::kInvalidArgument, "The schema at " + at.text() + " is " +
                                                  ShortJson(schema) +
                                                  "; expected an object, true or false.");
  if (depth > kMaxCombineDepth)
    return Error(
        ErrorCode::kInvalidArgument,
        Sentence("The schema at ", at.text(),
                 " refers to itself without an end, or nests '$ref' and 'allOf' more than ",
                 kMaxCombineDepth, " deep."));
  TRY(CheckKeywords(schema.as_object(), at));
  out.plain = WithoutAnnotations(schema.as_object());
  const auto take = [&out](const char* name) {
    std::optional<json::value> taken;
    if (const json::value* value = out.plain.if_contains(name)) taken = *value;
    if (taken) out.plain.erase(name);
    return taken;
  };
  const auto reference = take("$ref");
  const auto all_of = take("allOf");
  for (const char* name : {"anyOf", "oneOf"}) {
    const auto alternatives = take(name);
    if (!alternatives) continue;
    if (!alternatives->is_array() || alternatives->as_array().empty() ||
        alternatives->as_array().size() > kMaxAlternatives)
      return SchemaError(ErrorCode::kInvalidArgument, at, name,
                         "is " + ShortJson(*alternatives) +
                             Sentence("; expected a list of 1 to ", kMaxAlternatives, " schemas"));
    if (std::string_view(name) == "oneOf") TRY(CheckApart(alternatives->as_array(), at));
    out.choices.push_back(alternatives->as_array());
  }
  if (reference) {
    ASSIGN_OR_RETURN(const Place place, Resolve(*reference, at));
    ASSIGN_OR_RETURN(Combined target, Combine(*place.schema, place.at, depth + 1));
    TRY(Add(std::move(target), at, out));
  }
  if (all_of) TRY(CombineAll(*all_of, at, depth, out));
  return out;
}

Status Combiner::CombineAll(const json::value& schemas, const Pointer& at, size_t depth,
                            Combined& out) const {
  if (!schemas.is_array() || schemas.as_array().empty())
    return SchemaError(ErrorCode::kInvalidArgument, at, "allOf",
                       "is " + ShortJson(schemas) + "; expected a list of schemas");
  for (size_t i = 0; i < schemas.as_array().size(); ++i) {
    ASSIGN_OR_RETURN(Combined part, Combine(schemas.as_array()[i], at / "allOf" / i, depth + 1));
    TRY(Add(std::move(part), at, out));
  }
  return OkStatus();
}

Status Combiner::Add(Combined more, const Pointer& at, Combined& out) const {
  out.never = out.never || more.never;
  for (json::array& choice : more.choices) out.choices.push_back(std::move(choice));
  return Merge(more.plain, at, out);
}

Status Combiner::CheckApart(const json::array& alternatives, const Pointer& at) const {
  std::vector<Combined> combined;
  for (size_t i = 0; i < alternatives.size(); ++i) {
    ASSIGN_OR_RETURN(Combined one, Combine(alternatives[i], at / "oneOf" / i, 1));
    combined.push_back(std::move(one));
  }
  for (size_t i = 0; i < combined.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (AreApart(combined[k], combined[i], 0)) continue;
      return SchemaError(
          ErrorCode::kUnsupported, at, "oneOf",
          Sentence("has alternatives ", k, " and ", i,
                   " that may both hold, as far as 'type', 'const' and 'enum' tell; use 'anyOf', "
                   "or give them a required property with a 'const' of its own each"));
    }
  }
  return OkStatus();
}

bool Combiner::AreApart(const Combined& a, const Combined& b, size_t depth) const {
  if (a.never || b.never) return true;
  const auto a_types = KnownTypes(a.plain), b_types = KnownTypes(b.plain);
  if (a_types && b_types && (*a_types & *b_types) == 0) return true;
  const auto a_values = ValuesOf(a.plain), b_values = ValuesOf(b.plain);
  if (a_values && b_values && !ShareAValue(*a_values, *b_values)) return true;
  if (a_types != kObject || b_types != kObject || depth > kMaxApartDepth) return false;
  // Two objects with a property, which both must have, whose values are apart.
  const json::value* a_properties = a.plain.if_contains("properties");
  const json::value* b_properties = b.plain.if_contains("properties");
  if (a_properties == nullptr || b_properties == nullptr || !a_properties->is_object() ||
      !b_properties->is_object())
    return false;
  return std::ranges::any_of(a_properties->as_object(), [&](const auto& property) {
    const std::string_view name(property.key().data(), property.key().size());
    const json::value* other = b_properties->as_object().if_contains(name);
    if (other == nullptr || !IsRequired(a.plain, name) || !IsRequired(b.plain, name)) return false;
    const auto own = Combine(property.value(), {}, 1), others = Combine(*other, {}, 1);
    return own.ok() && others.ok() && AreApart(*own, *others, depth + 1);
  });
}

}  // namespace weft::grammar
