// Filters of chat templates on arrays and objects.
#include <algorithm>
#include <cmath>

#include "text/jinja/library.h"
#include "text/jinja/python_text.h"
#include "text/jinja/repr.h"
#include "text/utf8.h"

namespace weft::jinja {
namespace {

using ValueKind = Value::Kind;
using Form = ArrayData::Form;

Result<std::vector<Value>> Items(Evaluator& evaluator, const Value& operand,
                                 std::string_view filter) {
  auto items = IterableItems(evaluator, operand);
  if (items.ok()) return items;
  return Refuse("The filter '" + std::string(filter) + "' of the chat template cannot go through " +
                std::string(operand.KindName()) + ".");
}

// The parts of 'a.b.0'.
std::vector<Value> AttributeParts(const Value& attribute) {
  if (attribute.IsNone()) return {};
  if (!attribute.IsString()) return {attribute};
  std::vector<Value> parts;
  std::string_view path = attribute.string();
  while (true) {
    const size_t dot = path.find('.');
    const std::string part(path.substr(0, dot));
    const auto number = ParseDigits(part, 10);
    parts.push_back(number ? Value::Integer(*number) : Value::String(part));
    if (dot == std::string_view::npos) return parts;
    path.remove_prefix(dot + 1);
  }
}

// item.a.b.0; `fallback`, which may be null, in place of a part that is undefined.
Result<Value> AttributeOf(Evaluator& evaluator, Value item, const std::vector<Value>& parts,
                          const Value* fallback = nullptr) {
  for (const Value& part : parts) {
    ASSIGN_OR_RETURN(item, evaluator.Index(item, part));
    if (item.IsUndefined() && IsGiven(fallback)) item = *fallback;
  }
  return item;
}

std::vector<Value> PartsOf(const Value* attribute) {
  return attribute == nullptr ? std::vector<Value>() : AttributeParts(*attribute);
}

Value WithoutCase(Value key) {
  return key.IsString() ? Value::String(python::Lower(key.string())) : key;
}

// Sorts `items` by `keys`; an order that Compare refuses is an error.
Result<std::vector<Value>> SortBy(Evaluator& evaluator, std::vector<Value> items,
                                  const std::vector<Value>& keys, bool reverse) {
  uint64_t bytes = 0;
  for (const Value& key : keys) bytes += key.IsString() ? key.string().size() : 1;
  const auto rounds = static_cast<uint64_t>(std::log2(static_cast<double>(keys.size() + 2)) + 1);
  TRY(evaluator.Charge((keys.size() + bytes / 16) * rounds));
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::optional<Error> failure;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (failure) return false;
    const auto compared =
        reverse ? evaluator.Order(keys[b], keys[a]) : evaluator.Order(keys[a], keys[b]);
    if (!compared.ok()) failure = compared.error();
    return compared.ok() && *compared < 0;
  });
  if (failure) return *failure;
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (const size_t i : order) sorted.push_back(std::move(items[i]));
  return sorted;
}

Result<Value> Sort(Evaluator& evaluator, const Value& operand, const Given& given) {
  ASSIGN_OR_RETURN(std::vector<Value> items, Items(evaluator, operand, "sort"));
  const bool reverse = FlagArgument(given[0], false);
  const bool case_sensitive = FlagArgument(given[1], false);
  // 'age,name' sorts by both.
  std::vector<std::vector<Value>> paths;
  if (given[2] != nullptr && given[2]->IsString()) {
    std::string_view names = given[2]->string();
    while (true) {
      const size_t comma = names.find(',');
      paths.push_back(AttributeParts(Value::String(std::string(names.substr(0, comma)))));
      if (comma == std::string_view::npos) break;
      names.remove_prefix(comma + 1);
    }
  } else {
    paths.push_back(PartsOf(given[2]));
  }
  std::vector<Value> keys;
  for (const Value& item : items) {
    std::vector<Value> key;
    for (const std::vector<Value>& path : paths) {
      ASSIGN_OR_RETURN(Value part, AttributeOf(evaluator, item, path));
      key.push_back(case_sensitive ? std::move(part) : WithoutCase(std::move(part)));
    }
    ASSIGN_OR_RETURN(Value row, evaluator.MakeArray(std::move(key)));
    keys.push_back(std::move(row));
  }
  ASSIGN_OR_RETURN(items, SortBy(evaluator, std::move(items), keys, reverse));
  return evaluator.MakeArray(std::move(items));
}

