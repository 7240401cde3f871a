// Filters of chat templates on arrays and objects.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/json.h"
#include "text/jinja/library.h"
#include "text/utf8.h"

namespace weft::jinja {
namespace {

using ValueKind = Value::Kind;

Result<std::vector<Value>> Items(Evaluator& evaluator, const Value& operand,
                                 std::string_view filter) {
  auto items = IterableItems(evaluator, operand);
  if (items.ok()) return items;
  return Refuse("The filter '" + std::string(filter) + "' of the chat template cannot go through " +
                std::string(operand.KindName()) + ".");
}

// item.a.b.0
Result<Value> AttributePath(Evaluator& evaluator, Value item, std::string_view path) {
  while (true) {
    const size_t dot = path.find('.');
    const std::string_view part = path.substr(0, dot);
    int64_t index = 0;
    const auto end = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool number = !part.empty() && end.ptr == part.data() + part.size();
    if (number) {
      ASSIGN_OR_RETURN(item, evaluator.Index(item, Value::Integer(index)));
    } else {
      ASSIGN_OR_RETURN(item, evaluator.Index(item, Value::String(std::string(part))));
    }
    if (dot == std::string_view::npos) return item;
    path.remove_prefix(dot + 1);
  }
}

Result<Value> AttributeOf(Evaluator& evaluator, const Value& item, const Value& attribute) {
  if (attribute.Is(ValueKind::kInteger)) return evaluator.Index(item, attribute);
  if (!attribute.IsString()) return Refuse("An attribute of the chat template must be a string.");
  return AttributePath(evaluator, item, attribute.string());
}

// Sorts `items` by `keys`; an order that Compare refuses is an error.
Result<std::vector<Value>> SortBy(Evaluator& evaluator, std::vector<Value> items,
                                  const std::vector<Value>& keys, bool case_sensitive,
                                  bool reverse) {
  uint64_t bytes = 0;
  for (const Value& key : keys) bytes += key.IsString() ? key.string().size() : 1;
  const auto rounds = static_cast<uint64_t>(std::log2(static_cast<double>(keys.size() + 2)) + 1);
  TRY(evaluator.Charge((keys.size() + bytes / 16) * rounds));
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  // All pairs that a sort may ask for have an order if each has one with the first.
  for (const Value& key : keys) {
    if (const auto comparable = Compare(keys[0], key, case_sensitive); !comparable.ok()) {
      return comparable.error();
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const auto compared = reverse ? Compare(keys[b], keys[a], case_sensitive)
                                  : Compare(keys[a], keys[b], case_sensitive);
    return compared.ok() && *compared < 0;
  });
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (const size_t i : order) sorted.push_back(std::move(items[i]));
  return sorted;
}

Result<Value> Sort(Evaluator& evaluator, const Value& operand, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(std::vector<Value> items, Items(evaluator, operand, "sort"));
  const bool reverse = FlagArgument(arguments, 0, "reverse", false);
  const bool case_sensitive = FlagArgument(arguments, 1, "case_sensitive", false);
  const Value* attribute = arguments.Get(2, "attribute");
  std::vector<Value> keys = items;
  if (attribute != nullptr && !attribute->IsNone()) {
    for (Value& key : keys) {
      ASSIGN_OR_RETURN(key, AttributeOf(evaluator, key, *attribute));
    }
  }
  ASSIGN_OR_RETURN(items, SortBy(evaluator, std::move(items), keys, case_sensitive, reverse));
  return evaluator.MakeArray(std::move(items));
}

Result<Value> DictSort(Evaluator& evaluator, const Value& operand, const CallArguments& arguments) {
  if (!operand.Is(ValueKind::kObject)) {
    return Refuse("The filter 'dictsort' needs an object, not " + std::string(operand.KindName()) +
                  ".");
  }
  const bool case_sensitive = FlagArgument(arguments, 0, "case_sensitive", false);
  const Value* by = arguments.Get(1, "by");
  const size_t part = by != nullptr && by->IsString() && by->string() == "value" ? 1 : 0;
  const bool reverse = FlagArgument(arguments, 2, "reverse", false);
  std::vector<Value> items;
  std::vector<Value> keys;
  for (const auto& [key, value] : operand.object()->entries()) {
    ASSIGN_OR_RETURN(Value pair, evaluator.MakeArray({KeyValue(key), value}));
    keys.push_back(pair.items()[part]);
    items.push_back(std::move(pair));
  }
  ASSIGN_OR_RETURN(items, SortBy(evaluator, std::move(items), keys, case_sensitive, reverse));
  return evaluator.MakeArray(std::move(items));
}

Result<Value> ItemsOfObject(Evaluator& evaluator, const Value& operand, const CallArguments&) {
  std::vector<Value> items;
  if (operand.IsUndefined()) return evaluator.MakeArray({});
  if (!operand.Is(ValueKind::kObject)) {
    return Refuse("The filter 'items' needs an object, not " + std::string(operand.KindName()) +
                  ".");
  }
  for (const auto& [key, value] : operand.object()->entries()) {
    ASSIGN_OR_RETURN(Value pair, evaluator.MakeArray({KeyValue(key), value}));
    items.push_back(std::move(pair));
  }
  return evaluator.MakeArray(std::move(items));
}

Result<Value> List(Evaluator& evaluator, const Value& operand, const CallArguments&) {
  ASSIGN_OR_RETURN(std::vector<Value> items, Items(evaluator, operand, "list"));
  return evaluator.MakeArray(std::move(items));
}

Result<Value> Length(Evaluator&, const Value& operand, const CallArguments&) {
  switch (operand.kind()) {
    case ValueKind::kString:
      return Value::Integer(static_cast<int64_t>(utf8::CountCodePoints(operand.string())));
    case ValueKind::kArray:
      return Value::Integer(static_cast<int64_t>(operand.items().size()));
    case ValueKind::kObject:
      return Value::Integer(static_cast<int64_t>(operand.object()->count()));
    case ValueKind::kUndefined:
      return Value::Integer(0);
    default:
      return Refuse("The chat template asks for the length of " + std::string(operand.KindName()) +
                    ".");
  }
}

Result<Value> First(Evaluator& evaluator, const Value& operand, const CallArguments&) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, Items(evaluator, operand, "first"));
  return items.empty() ? Value() : items.front();
}

