// Tests of chat templates: `value is name`.
#include "text/jinja/library.h"
#include "text/utf8.h"

namespace weft::jinja {
namespace {

using ValueKind = Value::Kind;

template <ValueKind... kKinds>
Result<bool> IsKind(Evaluator&, const Value& value, const CallArguments&) {
  return (value.Is(kKinds) || ...);
}

template <bool kWanted>
Result<bool> IsBoolean(Evaluator&, const Value& value, const CallArguments&) {
  return value.Is(ValueKind::kBool) && value.bool_value() == kWanted;
}

Result<bool> IsDefined(Evaluator&, const Value& value, const CallArguments&) {
  return !value.IsUndefined();
}

// -1 where the two have no order.
template <int kLowest, int kHighest>
Result<bool> IsOrdered(Evaluator&, const Value& value, const CallArguments& arguments) {
  const Value* other = arguments.Get(0, "other");
  if (other == nullptr) return Refuse("A comparing test of the chat template needs a value.");
  ASSIGN_OR_RETURN(const int order, Compare(value, *other, true));
  return order >= kLowest && order <= kHighest;
}

template <bool kWanted>
Result<bool> IsEqual(Evaluator& evaluator, const Value& value, const CallArguments& arguments) {
  const Value* other = arguments.Get(0, "other");
  if (other == nullptr) return Refuse("The test 'eq' of the chat template needs a value.");
  ASSIGN_OR_RETURN(const bool same, evaluator.Same(value, *other));
  return same == kWanted;
}

Result<bool> IsIn(Evaluator& evaluator, const Value& value, const CallArguments& arguments) {
  const Value* container = arguments.Get(0, "seq");
  if (container == nullptr) return Refuse("The test 'in' of the chat template needs a container.");
  return CompareOperation(evaluator, "in", value, *container);
}

Result<bool> IsDivisibleBy(Evaluator&, const Value& value, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const int64_t divisor,
                   IntegerArgument(arguments, 0, "num", 0, "The test 'divisibleby'"));
  if (divisor == 0 || !value.Is(ValueKind::kInteger)) {
    return Refuse("The test 'divisibleby' of the chat template needs integers, and not 0.");
  }
  return divisor == -1 || value.integer() % divisor == 0;
}

template <int kRemainder>
Result<bool> IsParity(Evaluator&, const Value& value, const CallArguments&) {
  if (!value.Is(ValueKind::kInteger)) {
    return Refuse("The chat template asks whether " + std::string(value.KindName()) +
                  " is odd or even.");
  }
  return (value.integer() & 1) == kRemainder;
}

Result<bool> IsLower(Evaluator&, const Value& value, const CallArguments&) {
  return value.IsString() && value.string() == utf8::Lower(value.string());
}

Result<bool> IsUpper(Evaluator&, const Value& value, const CallArguments&) {
  return value.IsString() && value.string() == utf8::Upper(value.string());
}

Result<bool> IsFilterName(Evaluator&, const Value& value, const CallArguments&) {
  return value.IsString() && FindFilter(value.string()) != nullptr;
}

Result<bool> IsTestName(Evaluator&, const Value& value, const CallArguments&) {
  return value.IsString() && FindTest(value.string()) != nullptr;
}

constexpr std::pair<std::string_view, TestFunction> kTests[] = {
    {"boolean", IsKind<ValueKind::kBool>},
    {"callable", IsKind<ValueKind::kFunction>},
    {"defined", IsDefined},
    {"undefined", IsKind<ValueKind::kUndefined>},
    {"divisibleby", IsDivisibleBy},
    {"eq", IsEqual<true>},
    {"equalto", IsEqual<true>},
    {"sameas", IsEqual<true>},
    {"ne", IsEqual<false>},
    {"lt", IsOrdered<-1, -1>},
    {"lessthan", IsOrdered<-1, -1>},
    {"le", IsOrdered<-1, 0>},
    {"gt", IsOrdered<1, 1>},
    {"greaterthan", IsOrdered<1, 1>},
    {"ge", IsOrdered<0, 1>},
    {"even", IsParity<0>},
    {"odd", IsParity<1>},
    {"true", IsBoolean<true>},
    {"false", IsBoolean<false>},
    {"none", IsKind<ValueKind::kNone>},
    {"string", IsKind<ValueKind::kString>},
    {"number", IsKind<ValueKind::kInteger, ValueKind::kFloat>},
    {"integer", IsKind<ValueKind::kInteger>},
    {"float", IsKind<ValueKind::kFloat>},
    {"iterable", IsKind<ValueKind::kArray, ValueKind::kString, ValueKind::kObject>},
    {"sequence", IsKind<ValueKind::kArray, ValueKind::kString, ValueKind::kObject>},
    {"mapping", IsKind<ValueKind::kObject>},
    {"in", IsIn},
    {"lower", IsLower},
    {"upper", IsUpper},
    {"filter", IsFilterName},
    {"test", IsTestName}};

}  // namespace

TestFunction FindTest(std::string_view name) {
  for (const auto& [known, test] : kTests) {
    if (known == name) return test;
  }
  return nullptr;
}

}  // namespace weft::jinja