Result<std::vector<Value>> PairsOf(Evaluator& evaluator, const Value& object) {
  std::vector<Value> pairs;
  for (const auto& [key, value] : object.object()->entries()) {
    ASSIGN_OR_RETURN(Value pair,
                     evaluator.MakeArray({KeyValue(*object.object(), key), value}, Form::kTuple));
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

Result<Value> DictSort(Evaluator& evaluator, const Value& operand, const Given& given) {
  if (!operand.Is(ValueKind::kObject)) {
    return Refuse("The filter 'dictsort' needs an object, not " + std::string(operand.KindName()) +
                  ".");
  }
  const bool case_sensitive = FlagArgument(given[0], false);
  size_t part = 0;
  if (given[1] != nullptr) {
    ASSIGN_OR_RETURN(const Text by, TextArgument(given[1], "The filter 'dictsort'"));
    if (by.bytes() != "key" && by.bytes() != "value") {
      return Refuse("The filter 'dictsort' sorts by 'key' or 'value', not by '" + by.bytes() +
                    "'.");
    }
    part = by.bytes() == "value" ? 1 : 0;
  }
  ASSIGN_OR_RETURN(std::vector<Value> items, PairsOf(evaluator, operand));
  std::vector<Value> keys;
  for (const Value& pair : items) {
    keys.push_back(case_sensitive ? pair.items()[part] : WithoutCase(pair.items()[part]));
  }
  ASSIGN_OR_RETURN(items, SortBy(evaluator, std::move(items), keys, FlagArgument(given[2], false)));
  return evaluator.MakeArray(std::move(items));
}

Result<Value> ItemsOfObject(Evaluator& evaluator, const Value& operand, const Given&) {
  if (operand.IsUndefined()) return evaluator.MakeArray({}, Form::kIterator);
  if (!operand.Is(ValueKind::kObject)) {
    return Refuse("The filter 'items' needs an object, not " + std::string(operand.KindName()) +
                  ".");
  }
  ASSIGN_OR_RETURN(std::vector<Value> pairs, PairsOf(evaluator, operand));
  return evaluator.MakeArray(std::move(pairs), Form::kIterator);
}

Result<Value> List(Evaluator& evaluator, const Value& operand, const Given&) {
  ASSIGN_OR_RETURN(std::vector<Value> items, Items(evaluator, operand, "list"));
  return evaluator.MakeArray(std::move(items));
}

Result<Value> Length(Evaluator&, const Value& operand, const Given&) {
  switch (operand.kind()) {
    case ValueKind::kString:
      return Value::Integer(static_cast<int64_t>(utf8::CountCodePoints(operand.string())));
    case ValueKind::kArray:
      if (operand.IsIterator()) break;
      return Value::Integer(static_cast<int64_t>(operand.items().size()));
    case ValueKind::kObject:
      return Value::Integer(static_cast<int64_t>(operand.object()->count()));
    case ValueKind::kUndefined:
      return Value::Integer(0);
    default:
      break;
  }
  return Refuse("The chat template asks for the length of " + std::string(operand.KindName()) +
                (operand.IsIterator() ? " that is an iterator; it needs the filter 'list'." : "."));
}

Result<Value> First(Evaluator& evaluator, const Value& operand, const Given&) {
  if (operand.IsIterator()) {  // which goes on behind it
    auto& items = operand.array()->items;
    if (items.empty()) return Value();
    TRY(evaluator.Charge(items.size() / 4));
    Value first = items.front();
    items.erase(items.begin());
    return first;
  }
  ASSIGN_OR_RETURN(const std::vector<Value> items, Items(evaluator, operand, "first"));
  return items.empty() ? Value() : items.front();
}

Result<Value> Last(Evaluator& evaluator, const Value& operand, const Given&) {
  if (operand.IsIterator()) {
    return Refuse("The filter 'last' cannot go through an iterator; it needs the filter 'list'.");
  }
  ASSIGN_OR_RETURN(const std::vector<Value> items, Items(evaluator, operand, "last"));
  return items.empty() ? Value() : items.back();
}

Result<Value> Reverse(Evaluator& evaluator, const Value& operand, const Given&) {
  ASSIGN_OR_RETURN(std::vector<Value> items, Items(evaluator, operand, "reverse"));
  std::reverse(items.begin(), items.end());
  if (!operand.IsString()) {
    return evaluator.MakeArray(std::move(items),
                               operand.IsIterator() ? Form::kList : Form::kIterator);
  }
  Text text;
  for (const Value& item : items) text.Append(item.text());
  return evaluator.MakeString(std::move(text));
}

Result<Value> Join(Evaluator& evaluator, const Value& operand, const Given& given) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, Items(evaluator, operand, "join"));
  Text separator;
  // @huggingface/jinja calls it separator.
  if (given[0] != nullptr || given[2] != nullptr) {
    ASSIGN_OR_RETURN(separator, ToText(given[0] != nullptr ? *given[0] : *given[2]));
  }
  const std::vector<Value> path = PartsOf(given[1]);
  Text text;
  for (size_t i = 0; i < items.size(); ++i) {
    ASSIGN_OR_RETURN(const Value item, AttributeOf(evaluator, items[i], path));
    TRY(evaluator.ChargeFor(item));
    TRY(evaluator.Charge(1 + separator.size() / 16));
    if (i > 0) text.Append(separator);
    if (item.IsString()) {
      text.Append(item.text());
      continue;
    }
    ASSIGN_OR_RETURN(const Text part, ToText(item));
    text.Append(part);
  }
  return evaluator.MakeString(std::move(text));
}

