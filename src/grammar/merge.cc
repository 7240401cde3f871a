// How each keyword of two schemas that both hold becomes one (combine.h).
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "grammar/combine.h"

namespace weft::grammar {
namespace json = boost::json;

namespace {

json::value Both(const json::value& a, const json::value& b) {
  if (a == b) return a;
  return json::object{{"allOf", json::array{a, b}}};
}

json::array NamesOf(Types types) {
  json::array names;
  const auto add = [&](Types type, const char* name) {
    if ((types & type) == type) names.emplace_back(name);
  };
  add(kNull, "null");
  add(kBoolean, "boolean");
  if ((types & kFraction) == 0) add(kInteger, "integer");
  add(kNumber, "number");
  add(kString, "string");
  add(kArray, "array");
  add(kObject, "object");
  return names;
}

class Merger {
 public:
  Merger(const json::object& more, const Pointer& at, Combined& out)
      : more_(more), at_(at), out_(out) {}

  Status Run() {
    TRY(MergeTypes());
    MergeValues();
    MergeProperties();
    MergeRequired();
    MergeItems();
    for (const char* name : {"minItems", "minLength", "minimum", "exclusiveMinimum"})
      TRY(MergeBound(name, true));
    for (const char* name : {"maxItems", "maxLength", "maximum", "exclusiveMaximum"})
      TRY(MergeBound(name, false));
    for (const char* name : {"pattern", "format"}) TRY(MergeEqual(name));
    return OkStatus();
  }

 private:
  // Null where `more` has none. Where the other has none, it is taken over here.
  const json::value* BothHave(std::string_view name) {
    const json::value* value = more_.if_contains(name);
    if (value == nullptr) return nullptr;
    if (out_.plain.contains(name)) return value;
    out_.plain.emplace(name, *value);
    return nullptr;
  }

  Status MergeTypes() {
    if (BothHave("type") == nullptr) return OkStatus();
    ASSIGN_OR_RETURN(const Types a, TypesOf(out_.plain, at_));
    ASSIGN_OR_RETURN(const Types b, TypesOf(more_, at_));
    const Types both = a & b;
    if ((both & kAllTypes) == 0)
      out_.never = true;
    else
      out_.plain["type"] = NamesOf(both);
    return OkStatus();
  }

  // "const" becomes an "enum" of one.
  void MergeValues() {
    json::object more;
    for (const char* name : {"const", "enum"})
      if (const json::value* value = more_.if_contains(name)) more.emplace(name, *value);
    const auto as_list = [](json::object& schema) {
      const json::value* constant = schema.if_contains("const");
      if (constant == nullptr) return;
      json::array list = {*constant};
      schema.erase("const");
      schema["enum"] = std::move(list);
    };
    if (more.empty()) return;
    as_list(more);
    as_list(out_.plain);
    json::value& list = more["enum"];
    json::value* own = out_.plain.if_contains("enum");
    if (own == nullptr || !own->is_array() || !list.is_array()) {
      out_.plain["enum"] = list;
      return;
    }
    json::array both;
    for (const json::value& value : own->as_array())
      if (std::ranges::find(list.as_array(), value) != list.as_array().end()) both.push_back(value);
    out_.never = out_.never || both.empty();
    *own = std::move(both);
  }

  // A property that one of them does not name has to fit its additionalProperties as well.
  void MergeProperties() {
    const json::object* theirs = Find(more_, "properties");
    const json::object* own = Find(out_.plain, "properties");
    const json::value* their_others = more_.if_contains("additionalProperties");
    const json::value* own_others = out_.plain.if_contains("additionalProperties");
    json::object merged;
    const auto add = [&merged](const json::object* some, const json::object* others,
                               const json::value* rest) {
      if (some == nullptr) return;
      for (const auto& [name, schema] : *some) {
        if (merged.contains(name)) continue;
        const json::value* other = others != nullptr ? others->if_contains(name) : nullptr;
        if (other == nullptr) other = rest;
        merged.emplace(name, other != nullptr ? Both(schema, *other) : schema);
      }
    };
    add(own, theirs, their_others);
    add(theirs, own, own_others);
    if (their_others != nullptr) {
      const json::value both = own_others ? Both(*own_others, *their_others) : *their_others;
      out_.plain["additionalProperties"] = both;
    }
    if (own != nullptr || theirs != nullptr) out_.plain["properties"] = std::move(merged);
  }

  void MergeRequired() {
    const json::value* required = BothHave("required");
    if (required == nullptr || !required->is_array() || !out_.plain["required"].is_array()) return;
    json::array& own = out_.plain["required"].as_array();
    for (const json::value& name : required->as_array())
      if (std::ranges::find(own, name) == own.end()) own.push_back(name);
  }

  void MergeItems() {
    const json::value* prefix = more_.if_contains("prefixItems");
    const json::value* own_prefix = out_.plain.if_contains("prefixItems");
    const json::value* items = more_.if_contains("items");
    const json::value* own_items = out_.plain.if_contains("items");
    json::array merged;
    const auto length = [](const json::value* list) {
      return list != nullptr && list->is_array() ? list->as_array().size() : 0;
    };
    const auto at = [&](const json::value* list, const json::value* rest, size_t i) {
      return i < length(list) ? &list->as_array()[i] : rest;
    };
    for (size_t i = 0; i < std::max(length(prefix), length(own_prefix)); ++i) {
      const json::value* theirs = at(prefix, items, i);
      const json::value* own = at(own_prefix, own_items, i);
      merged.push_back(own == nullptr ? *theirs : theirs == nullptr ? *own : Both(*own, *theirs));
    }
    if (items != nullptr) {
      const json::value both = own_items != nullptr ? Both(*own_items, *items) : *items;
      out_.plain["items"] = both;
    }
    if (!merged.empty()) out_.plain["prefixItems"] = std::move(merged);
  }

  Status MergeBound(const char* name, bool is_least) {
    const json::value* bound = BothHave(name);
    if (bound == nullptr) return OkStatus();
    json::value& own = out_.plain[name];
    for (const json::value* value : {bound, static_cast<const json::value*>(&own)})
      if (!value->is_number())
        return SchemaError(ErrorCode::kInvalidArgument, at_, name,
                           "is " + ShortJson(*value) + "; expected a number");
    const auto a = own.to_number<double>(), b = bound->to_number<double>();
    if (is_least ? b > a : b < a) own = *bound;
    return OkStatus();
  }

  Status MergeEqual(const char* name) {
    const json::value* value = BothHave(name);
    if (value == nullptr || *value == out_.plain[name]) return OkStatus();
    return SchemaError(ErrorCode::kUnsupported, at_, name,
                       "is wanted twice, as " + ShortJson(out_.plain[name]) + " and as " +
                           ShortJson(*value) + "; leave one of them out");
  }

  static const json::object* Find(const json::object& schema, std::string_view name) {
    const json::value* value = schema.if_contains(name);
    return value != nullptr ? value->if_object() : nullptr;
  }

  const json::object& more_;
  const Pointer& at_;
  Combined& out_;
};

}  // namespace

Status Merge(const json::object& more, const Pointer& at, Combined& out) {
  return Merger(more, at, out).Run();
}

}  // namespace weft::grammar
