// Tests of chat templates: `value is name`.
#include "text/jinja/library.h"
#include "text/jinja/python_text.h"
#include "text/jinja/repr.h"
#include "text/utf8.h"

namespace weft::jinja {
namespace {

using ValueKind = Value::Kind;

template <ValueKind... kKinds>
Result<bool> IsKind(Evaluator&, const Value& value, const Given&) {
  return (value.Is(kKinds) || ...);
}

template <bool kWanted>
Result<bool> IsBoolean(Evaluator&, const Value& value, const Given&) {
  return value.Is(ValueKind::kBool) && value.bool_value() == kWanted;
}

Result<bool> IsDefined(Evaluator&, const Value& value, const Given&) {
  return !value.IsUndefined();
}

constexpr char kLess[] = "<", kLessOrEqual[] = "<=", kGreater[] = ">",
               kGreaterOrEqual[] = ">=", kEqual[] = "==", kNotEqual[] = "!=", kIn[] = "in";

template <const char* kSymbol>
Result<bool> Compares(Evaluator& evaluator, const Value& value, const Given& given) {
  return CompareOperation(evaluator, kSymbol, value, *given[0]);
}

// Python's `is`: containers are themselves alone, and 1 is not 1.0.
Result<bool> IsSame(Evaluator&, const Value& value, const Given& given) {
  const Value& other = *given[0];
  if (value.kind() != other.kind()) return false;
  switch (value.kind()) {
    case ValueKind::kBool:
      return value.bool_value() == other.bool_value();
    case ValueKind::kInteger:
      return value.integer() == other.integer();
    case ValueKind::kFloat:
      return value.real() == other.real();
    case ValueKind::kString:
      return value.string() == other.string();
    case ValueKind::kArray:
      return value.array() == other.array() ||
             (value.array()->IsTuple() && other.array()->IsTuple() && value.items().empty() &&
              other.items().empty());
    case ValueKind::kObject:
    case ValueKind::kNamespace:
      return value.object() == other.object();
    case ValueKind::kFunction:
      return &value.function() == &other.function();
    default:
      return true;
  }
}

Result<Value> Remainder(Evaluator& evaluator, const Value& value, const Value& divisor) {
  if (!value.IsNumeric()) {
    return Refuse("The chat template asks for the remainder of " + std::string(value.KindName()) +
                  ".");
  }
  return BinaryOperation(evaluator, "%", value, divisor);
}

Result<bool> IsDivisibleBy(Evaluator& evaluator, const Value& value, const Given& given) {
  ASSIGN_OR_RETURN(const Value rest, Remainder(evaluator, value, *given[0]));
  return !rest.Truthy();
}

template <int kRemainder>
Result<bool> IsParity(Evaluator& evaluator, const Value& value, const Given&) {
  ASSIGN_OR_RETURN(const Value rest, Remainder(evaluator, value, Value::Integer(2)));
  return rest.AsDouble() == kRemainder;
}

// All letters that have a case are of this one, and there is one.
template <bool (*kWanted)(uint32_t)>
Result<bool> HasCase(Evaluator&, const Value& value, const Given&) {
  ASSIGN_OR_RETURN(const Text text, ToText(value));
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    const uint32_t c = utf8::Next(text.bytes(), at);
    if (!python::IsCased(c)) continue;
    if (!kWanted(c)) return false;
    any = true;
  }
  return any;
}

Result<bool> IsFilterName(Evaluator&, const Value& value, const Given&) {
  return value.IsString() && FindFilter(value.string()) != nullptr;
}

Result<bool> IsTestName(Evaluator&, const Value& value, const Given&) {
  return value.IsString() && FindTest(value.string()) != nullptr;
}

Result<bool> IsSequence(Evaluator&, const Value& value, const Given&) {
  if (value.IsArray()) return !value.IsIterator() && !value.array()->IsView();
  return value.IsString() || value.Is(ValueKind::kObject) || value.IsUndefined();
}

Result<bool> IsEscaped(Evaluator&, const Value& value, const Given&) {
  return value.IsString() && value.text().is_markup();
}

constexpr TestEntry kTests[] = {
    {"boolean", "", IsKind<ValueKind::kBool>},
    {"callable", "", IsKind<ValueKind::kFunction, ValueKind::kUndefined>},
    {"defined", "", IsDefined},
    {"undefined", "", IsKind<ValueKind::kUndefined>},
    {"divisibleby", "!num", IsDivisibleBy},
    {"==", "/!b", Compares<kEqual>},
    {"eq", "/!b", Compares<kEqual>},
    {"equalto", "/!b", Compares<kEqual>},
    {"sameas", "!other", IsSame},
    {"!=", "/!b", Compares<kNotEqual>},
    {"ne", "/!b", Compares<kNotEqual>},
    {"<", "/!b", Compares<kLess>},
    {"lt", "/!b", Compares<kLess>},
    {"lessthan", "/!b", Compares<kLess>},
    {"<=", "/!b", Compares<kLessOrEqual>},
    {"le", "/!b", Compares<kLessOrEqual>},
    {">", "/!b", Compares<kGreater>},
    {"gt", "/!b", Compares<kGreater>},
    {"greaterthan", "/!b", Compares<kGreater>},
    {">=", "/!b", Compares<kGreaterOrEqual>},
    {"ge", "/!b", Compares<kGreaterOrEqual>},
    {"in", "!seq", Compares<kIn>},
    {"even", "", IsParity<0>},
    {"odd", "", IsParity<1>},
    {"true", "", IsBoolean<true>},
    {"false", "", IsBoolean<false>},
    {"none", "", IsKind<ValueKind::kNone>},
    {"string", "", IsKind<ValueKind::kString>},
    {"number", "", IsKind<ValueKind::kBool, ValueKind::kInteger, ValueKind::kFloat>},
    {"integer", "", IsKind<ValueKind::kInteger>},
    {"float", "", IsKind<ValueKind::kFloat>},
    {"iterable", "",
     IsKind<ValueKind::kArray, ValueKind::kString, ValueKind::kObject, ValueKind::kUndefined>},
    {"sequence", "", IsSequence},
    {"mapping", "", IsKind<ValueKind::kObject>},
    {"lower", "", HasCase<python::IsLower>},
    {"upper", "", HasCase<python::IsUpper>},
    {"escaped", "", IsEscaped},
    {"filter", "", IsFilterName},
    {"test", "", IsTestName}};

}  // namespace

const TestEntry* FindTest(std::string_view name) {
  return FindIn(kTests, name);
}

}  // namespace weft::jinja
