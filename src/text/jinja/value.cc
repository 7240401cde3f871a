#include "text/jinja/value.h"

#include <algorithm>

#include "text/jinja/python_text.h"

namespace weft::jinja {
namespace {

// Objects with fewer keys are searched one by one.
constexpr size_t kIndexedKeys = 8;
// Before a letter and the spelling of a key that is no string. A string that starts so is disguised
// itself.
constexpr char kDisguise = '\x01';

template <typename T>
int Order(T a, T b) {
  if (a < b) return -1;
  if (a > b) return 1;
  return a == b ? 0 : kUnordered;  // NaN
}

// A list equals no tuple, and an iterator only itself.
bool SameForm(const ArrayData& a, const ArrayData& b) {
  if (a.form == ArrayData::Form::kIterator || a.form == ArrayData::Form::kValues) return false;
  return a.form == b.form || (a.IsTuple() && b.IsTuple());
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

bool Value::IsIterator() const {
  return IsArray() && array()->form == ArrayData::Form::kIterator;
}

double Value::AsDouble() const {
  if (Is(Kind::kBool)) return bool_value() ? 1 : 0;
  return Is(Kind::kInteger) ? static_cast<double>(integer()) : real();
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
      return IsIterator() || !items().empty();
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

const Value* CallArguments::Named(std::string_view name) const {
  for (const auto& [key, value] : named) {
    if (key == name) return &value;
  }
  return nullptr;
}

std::string ObjectKeyOf(std::string_view name) {
  std::string key(name);
  if (!key.empty() && key[0] == kDisguise) key.insert(0, {kDisguise, 's'});
  return key;
}

Result<std::string> ObjectKey(const Value& key) {
  switch (key.kind()) {
    case Value::Kind::kString:
      return ObjectKeyOf(key.string());
    case Value::Kind::kNone:
      return std::string{kDisguise, 'n'};
    case Value::Kind::kBool:
    case Value::Kind::kInteger:
      return std::string{kDisguise, 'i'} + DigitsOf(key.AsInteger());
    case Value::Kind::kFloat: {
      const auto whole = IntegerOf(key.real());
      if (whole && static_cast<double>(*whole) == key.real()) {
        return std::string{kDisguise, 'i'} + DigitsOf(*whole);
      }
      return std::string{kDisguise, 'f'} + python::FloatText(key.real());
    }
    default:
      return Error(ErrorCode::kInvalidData,
                   "The chat template has an object whose key is " + std::string(key.KindName()) +
                       ", but keys must be strings, numbers, booleans or none.");
  }
}

Value KeyValue(const ObjectData& object, const std::string& key) {
  if (key.size() < 2 || key[0] != kDisguise) {
    return Value::OfText(Text(key, object.has_quoted_keys));
  }
  const std::string_view rest = std::string_view(key).substr(2);
  switch (key[1]) {
    case 'n':
      return Value::MakeNone();
    case 'i': {
      const bool negative = rest.starts_with('-');
      const Int128 size = ParseDigits(rest.substr(negative ? 1 : 0), 10).value_or(0);
      return Value::Integer(negative ? -size : size);
    }
    case 'f':
      return Value::Float(python::ParseFloat(rest).value_or(0));
    default:
      return Value::OfText(Text(std::string(rest), object.has_quoted_keys));
  }
}

Status SetField(ObjectData& object, const Value& key, Value value) {
  ASSIGN_OR_RETURN(const std::string name, ObjectKey(key));
  if (key.IsString() && key.text().has_quoted()) object.has_quoted_keys = true;
  object.Set(name, std::move(value));
  return OkStatus();
}

bool Equal(const Value& a, const Value& b, uint64_t& work) {
  if (++work > kMaxEqualWork) return false;
  if (a.IsNumeric() && b.IsNumeric()) {
    if (a.IsWhole() && b.IsWhole()) return a.AsInteger() == b.AsInteger();
    return a.AsDouble() == b.AsDouble();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Value::Kind::kString:
      work += a.string().size() / 64;
      return a.string() == b.string();
    case Value::Kind::kArray:
      if (a.array() == b.array()) return true;
      return SameForm(*a.array(), *b.array()) && EqualArrays(a.items(), b.items(), work);
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

Result<int> Compare(const Value& a, const Value& b, uint64_t& work) {
  ++work;
  if (a.IsNumeric() && b.IsNumeric()) {
    if (a.IsWhole() && b.IsWhole()) return Order(a.AsInteger(), b.AsInteger());
    return Order(a.AsDouble(), b.AsDouble());
  }
  if (a.IsString() && b.IsString()) {
    work += std::min(a.string().size(), b.string().size()) / 64;
    return Order(a.string().compare(b.string()), 0);
  }
  if (a.IsArray() && b.IsArray() && SameForm(*a.array(), *b.array()) &&
      (a.array()->form == ArrayData::Form::kList || a.array()->IsTuple())) {
    const size_t shared = std::min(a.items().size(), b.items().size());
    for (size_t i = 0; i < shared && work <= kMaxEqualWork; ++i) {
      if (Equal(a.items()[i], b.items()[i], work)) continue;
      return Compare(a.items()[i], b.items()[i], work);
    }
    return Order(a.items().size(), b.items().size());
  }
  return Error(ErrorCode::kInvalidData, "The chat template compares " + std::string(a.KindName()) +
                                            " with " + std::string(b.KindName()) +
                                            ", which have no order.");
}

Error Refuse(std::string message) {
  return Error(ErrorCode::kInvalidData, std::move(message));
}

}  // namespace weft::jinja
