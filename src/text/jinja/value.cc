#include "text/jinja/value.h"

#include <charconv>
#include <cmath>

#include "text/utf8.h"

namespace weft::jinja {
namespace {

// Objects with fewer keys are searched one by one.
constexpr size_t kIndexedKeys = 8;
// Before the digits of an integer key; no text starts so.
constexpr char kIntegerKey = '\x01';

int Order(double a, double b) {
  return a < b ? -1 : (a > b ? 1 : 0);
}

bool EqualObjects(const ObjectData& a, const ObjectData& b, uint64_t& work) {
  if (a.count() != b.count()) return false;
  for (const auto& [key, value] : a.entries()) {
    const Value* other = b.Find(key);
    if (other == nullptr || !Equal(value, *other, work)) return false;
  }
  return true;
}

bool EqualArrays(const std::vector<Value>& a, const std::vector<Value>& b, uint64_t& work) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!Equal(a[i], b[i], work)) return false;
  }
  return true;
}

}  // namespace

size_t ObjectData::IndexOf(std::string_view key) const {
  if (!index_.empty()) {
    const auto found = index_.find(std::string(key));
    return found == index_.end() ? kNotFound : found->second;
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].first == key) return i;
  }
  return kNotFound;
}

const Value* ObjectData::Find(std::string_view key) const {
  const size_t index = IndexOf(key);
  return index == kNotFound ? nullptr : &entries_[index].second;
}

void ObjectData::Set(std::string_view key, Value value) {
  depth = std::max(depth, value.depth() + 1);
  const size_t index = IndexOf(key);
  if (index != kNotFound) {
    entries_[index].second = std::move(value);
    return;
  }
  entries_.emplace_back(std::string(key), std::move(value));
  if (entries_.size() < kIndexedKeys) return;
  for (size_t i = index_.size(); i < entries_.size(); ++i) index_.emplace(entries_[i].first, i);
}

void ObjectData::Erase(std::string_view key) {
  const size_t index = IndexOf(key);
  if (index == kNotFound) return;
  entries_.erase(entries_.begin() + static_cast<ptrdiff_t>(index));
  index_.clear();
  if (entries_.size() < kIndexedKeys) return;
  for (size_t i = 0; i < entries_.size(); ++i) index_.emplace(entries_[i].first, i);
}

void ObjectData::Clear() {
  entries_.clear();
  index_.clear();
}

double Value::AsDouble() const {
  if (Is(Kind::kBool)) return bool_value() ? 1 : 0;
  return Is(Kind::kInteger) ? static_cast<double>(integer()) : real();
}

int64_t Value::AsInteger() const {
  if (Is(Kind::kBool)) return bool_value() ? 1 : 0;
  if (Is(Kind::kInteger)) return integer();
  const double whole = std::trunc(real());
  // Also keeps NaN and infinity out of the conversion.
  if (!(whole > -9.2e18 && whole < 9.2e18)) return 0;
  return static_cast<int64_t>(whole);
}

bool Value::Truthy() const {
  switch (kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return bool_value();
    case Kind::kInteger:
      return integer() != 0;
    case Kind::kFloat:
      return real() != 0;
    case Kind::kString:
      return !string().empty();
    case Kind::kArray:
      return !items().empty();
    case Kind::kObject:
      return object()->count() != 0;
    case Kind::kNamespace:
    case Kind::kFunction:
      return true;
  }
  return false;
}

int Value::depth() const {
  if (IsArray()) return array()->depth;
  if (Is(Kind::kObject) || Is(Kind::kNamespace)) return object()->depth;
  return 0;
}

std::string_view Value::KindName() const {
  static constexpr std::string_view kNames[] = {
      "undefined", "none",     "a boolean", "an integer",  "a number",
      "a string",  "an array", "an object", "a namespace", "a function"};
  return kNames[static_cast<size_t>(kind())];
}

const Value* CallArguments::Get(size_t index, std::string_view name) const {
  return index < positional.size() ? &positional[index] : Named(name);
}

const Value* CallArguments::Named(std::string_view name) const {
  for (const auto& [key, value] : named) {
    if (key == name) return &value;
  }
  return nullptr;
}

Result<std::string> ObjectKey(const Value& key) {
  if (key.IsString()) return key.string();
  if (key.Is(Value::Kind::kInteger)) return kIntegerKey + std::to_string(key.integer());
  return Error(ErrorCode::kInvalidData, "The chat template has an object whose key is " +
                                            std::string(key.KindName()) +
                                            ", but keys must be strings or integers.");
}

Value KeyValue(const std::string& key) {
  if (key.empty() || key[0] != kIntegerKey) return Value::String(key);
  int64_t value = 0;
  std::from_chars(key.data() + 1, key.data() + key.size(), value);
  return Value::Integer(value);
}

std::string_view KeyDigits(std::string_view key) {
  return key.empty() || key[0] != kIntegerKey ? key : key.substr(1);
}

bool Equal(const Value& a, const Value& b, uint64_t& work) {
  if (++work > kMaxEqualWork) return false;
  if (a.IsNumeric() && b.IsNumeric()) {
    if (a.Is(Value::Kind::kInteger) && b.Is(Value::Kind::kInteger)) {
      return a.integer() == b.integer();
    }
    return a.AsDouble() == b.AsDouble();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Value::Kind::kString:
      work += a.string().size() / 64;
      return a.string() == b.string();
    case Value::Kind::kArray:
      return a.array() == b.array() || EqualArrays(a.items(), b.items(), work);
    case Value::Kind::kObject:
      return a.object() == b.object() || EqualObjects(*a.object(), *b.object(), work);
    case Value::Kind::kNamespace:
      return a.object() == b.object();
    case Value::Kind::kFunction:
      return &a.function() == &b.function();
    default:
      return true;  // none and none, undefined and undefined
  }
}

Result<int> Compare(const Value& a, const Value& b, bool case_sensitive) {
  if (a.IsNumeric() && b.IsNumeric()) {
    if (a.Is(Value::Kind::kInteger) && b.Is(Value::Kind::kInteger)) {
      return a.integer() < b.integer() ? -1 : (a.integer() > b.integer() ? 1 : 0);
    }
    return Order(a.AsDouble(), b.AsDouble());
  }
  if (a.IsString() && b.IsString()) {
    const int order = case_sensitive ? a.string().compare(b.string())
                                     : utf8::Lower(a.string()).compare(utf8::Lower(b.string()));
    return order < 0 ? -1 : (order > 0 ? 1 : 0);
  }
  if (a.kind() == b.kind() && (a.IsNone() || a.IsUndefined())) return 0;
  return Error(ErrorCode::kInvalidData, "The template compares " + std::string(a.KindName()) +
                                            " with " + std::string(b.KindName()) +
                                            ", which have no order.");
}

Error Refuse(std::string message) {
  return Error(ErrorCode::kInvalidData, std::move(message));
}

}  // namespace weft::jinja