Result<Value> Last(Evaluator& evaluator, const Value& operand, const CallArguments&) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, Items(evaluator, operand, "last"));
  return items.empty() ? Value() : items.back();
}

Result<Value> Reverse(Evaluator& evaluator, const Value& operand, const CallArguments&) {
  ASSIGN_OR_RETURN(std::vector<Value> items, Items(evaluator, operand, "reverse"));
  std::reverse(items.begin(), items.end());
  if (!operand.IsString()) return evaluator.MakeArray(std::move(items));
  std::string text;
  for (const Value& item : items) text += item.string();
  return evaluator.MakeString(std::move(text));
}

Result<Value> Join(Evaluator& evaluator, const Value& operand, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, Items(evaluator, operand, "join"));
  std::string separator;
  const Value* given = arguments.Get(0, "d");
  if (given == nullptr) given = arguments.Named("separator");
  if (given != nullptr) {
    ASSIGN_OR_RETURN(separator, ToText(*given));
  }
  const Value* attribute = arguments.Get(1, "attribute");
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    Value item = items[i];
    if (attribute != nullptr) {
      ASSIGN_OR_RETURN(item, AttributeOf(evaluator, item, *attribute));
    }
    TRY(evaluator.ChargeFor(item));
    TRY(evaluator.Charge(1 + separator.size() / 16));
    if (i > 0) text += separator;
    ASSIGN_OR_RETURN(const std::string part, ToText(item));
    text += part;
  }
  return evaluator.MakeString(std::move(text));
}

Result<Value> Unique(Evaluator& evaluator, const Value& operand, const CallArguments&) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, Items(evaluator, operand, "unique"));
  std::vector<Value> unique;
  for (const Value& item : items) {
    bool seen = false;
    for (const Value& kept : unique) {
      ASSIGN_OR_RETURN(const bool same, evaluator.Same(item, kept));
      seen = seen || same;
    }
    if (!seen) unique.push_back(item);
  }
  return evaluator.MakeArray(std::move(unique));
}

Result<Value> Sum(Evaluator& evaluator, const Value& operand, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, Items(evaluator, operand, "sum"));
  const Value* attribute = arguments.Get(0, "attribute");
  const Value* start = arguments.Get(1, "start");
  Value total = start == nullptr ? Value::Integer(0) : *start;
  for (Value item : items) {
    if (attribute != nullptr && !attribute->IsNone()) {
      ASSIGN_OR_RETURN(item, AttributeOf(evaluator, item, *attribute));
    }
    ASSIGN_OR_RETURN(total, BinaryOperation(evaluator, "+", total, item));
  }
  return total;
}

template <int kSign>
Result<Value> Extreme(Evaluator& evaluator, const Value& operand, const CallArguments&) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, Items(evaluator, operand, "min or max"));
  Value best;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i == 0) {
      best = items[i];
      continue;
    }
    ASSIGN_OR_RETURN(const int order, Compare(items[i], best, false));
    if (order * kSign > 0) best = items[i];
  }
  return best;
}

