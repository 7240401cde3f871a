// Values of a chat template at run time: what a Jinja expression can hold, without any way to the
// host program. Used by one evaluation in one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/jinja/integer.h"
#include "text/jinja/text.h"

namespace weft::jinja {

class Evaluator;
class Value;
struct CallArguments;

// Containers deeper than this are refused when they are made; functions that walk values stop there
// too.
inline constexpr int kMaxValueDepth = 100;

struct ArrayData;
class ObjectData;
struct FunctionData;

class Value {
 public:
  struct Undefined {};
  struct None {};
  enum class Kind {
    kUndefined,
    kNone,
    kBool,
    kInteger,
    kFloat,
    kString,
    kArray,
    kObject,
    kNamespace,
    kFunction
  };

  Value() = default;  // undefined
  static Value MakeNone() { return Value(Data(std::in_place_index<1>)); }
  static Value Bool(bool value) { return Value(Data(std::in_place_index<2>, value)); }
  static Value Integer(Int128 value) { return Value(Data(std::in_place_index<3>, value)); }
  static Value Float(double value) { return Value(Data(std::in_place_index<4>, value)); }
  // Without the evaluator's limits; template code makes strings and containers through Evaluator.
  static Value String(std::string value) { return OfText(Text(std::move(value))); }
  static Value OfText(Text value) {
    return Value(Data(std::in_place_index<5>, std::make_shared<const Text>(std::move(value))));
  }
  static Value Array(std::shared_ptr<ArrayData> value) {
    return Value(Data(std::in_place_index<6>, std::move(value)));
  }
  static Value Object(std::shared_ptr<ObjectData> value) {
    return Value(Data(std::in_place_index<7>, std::move(value)));
  }
  static Value Namespace(std::shared_ptr<ObjectData> value) {
    return Value(Data(std::in_place_index<8>, std::move(value)));
  }
  static Value Function(std::shared_ptr<const FunctionData> value) {
    return Value(Data(std::in_place_index<9>, std::move(value)));
  }

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool Is(Kind kind_asked) const { return kind() == kind_asked; }
  bool IsUndefined() const { return Is(Kind::kUndefined); }
  bool IsNone() const { return Is(Kind::kNone); }
  bool IsString() const { return Is(Kind::kString); }
  bool IsArray() const { return Is(Kind::kArray); }
  bool IsNumber() const { return Is(Kind::kInteger) || Is(Kind::kFloat); }
  // Booleans count as 0 and 1, as in Python.
  bool IsNumeric() const { return IsNumber() || Is(Kind::kBool); }

  // REQUIRES: the kind.
  bool bool_value() const { return std::get<2>(data_); }
  Int128 integer() const { return std::get<3>(data_); }
  double real() const { return std::get<4>(data_); }
  const Text& text() const { return *std::get<5>(data_); }
  const std::string& string() const { return text().bytes(); }
  const std::vector<Value>& items() const;
  const std::shared_ptr<ArrayData>& array() const { return std::get<6>(data_); }
  // Of an object or a namespace.
  const std::shared_ptr<ObjectData>& object() const {
    return Is(Kind::kObject) ? std::get<7>(data_) : std::get<8>(data_);
  }
  const FunctionData& function() const { return *std::get<9>(data_); }

  // Python's iterators give their items once, and have no length.
  bool IsIterator() const;
  // Of numbers without a fraction: booleans count, too.
  bool IsWhole() const { return Is(Kind::kInteger) || Is(Kind::kBool); }

  // REQUIRES: IsNumeric().
  double AsDouble() const;
  // REQUIRES: IsWhole().
  Int128 AsInteger() const { return Is(Kind::kBool) ? Int128{bool_value()} : integer(); }

  bool Truthy() const;
  int depth() const;
  // "a string", "an object", ... for messages.
  std::string_view KindName() const;

 private:
  using Data = std::variant<Undefined, None, bool, Int128, double, std::shared_ptr<const Text>,
                            std::shared_ptr<ArrayData>, std::shared_ptr<ObjectData>,
                            std::shared_ptr<ObjectData>, std::shared_ptr<const FunctionData>>;
  explicit Value(Data data) : data_(std::move(data)) {}
  Data data_;
};

struct ArrayData {
  // What Python has for a row of values. They differ in how they print, in what equals what and in
  // what one may do with them.
  enum class Form {
    kList,
    kTuple,
    kGroup,  // a tuple of two that `groupby` gives: grouper, list
    kIterator,
    kRange,
    kKeys,  // of an object, as its methods give them
    kValues,
    kItems
  };
  std::vector<Value> items;
  int depth = 1;  // 1 + the deepest item at the time it was put in
  Form form = Form::kList;
  std::string range_text;  // how a range prints

  bool IsTuple() const { return form == Form::kTuple || form == Form::kGroup; }
  bool IsView() const {
    return form == Form::kKeys || form == Form::kValues || form == Form::kItems;
  }
};

// Keys keep the order in which they came: strings, or other values in disguise (ObjectKey).
class ObjectData {
 public:
  const Value* Find(std::string_view key) const;
  void Set(std::string_view key, Value value);
  void Erase(std::string_view key);
  const std::vector<std::pair<std::string, Value>>& entries() const { return entries_; }
  size_t count() const { return entries_.size(); }
  void Clear();

  int depth = 1;
  bool has_quoted_keys = false;  // keys as people and tools wrote them

 private:
  static constexpr size_t kNotFound = SIZE_MAX;
  size_t IndexOf(std::string_view key) const;

  std::vector<std::pair<std::string, Value>> entries_;
  std::unordered_map<std::string, size_t> index_;  // once there are more than a few
};

// What can be called: a macro, a method bound to its value, a global function, a loop.
struct FunctionData {
  std::string name;
  std::function<Result<Value>(Evaluator&, const CallArguments&)> call;
  // Its attributes, undefined for an unknown name; empty: it has none.
  std::function<Value(std::string_view)> attribute;
};

inline const std::vector<Value>& Value::items() const {
  return std::get<6>(data_)->items;
}

struct CallArguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // The argument of this name; nullptr when it is not given.
  const Value* Named(std::string_view name) const;
};

// A key as ObjectData holds it, and back: none, booleans, numbers and strings, where numbers that
// are equal are one key, as in Python. Errors: kInvalidData for other kinds.
Result<std::string> ObjectKey(const Value& key);
std::string ObjectKeyOf(std::string_view name);
Value KeyValue(const ObjectData& object, const std::string& key);
// Sets a field whose name may be quoted.
Status SetField(ObjectData& object, const Value& key, Value value);

// Equality of Python: numbers by value, containers by content. Adds what it looked at to `work` and
// gives up, with false, once that is over kMaxEqualWork. Containers that share parts can be
// exponentially large to walk.
inline constexpr uint64_t kMaxEqualWork = 1'000'000;
bool Equal(const Value& a, const Value& b, uint64_t& work);

// -1, 0, 1; kUnordered beside NaN. Lists and tuples are compared item by item. Errors: kInvalidData
// when the two have no order.
inline constexpr int kUnordered = 2;
Result<int> Compare(const Value& a, const Value& b, uint64_t& work);

// What a template did that cannot be: kInvalidData.
Error Refuse(std::string message);

}  // namespace weft::jinja
