// Evaluates the expressions of chat templates. Operators are in operators.cc, filters,
// tests and methods in the files of library.h.
#include "text/jinja/eval.h"
#include "text/jinja/repr.h"
#include "text/utf8.h"

namespace weft::jinja {
namespace {

using ExpressionKind = Expression::Kind;

// Start and length of Python's slice over `count` items: positions start, start + step, ... before
// stop.
struct SliceRange {
  int64_t start;
  int64_t stop;
  int64_t step;
};

std::string Place(const Expression& expression) {
  return "While running line " + std::to_string(expression.line) + " of the chat template";
}

// message.content as the template spells it, as far as it is names.
std::string Spelled(const Expression& expression) {
  if (expression.kind == ExpressionKind::kName) return expression.text;
  if (expression.kind == ExpressionKind::kAttribute) {
    return Spelled(*expression.operands[0]) + "." + expression.text;
  }
  if (expression.kind == ExpressionKind::kIndex) {
    const Expression& index = *expression.operands[1];
    const bool named = index.kind == ExpressionKind::kLiteral && index.literal.IsString();
    return Spelled(*expression.operands[0]) +
           (named ? "['" + index.literal.string() + "']" : "[...]");
  }
  return "(...)";
}

Error NothingInside(const Expression& expression, const std::string& what) {
  return Refuse("The chat template asks for " + what + " of " + Spelled(*expression.operands[0]) +
                ", which is undefined.")
      .Context(Place(expression));
}

SliceRange ClampSlice(const std::optional<int64_t>& start, const std::optional<int64_t>& stop,
                      int64_t step, int64_t count) {
  const bool forward = step > 0;
  const int64_t lowest = forward ? 0 : -1;
  const int64_t highest = forward ? count : count - 1;
  const auto clamp = [&](const std::optional<int64_t>& at, int64_t fallback) {
    if (!at) return fallback;
    const int64_t from_front = *at < 0 ? (*at < -count ? lowest : *at + count) : *at;
    return std::clamp(from_front, lowest, highest);
  };
  return {clamp(start, forward ? 0 : highest), clamp(stop, forward ? count : lowest), step};
}

// Where the characters of `text` begin, and its end.
std::vector<size_t> Boundaries(std::string_view text) {
  std::vector<size_t> boundaries;
  for (size_t at = 0; at < text.size(); at += utf8::LengthOf(text[at])) boundaries.push_back(at);
  boundaries.push_back(text.size());
  return boundaries;
}

Text SliceText(const Text& text, const std::optional<int64_t>& start,
               const std::optional<int64_t>& stop, int64_t step) {
  const auto boundaries = Boundaries(text.bytes());
  const auto count = static_cast<int64_t>(boundaries.size()) - 1;
  const SliceRange range = ClampSlice(start, stop, step, count);
  const auto at = [&](int64_t i) { return boundaries[static_cast<size_t>(i)]; };
  if (step == 1) {
    if (range.start >= range.stop) return {};
    return text.Part(at(range.start), at(range.stop));
  }
  Text slice;
  for (int64_t i = range.start; step > 0 ? i < range.stop : i > range.stop;) {
    slice.AppendPart(text, at(i), at(i + 1));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return slice;
}

}  // namespace

Result<Value> Evaluator::Evaluate(const Expression& expression) {
  TRY(Charge(1));
  if (++depth_ > limits_.depth) {
    --depth_;
    return Refuse("The chat template nests expressions and calls more than " +
                  std::to_string(limits_.depth) + " levels deep.");
  }
  Result<Value> value = EvaluateInner(expression);
  --depth_;
  return value;
}

Result<Value> Evaluator::EvaluateInner(const Expression& expression) {
  switch (expression.kind) {
    case ExpressionKind::kLiteral:
      return expression.literal;
    case ExpressionKind::kName: {
      const Value* value = scope_->Find(expression.text);
      return value == nullptr ? Value() : *value;
    }
    case ExpressionKind::kArray:
    case ExpressionKind::kTuple: {
      std::vector<Value> items;
      for (const ExpressionPtr& operand : expression.operands) {
        ASSIGN_OR_RETURN(Value item, Evaluate(*operand));
        items.push_back(std::move(item));
      }
      return MakeArray(std::move(items), expression.kind == ExpressionKind::kTuple
                                             ? ArrayData::Form::kTuple
                                             : ArrayData::Form::kList);
    }
    case ExpressionKind::kObject:
      return EvaluateObject(expression);
    case ExpressionKind::kAttribute: {
      ASSIGN_OR_RETURN(const Value operand, Evaluate(*expression.operands[0]));
      if (operand.IsUndefined()) return NothingInside(expression, "'" + expression.text + "'");
      return Attribute(operand, expression.text);
    }
    case ExpressionKind::kIndex: {
      ASSIGN_OR_RETURN(const Value operand, Evaluate(*expression.operands[0]));
      ASSIGN_OR_RETURN(const Value index, Evaluate(*expression.operands[1]));
      if (operand.IsUndefined()) return NothingInside(expression, "an item");
      return Index(operand, index);
    }
    case ExpressionKind::kSlice:
      return EvaluateSlice(expression);
    case ExpressionKind::kCall:
      return EvaluateCall(expression, nullptr);
    case ExpressionKind::kFilter: {
      ASSIGN_OR_RETURN(const Value operand, Evaluate(*expression.operands[0]));
      ASSIGN_OR_RETURN(const CallArguments arguments, EvaluateArguments(expression.arguments));
      return Filter(expression.text, operand, arguments).Context(Place(expression));
    }
    case ExpressionKind::kTest: {
      ASSIGN_OR_RETURN(const Value operand, Evaluate(*expression.operands[0]));
      ASSIGN_OR_RETURN(const CallArguments arguments, EvaluateArguments(expression.arguments));
      auto passed = Test(expression.text, operand, arguments);
      if (!passed.ok()) return std::move(passed).error().Context(Place(expression));
      return Value::Bool(*passed);
    }
    case ExpressionKind::kNot: {
      ASSIGN_OR_RETURN(const Value operand, Evaluate(*expression.operands[0]));
      return Value::Bool(!operand.Truthy());
    }
    case ExpressionKind::kNegative:
    case ExpressionKind::kPositive:
      return EvaluateSign(expression);
    case ExpressionKind::kBinary:
      return EvaluateBinary(expression);
    case ExpressionKind::kConcatenation:
      return EvaluateConcatenation(expression);
    case ExpressionKind::kComparison:
      return EvaluateComparison(expression);
    case ExpressionKind::kConditional: {
      ASSIGN_OR_RETURN(const Value condition, Evaluate(*expression.operands[1]));
      if (condition.Truthy()) return Evaluate(*expression.operands[0]);
      return expression.operands[2] ? Evaluate(*expression.operands[2]) : Value();
    }
  }
  return Value();
}

Result<Value> Evaluator::EvaluateObject(const Expression& expression) {
  auto object = std::make_shared<ObjectData>();
  for (size_t i = 0; i + 1 < expression.operands.size(); i += 2) {
    ASSIGN_OR_RETURN(const Value key, Evaluate(*expression.operands[i]));
    ASSIGN_OR_RETURN(Value value, Evaluate(*expression.operands[i + 1]));
    TRY(SetField(*object, key, std::move(value)));
  }
  return MakeObject(std::move(object));
}

Result<Value> Evaluator::EvaluateSign(const Expression& expression) {
  ASSIGN_OR_RETURN(const Value operand, Evaluate(*expression.operands[0]));
  if (!operand.IsNumeric()) {
    return Refuse("The chat template puts a sign before " + std::string(operand.KindName()) + ".")
        .Context(Place(expression));
  }
  const bool negative = expression.kind == ExpressionKind::kNegative;
  if (operand.Is(Value::Kind::kFloat)) {
    return Value::Float(negative ? -operand.real() : operand.real());
  }
  const Int128 value = operand.AsInteger();
  if (!negative) return Value::Integer(value);
  if (value == kMinInteger) return Refuse("The chat template computes an integer beyond 128 bits.");
  return Value::Integer(-value);
}

Result<Value> Evaluator::EvaluateSlice(const Expression& expression) {
  ASSIGN_OR_RETURN(const Value operand, Evaluate(*expression.operands[0]));
  std::optional<int64_t> bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (!expression.operands[i + 1]) continue;
    ASSIGN_OR_RETURN(const Value bound, Evaluate(*expression.operands[i + 1]));
    if (bound.IsNone()) continue;
    if (!bound.IsWhole()) {
      return Refuse("The chat template slices with " + std::string(bound.KindName()) + ".")
          .Context(Place(expression));
    }
    bounds[i] = Clamped(bound.AsInteger());
  }
  const int64_t step = bounds[2].value_or(1);
  if (step == 0) return Refuse("The chat template slices with a step of 0.");
  TRY(ChargeFor(operand));
  const auto visit = [&](size_t count, const auto& take) {
    const SliceRange range = ClampSlice(bounds[0], bounds[1], step, static_cast<int64_t>(count));
    for (int64_t i = range.start; step > 0 ? i < range.stop : i > range.stop;) {
      take(static_cast<size_t>(i));
      if (__builtin_add_overflow(i, step, &i)) break;
    }
  };
  if (operand.IsArray() && !operand.IsIterator() && !operand.array()->IsView()) {
    std::vector<Value> items;
    visit(operand.items().size(), [&](size_t i) { items.push_back(operand.items()[i]); });
    const bool tuple = operand.array()->IsTuple();
    return MakeArray(std::move(items), tuple ? ArrayData::Form::kTuple : ArrayData::Form::kList);
  }
  if (operand.IsString()) {
    TRY(Charge(operand.string().size()));
    return MakeString(SliceText(operand.text(), bounds[0], bounds[1], step));
  }
  if (operand.IsUndefined()) return NothingInside(expression, "a part");
  return Value();
}

Result<CallArguments> Evaluator::EvaluateArguments(const Arguments& arguments) {
  CallArguments values;
  for (const ExpressionPtr& argument : arguments.positional) {
    ASSIGN_OR_RETURN(Value value, Evaluate(*argument));
    values.positional.push_back(std::move(value));
  }
  if (arguments.spread) {
    ASSIGN_OR_RETURN(const Value spread, Evaluate(*arguments.spread));
    ASSIGN_OR_RETURN(const std::vector<Value> items, IterableItems(*this, spread));
    values.positional.insert(values.positional.end(), items.begin(), items.end());
  }
  for (const auto& [name, argument] : arguments.named) {
    ASSIGN_OR_RETURN(Value value, Evaluate(*argument));
    values.named.emplace_back(name, std::move(value));
  }
  if (arguments.named_spread) {
    ASSIGN_OR_RETURN(const Value spread, Evaluate(*arguments.named_spread));
    if (!spread.Is(Value::Kind::kObject)) {
      return Refuse("The chat template spreads " + std::string(spread.KindName()) +
                    " as named arguments.");
    }
    for (const auto& entry : spread.object()->entries()) values.named.push_back(entry);
  }
  return values;
}

Result<Value> Evaluator::Call(const Value& function, const CallArguments& arguments) {
  if (!function.Is(Value::Kind::kFunction)) {
    return Refuse("The chat template calls " + std::string(function.KindName()) +
                  ", which is no function.");
  }
  return function.function().call(*this, arguments);
}

Result<Value> Evaluator::EvaluateCall(const Expression& expression, const Value* caller) {
  const Expression& callee = *expression.operands[0];
  // A method is called at once: most calls of templates are, and no function need be made for them.
  if (callee.kind == ExpressionKind::kAttribute) {
    ASSIGN_OR_RETURN(const Value self, Evaluate(*callee.operands[0]));
    if (self.IsUndefined()) return NothingInside(callee, "'" + callee.text + "()'");
    if (const MethodEntry* method = names_.find_method(self, callee.text)) {
      ASSIGN_OR_RETURN(const CallArguments arguments, EvaluateArguments(expression.arguments));
      return RunMethod(*method, self, arguments).Context(Place(expression));
    }
    ASSIGN_OR_RETURN(const Value function, Attribute(self, callee.text));
    if (function.IsUndefined()) {
      return Refuse("The chat template calls the method " + callee.text + " of " +
                    std::string(self.KindName()) + ", which has none of that name.")
          .Context(Place(expression));
    }
    return CallWith(expression, function, caller);
  }
  ASSIGN_OR_RETURN(const Value function, Evaluate(callee));
  if (function.IsUndefined()) {
    return Refuse("The chat template calls " + Spelled(callee) + ", which is not defined.")
        .Context(Place(expression));
  }
  return CallWith(expression, function, caller);
}

Result<Value> Evaluator::CallWith(const Expression& expression, const Value& function,
                                  const Value* caller) {
  ASSIGN_OR_RETURN(CallArguments arguments, EvaluateArguments(expression.arguments));
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  return Call(function, arguments).Context(Place(expression));
}

Result<Value> Evaluator::RunMethod(const MethodEntry& method, const Value& self,
                                   const CallArguments& arguments) {
  TRY(ChargeFor(self));
  ASSIGN_OR_RETURN(const Given given, BindArguments(method.name, method.parameters, arguments));
  return method.run(*this, self, given);
}

Result<Value> Evaluator::EvaluateBinary(const Expression& expression) {
  ASSIGN_OR_RETURN(const Value left, Evaluate(*expression.operands[0]));
  if (expression.text == "and") {
    return left.Truthy() ? Evaluate(*expression.operands[1]) : left;
  }
  if (expression.text == "or") {
    return left.Truthy() ? left : Evaluate(*expression.operands[1]);
  }
  ASSIGN_OR_RETURN(const Value right, Evaluate(*expression.operands[1]));
  return BinaryOperation(*this, expression.text, left, right).Context(Place(expression));
}

Result<Value> Evaluator::EvaluateConcatenation(const Expression& expression) {
  Text text;
  for (const ExpressionPtr& operand : expression.operands) {
    ASSIGN_OR_RETURN(const Value value, Evaluate(*operand));
    if (value.IsString()) {
      text.Append(value.text());
    } else {
      TRY(ChargeFor(value));
      ASSIGN_OR_RETURN(const Text part, ToText(value));
      text.Append(part);
    }
    if (text.size() > limits_.text_bytes) break;
  }
  return MakeString(std::move(text));
}

Result<Value> Evaluator::EvaluateComparison(const Expression& expression) {
  ASSIGN_OR_RETURN(Value left, Evaluate(*expression.operands[0]));
  for (size_t i = 0; i < expression.comparators.size(); ++i) {
    ASSIGN_OR_RETURN(Value right, Evaluate(*expression.operands[i + 1]));
    auto holds = CompareOperation(*this, expression.comparators[i], left, right);
    if (!holds.ok()) {
      return std::move(holds).error().Context(Place(expression));
    }
    if (!*holds) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Result<Value> Evaluator::Filter(const std::string& name, const Value& operand,
                                const CallArguments& arguments) {
  const FilterEntry* filter = names_.find_filter(name);
  if (filter == nullptr) return Refuse("The chat template uses the unknown filter " + name + ".");
  TRY(ChargeFor(operand));
  ASSIGN_OR_RETURN(const Given given, BindArguments(name, filter->parameters, arguments));
  return filter->run(*this, operand, given);
}

Result<bool> Evaluator::Test(const std::string& name, const Value& operand,
                             const CallArguments& arguments) {
  const TestEntry* test = names_.find_test(name);
  if (test == nullptr) return Refuse("The chat template uses the unknown test " + name + ".");
  ASSIGN_OR_RETURN(const Given given, BindArguments(name, test->parameters, arguments));
  return test->run(*this, operand, given);
}

Result<std::optional<Value>> Evaluator::AttributeAlone(const Value& operand,
                                                       const std::string& name) {
  std::optional<Value> attribute;
  if (operand.IsUndefined()) {
    return Refuse("The chat template asks for '" + name + "' of an undefined value.");
  }
  if (operand.Is(Value::Kind::kNamespace)) {
    if (const Value* field = operand.object()->Find(name)) attribute = *field;
    return attribute;
  }
  if (operand.Is(Value::Kind::kFunction)) {
    if (!operand.function().attribute) return attribute;
    Value value = operand.function().attribute(name);
    if (!value.IsUndefined()) attribute = std::move(value);
    return attribute;
  }
  if (operand.IsArray() && operand.array()->form == ArrayData::Form::kGroup) {
    if (name == "grouper") attribute = operand.items()[0];
    if (name == "list") attribute = operand.items()[1];
    if (attribute) return attribute;
  }
  const MethodEntry* method = names_.find_method(operand, name);
  if (method == nullptr) return attribute;
  auto function = std::make_shared<FunctionData>();
  function->name = name;
  function->call = [operand, method](Evaluator& evaluator, const CallArguments& arguments) {
    return evaluator.RunMethod(*method, operand, arguments);
  };
  attribute = Value::Function(std::move(function));
  return attribute;
}

Result<Value> Evaluator::Attribute(const Value& operand, const std::string& name) {
  ASSIGN_OR_RETURN(std::optional<Value> attribute, AttributeAlone(operand, name));
  if (attribute) return std::move(*attribute);
  if (!operand.Is(Value::Kind::kObject)) return Value();
  const Value* field = operand.object()->Find(ObjectKeyOf(name));
  return field == nullptr ? Value() : *field;
}

Result<Value> Evaluator::Index(const Value& operand, const Value& index) {
  if (operand.IsUndefined()) return Refuse("The chat template asks for an item of an undefined.");
  if (operand.Is(Value::Kind::kObject)) {
    const auto key = ObjectKey(index);
    const Value* field = key.ok() ? operand.object()->Find(*key) : nullptr;
    if (field != nullptr) return *field;
  }
  if (index.IsString()) {
    ASSIGN_OR_RETURN(std::optional<Value> attribute, AttributeAlone(operand, index.string()));
    return attribute ? std::move(*attribute) : Value();
  }
  if (!index.IsWhole()) return Value();
  int64_t at = Clamped(index.AsInteger());
  if (operand.IsArray()) {
    if (operand.IsIterator() || operand.array()->IsView()) return Value();
    const auto count = static_cast<int64_t>(operand.items().size());
    if (at < 0) at += count;
    return at >= 0 && at < count ? operand.items()[static_cast<size_t>(at)] : Value();
  }
  if (!operand.IsString()) return Value();
  TRY(Charge(operand.string().size() / 4));
  const auto boundaries = Boundaries(operand.string());
  const auto count = static_cast<int64_t>(boundaries.size()) - 1;
  if (at < 0) at += count;
  if (at < 0 || at >= count) return Value();
  const auto character = static_cast<size_t>(at);
  return MakeString(operand.text().Part(boundaries[character], boundaries[character + 1]));
}

}  // namespace weft::jinja