// The key by which 'unique', 'min', 'max' and 'groupby' look at an item.
Result<Value> KeyOf(Evaluator& evaluator, const Value& item, bool case_sensitive,
                    const std::vector<Value>& path, const Value* fallback = nullptr) {
  ASSIGN_OR_RETURN(Value key, AttributeOf(evaluator, item, path, fallback));
  return case_sensitive ? std::move(key) : WithoutCase(std::move(key));
}

Result<Value> Unique(Evaluator& evaluator, const Value& operand, const Given& given) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, Items(evaluator, operand, "unique"));
  const std::vector<Value> path = PartsOf(given[1]);
  std::vector<Value> unique;
  std::vector<Value> keys;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(Value key, KeyOf(evaluator, item, FlagArgument(given[0], false), path));
    // Python looks it up in a set.
    if ((key.IsArray() && !key.array()->IsTuple()) || key.Is(ValueKind::kObject)) {
      return Refuse("The filter 'unique' of the chat template cannot look for " +
                    std::string(key.KindName()) + ".");
    }
    bool seen = false;
    for (const Value& kept : keys) {
      ASSIGN_OR_RETURN(const bool same, evaluator.Same(key, kept));
      seen = seen || same;
    }
    if (seen) continue;
    keys.push_back(std::move(key));
    unique.push_back(item);
  }
  return evaluator.MakeArray(std::move(unique), Form::kIterator);
}

Result<Value> Sum(Evaluator& evaluator, const Value& operand, const Given& given) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, Items(evaluator, operand, "sum"));
  const std::vector<Value> path = PartsOf(given[0]);
  Value total = given[1] == nullptr ? Value::Integer(0) : *given[1];
  if (total.IsString()) return Refuse("The filter 'sum' cannot start with a string; use 'join'.");
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(const Value part, AttributeOf(evaluator, item, path));
    ASSIGN_OR_RETURN(total, BinaryOperation(evaluator, "+", total, part));
  }
  return total;
}

template <int kSign>
Result<Value> Extreme(Evaluator& evaluator, const Value& operand, const Given& given) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, Items(evaluator, operand, "min or max"));
  const std::vector<Value> path = PartsOf(given[1]);
  Value best;
  Value best_key;
  for (size_t i = 0; i < items.size(); ++i) {
    ASSIGN_OR_RETURN(Value key, KeyOf(evaluator, items[i], FlagArgument(given[0], false), path));
    if (i > 0) {
      ASSIGN_OR_RETURN(const int order, evaluator.Order(key, best_key));
      if (order == kUnordered || order * kSign <= 0) continue;
    }
    best = items[i];
    best_key = std::move(key);
  }
  return best;
}