// map('upper'), map(attribute='name', default='')
Result<Value> Map(Evaluator& evaluator, const Value& operand, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, Items(evaluator, operand, "map"));
  const Value* attribute = arguments.Named("attribute");
  const Value* fallback = arguments.Named("default");
  CallArguments rest;
  std::string filter;
  if (attribute == nullptr) {
    ASSIGN_OR_RETURN(filter, TextArgument(arguments, 0, "filter", "The filter 'map'"));
    rest.positional.assign(arguments.positional.begin() + 1, arguments.positional.end());
    rest.named = arguments.named;
  }
  std::vector<Value> mapped;
  for (const Value& item : items) {
    Value value;
    if (attribute != nullptr) {
      ASSIGN_OR_RETURN(value, AttributeOf(evaluator, item, *attribute));
      if (value.IsUndefined() && fallback != nullptr) value = *fallback;
    } else {
      ASSIGN_OR_RETURN(value, evaluator.Filter(filter, item, rest));
    }
    mapped.push_back(std::move(value));
  }
  return evaluator.MakeArray(std::move(mapped));
}

// The filters select, reject, selectattr, rejectattr: the items whose value (or attribute) passes a
// test, or does not.
template <bool kKeep, bool kByAttribute>
Result<Value> Select(Evaluator& evaluator, const Value& operand, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, Items(evaluator, operand, "select or reject"));
  const size_t test_index = kByAttribute ? 1 : 0;
  if (kByAttribute && arguments.positional.empty()) {
    return Refuse("The filters 'selectattr' and 'rejectattr' need the name of an attribute.");
  }
  std::string test;
  CallArguments rest;
  if (arguments.positional.size() > test_index) {
    ASSIGN_OR_RETURN(test, TextArgument(arguments, test_index, "test", "The filter 'select'"));
    rest.positional.assign(arguments.positional.begin() + static_cast<ptrdiff_t>(test_index) + 1,
                           arguments.positional.end());
  }
  std::vector<Value> kept;
  for (const Value& item : items) {
    Value tested = item;
    if (kByAttribute) {
      ASSIGN_OR_RETURN(tested, AttributeOf(evaluator, item, arguments.positional[0]));
    }
    bool passed = tested.Truthy();
    if (!test.empty()) {
      ASSIGN_OR_RETURN(passed, evaluator.Test(test, tested, rest));
    }
    if (passed == kKeep) kept.push_back(item);
  }
  return evaluator.MakeArray(std::move(kept));
}

// Groups of `linecount` items, the last one filled up.
Result<Value> Batch(Evaluator& evaluator, const Value& operand, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, Items(evaluator, operand, "batch"));
  ASSIGN_OR_RETURN(const int64_t count,
                   IntegerArgument(arguments, 0, "linecount", 0, "The filter 'batch'"));
  if (count < 1 || count > 100'000) return Refuse("The filter 'batch' takes 1 to 100000 items.");
  const Value* fill = arguments.Get(1, "fill_with");
  std::vector<Value> groups;
  for (size_t begin = 0; begin < items.size(); begin += static_cast<size_t>(count)) {
    const size_t end = std::min(items.size(), begin + static_cast<size_t>(count));
    std::vector<Value> group(items.begin() + static_cast<ptrdiff_t>(begin),
                             items.begin() + static_cast<ptrdiff_t>(end));
    if (fill != nullptr) group.resize(static_cast<size_t>(count), *fill);
    ASSIGN_OR_RETURN(Value made, evaluator.MakeArray(std::move(group)));
    groups.push_back(std::move(made));
  }
  return evaluator.MakeArray(std::move(groups));
}

Result<Value> Attr(Evaluator& evaluator, const Value& operand, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const std::string name, TextArgument(arguments, 0, "name", "The filter 'attr'"));
  return evaluator.Attribute(operand, name);
}

constexpr std::pair<std::string_view, FilterFunction> kFilters[] = {
    {"attr", Attr},
    {"batch", Batch},
    {"count", Length},
    {"dictsort", DictSort},
    {"first", First},
    {"items", ItemsOfObject},
    {"join", Join},
    {"last", Last},
    {"length", Length},
    {"list", List},
    {"map", Map},
    {"max", Extreme<1>},
    {"min", Extreme<-1>},
    {"reject", Select<false, false>},
    {"rejectattr", Select<false, true>},
    {"reverse", Reverse},
    {"select", Select<true, false>},
    {"selectattr", Select<true, true>},
    {"sort", Sort},
    {"sum", Sum},
    {"unique", Unique}};

}  // namespace

FilterFunction FindListFilter(std::string_view name) {
  for (const auto& [known, filter] : kFilters) {
    if (known == name) return filter;
  }
  return nullptr;
}

}  // namespace weft::jinja
