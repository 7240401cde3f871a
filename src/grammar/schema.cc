#include "grammar/schema.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <utility>

#include "base/sentence.h"
#include "grammar/formats.h"
#include "grammar/number_range.h"
#include "grammar/regex.h"
#include "grammar/schema_compiler.h"

namespace weft::grammar {
namespace json = boost::json;

namespace {

// Of schemas that are met inside of each other, those that combining makes among them.
constexpr size_t kMaxCompileDepth = 4 * kMaxSchemaDepth;

constexpr const char* kCombining[] = {"$ref", "allOf", "anyOf", "oneOf"};

// ReadBounds' limits: a bound beyond the numbers that are written (json_rules.h) is none.
constexpr double kBeyondIntegers = 9.2e18;

}  // namespace

Result<RuleId> AddSchema(const json::value& schema, Rules& rules) {
  SchemaCompiler compiler(schema, rules);
  const RuleId root = rules.Declare("The schema");
  ASSIGN_OR_RETURN(const ExprId body, compiler.Compile(schema, {}));
  rules.Define(root, body);
  return root;
}

RuleId AddAnyObject(Rules& rules) {
  JsonRules json(rules);
  const RuleId root = rules.Declare("root");
  rules.Define(root, json.Object());
  return root;
}

// Schemas with the same text share a rule, by which recursive ones come to an end, too.
Result<ExprId> SchemaCompiler::Compile(const json::value& schema, const Pointer& at) {
  if (schema.is_bool()) return schema.as_bool() ? json_.Value() : rules_.Never();
  if (!schema.is_object())
    return Error(ErrorCode::kInvalidArgument, "The schema at " + at.text() + " is " +
                                                  ShortJson(schema) +
                                                  "; expected an object, true or false.");
  TRY(CheckKeywords(schema.as_object(), at));
  const Object plain = WithoutAnnotations(schema.as_object());
  if (plain.empty()) return json_.Value();
  std::string text = json::serialize(plain);
  if (const auto met = met_.find(text); met != met_.end()) return rules_.Call(met->second);
  if (++count_ > kMaxSubschemas || rules_.IsFull())
    return Error(ErrorCode::kLimitExceeded,
                 Sentence("The schema is too large: it consists of more than ", kMaxSubschemas,
                          " schemas, with those that combining makes."));
  if (depth_ >= kMaxCompileDepth)
    return Error(
        ErrorCode::kLimitExceeded,
        Sentence("The schema at ", at.text(), " is nested more than ", kMaxCompileDepth, " deep."));
  const RuleId rule = rules_.Declare(at.text());
  met_.emplace(std::move(text), rule);
  ++depth_;
  auto body = CompileBody(plain, at);
  --depth_;
  if (!body.ok()) return body;
  rules_.Define(rule, *body);
  return rules_.Call(rule);
}

Result<ExprId> SchemaCompiler::CompileBody(const Object& schema, const Pointer& at) {
  const bool is_alone = schema.size() == 1;
  if (const json::value* reference = schema.if_contains("$ref"); reference && is_alone) {
    ASSIGN_OR_RETURN(const Combiner::Place place, combiner_.Resolve(*reference, at));
    return Compile(*place.schema, place.at);
  }
  const bool combines = std::ranges::any_of(
      kCombining, [&schema](const char* name) { return schema.contains(name); });
  return combines ? CompileCombined(schema, at) : CompilePlain(schema, at);
}

Result<ExprId> SchemaCompiler::CompileChoice(const json::value& alternatives, const Pointer& at) {
  std::vector<ExprId> ways;
  for (size_t i = 0; i < alternatives.as_array().size(); ++i) {
    ASSIGN_OR_RETURN(const ExprId way, Compile(alternatives.as_array()[i], at / i));
    ways.push_back(way);
  }
  return rules_.Choice(std::move(ways));
}

// With several lists of alternatives, those of the first one are taken out: each holds together
// with all that is left.
Result<ExprId> SchemaCompiler::CompileCombined(const Object& schema, const Pointer& at) {
  ASSIGN_OR_RETURN(Combined combined, combiner_.Combine(schema, at));
  if (combined.never) return rules_.Never();
  if (combined.choices.empty()) {
    if (combined.plain.empty()) return json_.Value();
    return CompilePlain(combined.plain, at);
  }
  const json::array first = std::move(combined.choices.front());
  combined.choices.erase(combined.choices.begin());
  const char* const name = schema.contains("oneOf") ? "oneOf" : "anyOf";
  if (combined.plain.empty() && combined.choices.empty()) return CompileChoice(first, at / name);
  json::array rest;
  if (!combined.plain.empty()) rest.push_back(combined.plain);
  for (json::array& choice : combined.choices) rest.push_back(Object{{"anyOf", std::move(choice)}});
  std::vector<ExprId> ways;
  for (size_t i = 0; i < first.size(); ++i) {
    json::array all = rest;
    all.push_back(first[i]);
    ASSIGN_OR_RETURN(const ExprId way, Compile(Object{{"allOf", std::move(all)}}, at / name / i));
    ways.push_back(way);
  }
  return rules_.Choice(std::move(ways));
}

Result<ExprId> SchemaCompiler::CompilePlain(const Object& schema, const Pointer& at) {
  if (schema.contains("enum") || schema.contains("const")) return CompileValues(schema, at);
  ASSIGN_OR_RETURN(const Types types, TypesOf(schema, at));
  std::vector<ExprId> ways;
  if ((types & kNull) != 0) ways.push_back(rules_.Bytes("null"));
  if ((types & kBoolean) != 0)
    ways.push_back(rules_.Choice({rules_.Bytes("true"), rules_.Bytes("false")}));
  if ((types & kNumber) != 0) {
    ASSIGN_OR_RETURN(const ExprId number, CompileNumber(schema, at, (types & kFraction) == 0));
    ways.push_back(number);
  }
  if ((types & kString) != 0) {
    ASSIGN_OR_RETURN(const ExprId string, CompileString(schema, at));
    ways.push_back(string);
  }
  if ((types & kArray) != 0) {
    ASSIGN_OR_RETURN(const ExprId array, CompileArray(schema, at));
    ways.push_back(array);
  }
  if ((types & kObject) != 0) {
    ASSIGN_OR_RETURN(const ExprId object, CompileObject(schema, at));
    ways.push_back(object);
  }
  return rules_.Choice(std::move(ways));
}

Result<ExprId> SchemaCompiler::CompileValues(const Object& schema, const Pointer& at) {
  Types types = kAllTypes;
  for (const auto& [key, value] : schema) {
    const std::string_view name(key.data(), key.size());
    if (name == "type") {
      ASSIGN_OR_RETURN(types, TypesOf(schema, at));
    } else if (name != "enum" && name != "const") {
      return SchemaError(ErrorCode::kUnsupported, at, name,
                         "is not supported beside 'enum' or 'const'; list the values that fit it");
    }
  }
  json::array values;
  if (const json::value* listed = schema.if_contains("enum")) values = listed->as_array();
  if (const json::value* constant = schema.if_contains("const")) {
    if (schema.contains("enum") && std::ranges::find(values, *constant) == values.end())
      return rules_.Never();
    values = {*constant};
  }
  std::vector<ExprId> ways;
  for (const json::value& value : values)
    if ((TypeOfValue(value) & types) != 0) ways.push_back(json_.Literal(value));
  return rules_.Choice(std::move(ways));
}

Result<ExprId> SchemaCompiler::CompileString(const Object& schema, const Pointer& at) {
  const json::value* pattern = schema.if_contains("pattern");
  const json::value* format = schema.if_contains("format");
  const auto length = [&schema](const char* name, uint32_t if_absent) {
    const json::value* value = schema.if_contains(name);
    return value == nullptr ? if_absent : value->to_number<uint32_t>();
  };
  const uint32_t least = length("minLength", 0), most = length("maxLength", kUnbounded);
  if (pattern == nullptr && format == nullptr)
    return most < least ? rules_.Never() : json_.StringOfLength(least, most);
  const char* const main = pattern != nullptr ? "pattern" : "format";
  for (const char* name : {"format", "minLength", "maxLength"}) {
    if (std::string_view(name) == main || !schema.contains(name)) continue;
    return SchemaError(ErrorCode::kUnsupported, at, name,
                       std::string("is not supported beside '") + main +
                           "'; say it in the 'pattern', or leave it out");
  }
  RegexOptions options;
  options.write = [this](const CodePointSet& set) { return json_.Character(set); };
  options.searches = pattern != nullptr;
  std::string expression;
  if (pattern != nullptr) {
    expression = std::string(pattern->as_string());
  } else {
    const auto known = FormatPattern(std::string_view(format->as_string()));
    if (!known)
      return SchemaError(ErrorCode::kUnsupported, at, "format",
                         "is " + ShortJson(*format) + "; supported are " + FormatNames() +
                             ". Leave it out, or use 'pattern'");
    expression = *known;
  }
  auto characters = AddRegex(expression, options, rules_);
  if (!characters.ok())
    return SchemaError(
        characters.error().code(), at, main,
        "is " + ShortJson(json::value(expression)) + ". " + characters.error().message());
  return json_.Quoted(*characters);
}

namespace {

// The tighter of the two bounds of one side, as whole numbers.
Result<std::optional<Bound>> ReadBound(const json::object& schema, const Pointer& at,
                                       const char* included, const char* excluded, bool is_least,
                                       bool is_whole) {
  std::optional<Bound> bound;
  for (const char* name : {included, excluded}) {
    const json::value* value = schema.if_contains(name);
    if (value == nullptr) continue;
    auto number = value->to_number<double>();
    const bool has_fraction = std::floor(number) != number;
    Bound read;
    read.excluded = name == excluded && !has_fraction;
    if (has_fraction && is_whole) number = is_least ? std::ceil(number) : std::floor(number);
    if (has_fraction && !is_whole)
      return SchemaError(
          ErrorCode::kUnsupported, at, name,
          "is " + ShortJson(*value) + "; bounds of numbers that are not whole are not supported");
    if (value->is_int64()) {
      read.value = value->as_int64();
    } else if (std::abs(number) < kBeyondIntegers) {
      read.value = static_cast<int64_t>(number);
    } else {
      // Everything that can be written is on one side of it.
      if (is_least == (number < 0)) continue;
      read.value = is_least ? INT64_MAX : INT64_MIN;
      read.excluded = true;
    }
    if (!is_whole && std::abs(number) > static_cast<double>(kMostBoundOfNumber))
      return SchemaError(ErrorCode::kUnsupported, at, name,
                         "is " + ShortJson(*value) + "; a bound of a number has at most 15 digits");
    const bool is_tighter = !bound ||
                            (is_least ? read.value > bound->value : read.value < bound->value) ||
                            (read.value == bound->value && read.excluded);
    if (is_tighter) bound = read;
  }
  return bound;
}

}  // namespace

Result<ExprId> SchemaCompiler::CompileNumber(const Object& schema, const Pointer& at,
                                             bool is_whole) {
  Bounds bounds;
  ASSIGN_OR_RETURN(bounds.least,
                   ReadBound(schema, at, "minimum", "exclusiveMinimum", true, is_whole));
  ASSIGN_OR_RETURN(bounds.most,
                   ReadBound(schema, at, "maximum", "exclusiveMaximum", false, is_whole));
  if (!bounds.least && !bounds.most) return is_whole ? json_.Integer() : json_.Number();
  return is_whole ? AddIntegerRange(bounds, rules_) : AddNumberRange(bounds, rules_);
}

// Elements one after the other: those of prefixItems, then any number of `items`. From the back, so
// that each is followed by what may come behind it: [a, [b, [rest]]] with a break wherever there
// may be no more.
Result<ExprId> SchemaCompiler::CompileArray(const Object& schema, const Pointer& at) {
  const json::value* prefix = schema.if_contains("prefixItems");
  const json::value* items = schema.if_contains("items");
  const auto count = [&schema](const char* name, uint32_t if_absent) {
    const json::value* value = schema.if_contains(name);
    return value == nullptr ? if_absent : value->to_number<uint32_t>();
  };
  const uint32_t least = count("minItems", 0);
  uint32_t most = count("maxItems", kUnbounded);
  std::vector<ExprId> first;
  const size_t prefix_count = prefix != nullptr ? prefix->as_array().size() : 0;
  for (size_t i = 0; i < prefix_count && i < most; ++i) {
    ASSIGN_OR_RETURN(const ExprId element, Compile(prefix->as_array()[i], at / "prefixItems" / i));
    first.push_back(element);
  }
  // Beyond prefixItems nothing comes that the schema does not describe.
  const bool has_rest = items != nullptr ? *items != false : prefix == nullptr;
  if (!has_rest) most = std::min(most, static_cast<uint32_t>(first.size()));
  if (most < least) return rules_.Never();
  if (most == 0) return json_.Enclosed("[", std::nullopt, true, "]");
  const auto length = static_cast<uint32_t>(first.size());
  std::optional<ExprId> tail;  // what follows, with its comma; nullopt: nothing
  if (most > length) {
    ExprId rest = json_.Value();
    if (items != nullptr) {
      ASSIGN_OR_RETURN(rest, Compile(*items, at / "items"));
    }
    const ExprId more = rules_.Sequence({json_.Comma(), rest});
    // With no prefix the first of them has no comma.
    const uint32_t before = std::max(length, 1u);
    const uint32_t most_more = most == kUnbounded ? kUnbounded : most - before;
    tail = rules_.Repeat(more, least > before ? least - before : 0, most_more);
    if (length == 0) return json_.Enclosed("[", rules_.Sequence({rest, *tail}), least == 0, "]");
  }
  for (uint32_t i = length; i-- > 0;) {
    std::vector<ExprId> parts;
    if (i > 0) parts.push_back(json_.Comma());
    parts.push_back(first[i]);
    if (tail) parts.push_back(*tail);
    const ExprId element = rules_.Sequence(std::move(parts));
    tail = i > 0 && i >= least ? rules_.Optional(element) : element;
  }
  return json_.Enclosed("[", *tail, least == 0, "]");
}

}  // namespace weft::grammar