// Groups of items with the same key, in the order of keys: pairs of the key and a list.
Result<Value> GroupBy(Evaluator& evaluator, const Value& operand, const Given& given) {
  ASSIGN_OR_RETURN(std::vector<Value> items, Items(evaluator, operand, "groupby"));
  const std::vector<Value> path = AttributeParts(*given[0]);
  const bool case_sensitive = FlagArgument(given[2], false);
  const auto key_of = [&](const Value& item, bool with_case) {
    return KeyOf(evaluator, item, with_case, path, given[1]);
  };
  std::vector<Value> keys;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(Value key, key_of(item, case_sensitive));
    keys.push_back(std::move(key));
  }
  ASSIGN_OR_RETURN(items, SortBy(evaluator, std::move(items), keys, false));
  std::vector<std::vector<Value>> groups;
  Value current;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(Value key, key_of(item, case_sensitive));
    ASSIGN_OR_RETURN(const bool same, evaluator.Same(key, current));
    if (groups.empty() || !same) groups.emplace_back();
    groups.back().push_back(item);
    current = std::move(key);
  }
  std::vector<Value> rows;
  for (std::vector<Value>& group : groups) {
    ASSIGN_OR_RETURN(Value key, key_of(group[0], true));
    ASSIGN_OR_RETURN(Value list, evaluator.MakeArray(std::move(group)));
    ASSIGN_OR_RETURN(Value row,
                     evaluator.MakeArray({std::move(key), std::move(list)}, Form::kGroup));
    rows.push_back(std::move(row));
  }
  return evaluator.MakeArray(std::move(rows));
}

// map('upper'), map(attribute='name', default='')
Result<Value> Map(Evaluator& evaluator, const Value& operand, const Given& given) {
  if (!operand.Truthy()) return evaluator.MakeArray({}, Form::kIterator);
  ASSIGN_OR_RETURN(const std::vector<Value> items, Items(evaluator, operand, "map"));
  const CallArguments& all = given.all();
  const Value* attribute = all.positional.empty() ? all.Named("attribute") : nullptr;
  const Value* fallback = all.Named("default");
  CallArguments rest;
  std::string filter;
  if (attribute == nullptr) {
    ASSIGN_OR_RETURN(
        const Text name,
        TextArgument(all.positional.empty() ? nullptr : &all.positional[0], "The filter 'map'"));
    filter = name.bytes();
    rest.positional.assign(all.positional.begin() + 1, all.positional.end());
    rest.named = all.named;
  } else if (all.named.size() > (fallback == nullptr ? 1u : 2u)) {
    return Refuse("The filter 'map' takes 'attribute' and 'default' by name.");
  }
  const std::vector<Value> path = PartsOf(attribute);
  std::vector<Value> mapped;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(Value value, attribute != nullptr
                                      ? AttributeOf(evaluator, item, path, fallback)
                                      : evaluator.Filter(filter, item, rest));
    mapped.push_back(std::move(value));
  }
  return evaluator.MakeArray(std::move(mapped), Form::kIterator);
}

// The filters select, reject, selectattr, rejectattr: the items whose value (or attribute) passes a
// test, or does not. What counts as false has no items.
template <bool kKeep, bool kByAttribute>
Result<Value> Select(Evaluator& evaluator, const Value& operand, const Given& given) {
  if (!operand.Truthy()) return evaluator.MakeArray({}, Form::kIterator);
  ASSIGN_OR_RETURN(const std::vector<Value> items, Items(evaluator, operand, "select or reject"));
  const std::vector<Value>& positional = given.all().positional;
  const size_t test_index = kByAttribute ? 1 : 0;
  if (kByAttribute && positional.empty()) {
    return Refuse("The filters 'selectattr' and 'rejectattr' need the name of an attribute.");
  }
  std::string test;
  CallArguments rest;
  if (positional.size() > test_index) {
    ASSIGN_OR_RETURN(const Text name, TextArgument(&positional[test_index], "The filter 'select'"));
    test = name.bytes();
    rest.positional.assign(positional.begin() + static_cast<ptrdiff_t>(test_index) + 1,
                           positional.end());
    rest.named = given.all().named;
  }
  const std::vector<Value> path =
      kByAttribute ? AttributeParts(positional[0]) : std::vector<Value>();
  std::vector<Value> kept;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(const Value tested, AttributeOf(evaluator, item, path));
    bool passed = tested.Truthy();
    if (!test.empty()) {
      ASSIGN_OR_RETURN(passed, evaluator.Test(test, tested, rest));
    }
    if (passed == kKeep) kept.push_back(item);
  }
  return evaluator.MakeArray(std::move(kept), Form::kIterator);
}

