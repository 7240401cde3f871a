// Methods of containers and numbers in chat templates: those of Python's list, tuple, dict and
// float. The sandbox of transformers refuses what changes a container; here it works.
#include <algorithm>
#include <cmath>

#include "text/jinja/library.h"

namespace weft::jinja {
namespace {

using ValueKind = Value::Kind;

// ---- arrays ----

// A change of a container that is already part of others; what it holds may grow deeper than it
// was.
Status CheckedChange(Evaluator& evaluator, const Value& container, const Value& item) {
  TRY(evaluator.Charge(4));
  if (item.depth() + 1 > kMaxValueDepth) {
    return Refuse("The chat template nests values more than " + std::to_string(kMaxValueDepth) +
                  " levels deep.");
  }
  if (container.IsArray()) container.array()->depth = std::max(container.depth(), item.depth() + 1);
  evaluator.NoteChanged(container);
  return OkStatus();
}

Result<Value> Append(Evaluator& evaluator, const Value& self, const Given& given) {
  TRY(CheckedChange(evaluator, self, *given[0]));
  self.array()->items.push_back(*given[0]);
  return Value::MakeNone();
}

Result<Value> Extend(Evaluator& evaluator, const Value& self, const Given& given) {
  ASSIGN_OR_RETURN(const auto items, IterableItems(evaluator, *given[0]));
  for (const Value& item : items) {
    TRY(CheckedChange(evaluator, self, item));
    self.array()->items.push_back(item);
  }
  return Value::MakeNone();
}

Result<Value> Insert(Evaluator& evaluator, const Value& self, const Given& given) {
  ASSIGN_OR_RETURN(int64_t at, IntegerArgument(given[0], 0, "insert()"));
  auto& items = self.array()->items;
  const auto count = static_cast<int64_t>(items.size());
  at = std::clamp<int64_t>(at < 0 ? std::max(at, -count) + count : at, 0, count);
  TRY(CheckedChange(evaluator, self, *given[1]));
  TRY(evaluator.Charge(items.size()));
  items.insert(items.begin() + at, *given[1]);
  return Value::MakeNone();
}

Result<Value> PopItem(Evaluator& evaluator, const Value& self, const Given& given) {
  ASSIGN_OR_RETURN(int64_t at, IntegerArgument(given[0], -1, "pop()"));
  auto& items = self.array()->items;
  const auto count = static_cast<int64_t>(items.size());
  if (at < 0 && at >= -count) at += count;
  if (at < 0 || at >= count) return Refuse("pop() of the chat template is outside of the array.");
  TRY(evaluator.Charge(items.size()));
  Value item = items[static_cast<size_t>(at)];
  items.erase(items.begin() + at);
  return item;
}

// The first place of an item in [start, stop).
Result<std::optional<size_t>> PlaceOfItem(Evaluator& evaluator, const Value& self,
                                          const Given& given) {
  const auto count = static_cast<int64_t>(self.items().size());
  ASSIGN_OR_RETURN(int64_t begin, IntegerArgument(given[1], 0, "index()"));
  ASSIGN_OR_RETURN(int64_t end, IntegerArgument(given[2], count, "index()"));
  if (begin < 0) begin = std::max<int64_t>(begin + count, 0);
  if (end < 0) end += count;
  for (int64_t i = begin; i < std::min(end, count); ++i) {
    const auto at = static_cast<size_t>(i);
    ASSIGN_OR_RETURN(const bool same, evaluator.Same(self.items()[at], *given[0]));
    if (same) return std::optional(at);
  }
  return std::optional<size_t>();
}

Result<Value> IndexOfItem(Evaluator& evaluator, const Value& self, const Given& given) {
  ASSIGN_OR_RETURN(const auto place, PlaceOfItem(evaluator, self, given));
  if (!place) return Refuse("index() of the chat template did not find its item.");
  return Value::Integer(static_cast<int64_t>(*place));
}

Result<Value> RemoveItem(Evaluator& evaluator, const Value& self, const Given& given) {
  ASSIGN_OR_RETURN(const auto place, PlaceOfItem(evaluator, self, given));
  if (!place) return Refuse("remove() of the chat template did not find its item.");
  auto& items = self.array()->items;
  TRY(evaluator.Charge(items.size()));
  items.erase(items.begin() + static_cast<ptrdiff_t>(*place));
  return Value::MakeNone();
}

Result<Value> CountItems(Evaluator& evaluator, const Value& self, const Given& given) {
  int64_t count = 0;
  for (const Value& item : self.items()) {
    ASSIGN_OR_RETURN(const bool same, evaluator.Same(item, *given[0]));
    count += same;
  }
  return Value::Integer(count);
}

Result<Value> CopyItems(Evaluator& evaluator, const Value& self, const Given&) {
  return evaluator.MakeArray(self.items());
}

Result<Value> ReverseItems(Evaluator& evaluator, const Value& self, const Given&) {
  TRY(evaluator.ChargeFor(self));
  std::ranges::reverse(self.array()->items);
  return Value::MakeNone();
}

Result<Value> ClearItems(Evaluator&, const Value& self, const Given&) {
  self.array()->items.clear();
  return Value::MakeNone();
}

constexpr MethodEntry kListMethods[] = {{"append", "/!object", Append},
                                        {"clear", "", ClearItems},
                                        {"copy", "", CopyItems},
                                        {"count", "/!value", CountItems},
                                        {"extend", "/!iterable", Extend},
                                        {"index", "/!value,start,stop", IndexOfItem},
                                        {"insert", "/!index,!object", Insert},
                                        {"pop", "/index", PopItem},
                                        {"remove", "/!value", RemoveItem},
                                        {"reverse", "", ReverseItems}};

constexpr MethodEntry kTupleMethods[] = {{"count", "/!value", CountItems},
                                         {"index", "/!value,start,stop", IndexOfItem}};

// ---- objects ----

Result<Value> Get(Evaluator&, const Value& self, const Given& given) {
  ASSIGN_OR_RETURN(const std::string key, ObjectKey(*given[0]));
  if (const Value* value = self.object()->Find(key)) return *value;
  return given[1] == nullptr ? Value::MakeNone() : *given[1];
}

Result<Value> View(Evaluator& evaluator, const Value& self, ArrayData::Form form) {
  const ObjectData& object = *self.object();
  std::vector<Value> rows;
  rows.reserve(object.count());
  for (const auto& [key, value] : object.entries()) {
    if (form == ArrayData::Form::kValues) {
      rows.push_back(value);
    } else if (form == ArrayData::Form::kKeys) {
      rows.push_back(KeyValue(object, key));
    } else {
      ASSIGN_OR_RETURN(
          Value pair, evaluator.MakeArray({KeyValue(object, key), value}, ArrayData::Form::kTuple));
      rows.push_back(std::move(pair));
    }
  }
  return evaluator.MakeArray(std::move(rows), form);
}

template <ArrayData::Form kForm>
Result<Value> ViewOf(Evaluator& evaluator, const Value& self, const Given&) {
  return View(evaluator, self, kForm);
}

Result<Value> DictSortMethod(Evaluator& evaluator, const Value& self, const Given& given) {
  return evaluator.Filter("dictsort", self, given.all());
}

Result<Value> Update(Evaluator& evaluator, const Value& self, const Given& given) {
  std::vector<std::pair<std::string, Value>> fields;
  for (const Value& source : given.all().positional) {
    if (!source.Is(ValueKind::kObject))
      return Refuse("update() of the chat template needs an object.");
    const auto& entries = source.object()->entries();
    fields.insert(fields.end(), entries.begin(), entries.end());
    self.object()->has_quoted_keys |= source.object()->has_quoted_keys;
  }
  for (const auto& [name, value] : given.all().named) fields.emplace_back(name, value);
  for (const auto& [key, value] : fields) {
    TRY(CheckedChange(evaluator, self, value));
    self.object()->Set(key, value);
  }
  return Value::MakeNone();
}

Result<Value> SetDefault(Evaluator& evaluator, const Value& self, const Given& given) {
  ASSIGN_OR_RETURN(const std::string key, ObjectKey(*given[0]));
  if (const Value* value = self.object()->Find(key)) return *value;
  const Value value = given[1] == nullptr ? Value::MakeNone() : *given[1];
  TRY(CheckedChange(evaluator, self, value));
  TRY(SetField(*self.object(), *given[0], value));
  return value;
}

Result<Value> PopField(Evaluator& evaluator, const Value& self, const Given& given) {
  ASSIGN_OR_RETURN(const std::string key, ObjectKey(*given[0]));
  const Value* found = self.object()->Find(key);
  if (found == nullptr && given[1] == nullptr) {
    return Refuse("pop() of the chat template did not find its key.");
  }
  Value value = found == nullptr ? *given[1] : *found;
  TRY(evaluator.Charge(self.object()->count()));
  self.object()->Erase(key);
  return value;
}

Result<Value> CopyFields(Evaluator& evaluator, const Value& self, const Given&) {
  return evaluator.MakeObject(std::make_shared<ObjectData>(*self.object()));
}

Result<Value> ClearFields(Evaluator&, const Value& self, const Given&) {
  self.object()->Clear();
  return Value::MakeNone();
}

constexpr MethodEntry kObjectMethods[] = {{"clear", "", ClearFields},
                                          {"copy", "", CopyFields},
                                          {"get", "/!key,default", Get},
                                          {"items", "", ViewOf<ArrayData::Form::kItems>},
                                          {"keys", "", ViewOf<ArrayData::Form::kKeys>},
                                          {"pop", "/!key,default", PopField},
                                          {"setdefault", "/!key,default", SetDefault},
                                          {"update", "*", Update},
                                          {"values", "", ViewOf<ArrayData::Form::kValues>}};

// Not Python's, but of @huggingface/jinja: fields of that name come first.
constexpr MethodEntry kObjectExtras[] = {{"dictsort", "*", DictSortMethod}};

// ---- numbers ----

Result<Value> IsWholeFloat(Evaluator&, const Value& self, const Given&) {
  return Value::Bool(std::isfinite(self.real()) && self.real() == std::floor(self.real()));
}

Result<Value> BitLength(Evaluator&, const Value& self, const Given&) {
  const std::string bits = DigitsOf(self.AsInteger(), 2);
  const auto length = static_cast<int64_t>(bits.size() - (bits[0] == '-' ? 1 : 0));
  return Value::Integer(self.AsInteger() == 0 ? 0 : length);
}

constexpr MethodEntry kFloatMethods[] = {{"is_integer", "", IsWholeFloat}};
constexpr MethodEntry kIntegerMethods[] = {{"bit_length", "", BitLength}};

}  // namespace

const MethodEntry* FindMethod(const Value& self, std::string_view name) {
  switch (self.kind()) {
    case ValueKind::kString:
      return FindStringMethod(name);
    case ValueKind::kArray:
      if (self.array()->form == ArrayData::Form::kList) return FindIn(kListMethods, name);
      if (self.array()->IsTuple() || self.array()->form == ArrayData::Form::kRange) {
        return FindIn(kTupleMethods, name);
      }
      return nullptr;
    case ValueKind::kObject:
      if (const MethodEntry* method = FindIn(kObjectMethods, name)) return method;
      if (self.object()->Find(name) != nullptr) return nullptr;
      return FindIn(kObjectExtras, name);
    case ValueKind::kFloat:
      return FindIn(kFloatMethods, name);
    case ValueKind::kInteger:
    case ValueKind::kBool:
      return FindIn(kIntegerMethods, name);
    default:
      return nullptr;
  }
}

}  // namespace weft::jinja