Result<size_t> CountArgument(const Value* given, std::string_view filter) {
  ASSIGN_OR_RETURN(const int64_t count, IntegerArgument(given, 0, filter));
  if (count < 1 || count > 100'000) return Refuse(std::string(filter) + " takes 1 to 100000.");
  return static_cast<size_t>(count);
}

// Groups of `linecount` items, the last one filled up.
Result<Value> Batch(Evaluator& evaluator, const Value& operand, const Given& given) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, Items(evaluator, operand, "batch"));
  ASSIGN_OR_RETURN(const size_t count, CountArgument(given[0], "The filter 'batch'"));
  std::vector<Value> groups;
  for (size_t begin = 0; begin < items.size(); begin += count) {
    const size_t end = std::min(items.size(), begin + count);
    std::vector<Value> group(items.begin() + static_cast<ptrdiff_t>(begin),
                             items.begin() + static_cast<ptrdiff_t>(end));
    if (IsGiven(given[1])) {
      TRY(evaluator.Charge(count));
      group.resize(count, *given[1]);
    }
    ASSIGN_OR_RETURN(Value made, evaluator.MakeArray(std::move(group)));
    groups.push_back(std::move(made));
  }
  return evaluator.MakeArray(std::move(groups), Form::kIterator);
}

// The items in `slices` columns, the first ones longer where it does not come out even.
Result<Value> SliceFilter(Evaluator& evaluator, const Value& operand, const Given& given) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, Items(evaluator, operand, "slice"));
  ASSIGN_OR_RETURN(const size_t slices, CountArgument(given[0], "The filter 'slice'"));
  const size_t each = items.size() / slices;
  const size_t longer = items.size() % slices;
  std::vector<Value> columns;
  size_t begin = 0;
  for (size_t i = 0; i < slices; ++i) {
    const size_t end = begin + each + (i < longer ? 1 : 0);
    std::vector<Value> column(items.begin() + static_cast<ptrdiff_t>(begin),
                              items.begin() + static_cast<ptrdiff_t>(end));
    if (IsGiven(given[1]) && i >= longer) column.push_back(*given[1]);
    ASSIGN_OR_RETURN(Value made, evaluator.MakeArray(std::move(column)));
    columns.push_back(std::move(made));
    begin = end;
  }
  return evaluator.MakeArray(std::move(columns), Form::kIterator);
}

Result<Value> Attr(Evaluator& evaluator, const Value& operand, const Given& given) {
  ASSIGN_OR_RETURN(const Text name, TextArgument(given[0], "The filter 'attr'"));
  ASSIGN_OR_RETURN(std::optional<Value> attribute, evaluator.AttributeAlone(operand, name.bytes()));
  return attribute ? std::move(*attribute) : Value();
}

constexpr FilterEntry kFilters[] = {{"attr", "!name", Attr},
                                    {"batch", "!linecount,fill_with", Batch},
                                    {"count", "", Length},
                                    {"dictsort", "case_sensitive,by,reverse", DictSort},
                                    {"first", "", First},
                                    {"groupby", "!attribute,default,case_sensitive", GroupBy},
                                    {"items", "", ItemsOfObject},
                                    {"join", "d,attribute,separator", Join},
                                    {"last", "", Last},
                                    {"length", "", Length},
                                    {"list", "", List},
                                    {"map", "*", Map},
                                    {"max", "case_sensitive,attribute", Extreme<1>},
                                    {"min", "case_sensitive,attribute", Extreme<-1>},
                                    {"reject", "*", Select<false, false>},
                                    {"rejectattr", "*", Select<false, true>},
                                    {"reverse", "", Reverse},
                                    {"select", "*", Select<true, false>},
                                    {"selectattr", "*", Select<true, true>},
                                    {"slice", "!slices,fill_with", SliceFilter},
                                    {"sort", "reverse,case_sensitive,attribute", Sort},
                                    {"sum", "attribute,start", Sum},
                                    {"unique", "case_sensitive,attribute", Unique}};

}  // namespace

const FilterEntry* FindListFilter(std::string_view name) {
  return FindIn(kFilters, name);
}

}  // namespace weft::jinja
