// Evaluates the expressions of chat templates. Operators are in operators.cc, filters,
// tests and methods in the files of library.h.
#include "text/jinja/eval.h"
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

std::vector<std::string_view> Characters(std::string_view text) {
  std::vector<std::string_view> characters;
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8::LengthOf(text[at]);
    characters.push_back(text.substr(at, length));
    at += length;
  }
  return characters;
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
      return MakeArray(std::move(items));
    }
    case ExpressionKind::kObject:
      return EvaluateObject(expression);
    case ExpressionKind::kAttribute: {
      ASSIGN_OR_RETURN(const Value operand, Evaluate(*expression.operands[0]));
      return Attribute(operand, expression.text);
    }
    case ExpressionKind::kIndex: {
      ASSIGN_OR_RETURN(const Value operand, Evaluate(*expression.operands[0]));
      ASSIGN_OR_RETURN(const Value index, Evaluate(*expression.operands[1]));
      return Index(operand, index);
    }
    case ExpressionKind::kSlice:
      return EvaluateSlice(expression);
    case ExpressionKind::kCall:
      return EvaluateCall(expression, nullptr);
    case ExpressionKind::kFilter: {
      ASSIGN_OR_RETURN(const Value operand, Evaluate(*expression.operands[0]));
      ASSIGN_OR_RETURN(const CallArguments arguments, EvaluateArguments(expression.arguments));
      return Filter(expression.text, operand, arguments)
          .Context("While running line " + std::to_string(expression.line) +
                   " of the chat template");
    }
    case ExpressionKind::kTest: {
      ASSIGN_OR_RETURN(const Value operand, Evaluate(*expression.operands[0]));
      ASSIGN_OR_RETURN(const CallArguments arguments, EvaluateArguments(expression.arguments));
      ASSIGN_OR_RETURN(const bool passed, Test(expression.text, operand, arguments));
      return Value::Bool(passed);
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
    ASSIGN_OR_RETURN(const std::string name, ObjectKey(key));
    object->Set(name, std::move(value));
  }
  return MakeObject(std::move(object));
}

Result<Value> Evaluator::EvaluateSign(const Expression& expression) {
  ASSIGN_OR_RETURN(const Value operand, Evaluate(*expression.operands[0]));
  if (!operand.IsNumeric()) {
    return Refuse("The chat template puts a sign before " + std::string(operand.KindName()) + ".");
  }
  const bool negative = expression.kind == ExpressionKind::kNegative;
  if (operand.Is(Value::Kind::kFloat)) {
    return Value::Float(negative ? -operand.real() : operand.real());
  }
  const int64_t value = operand.AsInteger();
  if (!negative) return Value::Integer(value);
  if (value == INT64_MIN) return Refuse("The chat template computes an integer beyond 64 bits.");
  return Value::Integer(-value);
}

Result<Value> Evaluator::EvaluateSlice(const Expression& expression) {
  ASSIGN_OR_RETURN(const Value operand, Evaluate(*expression.operands[0]));
  std::optional<int64_t> bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (!expression.operands[i + 1]) continue;
    ASSIGN_OR_RETURN(const Value bound, Evaluate(*expression.operands[i + 1]));
    if (bound.IsNone() || bound.IsUndefined()) continue;
    if (!bound.Is(Value::Kind::kInteger)) {
      return Refuse("The chat template slices with " + std::string(bound.KindName()) + ".");
    }
    bounds[i] = bound.integer();
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
  if (operand.IsArray()) {
    std::vector<Value> items;
    visit(operand.items().size(), [&](size_t i) { items.push_back(operand.items()[i]); });
    return MakeArray(std::move(items));
  }
  if (operand.IsString()) {
    TRY(Charge(operand.string().size()));
    const auto characters = Characters(operand.string());
    std::string text;
    visit(characters.size(), [&](size_t i) { text += characters[i]; });
    return MakeString(std::move(text));
  }
  return Refuse("The chat template slices " + std::string(operand.KindName()) + ".");
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
  ASSIGN_OR_RETURN(CallArguments arguments, EvaluateArguments(expression.arguments));
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  const std::string place =
      "While running line " + std::to_string(expression.line) + " of the chat template";
  if (callee.kind != ExpressionKind::kAttribute) {
    ASSIGN_OR_RETURN(const Value function, Evaluate(callee));
    if (function.IsUndefined() && callee.kind == ExpressionKind::kName) {
      return Refuse("The chat template calls " + callee.text + ", which is not defined.")
          .Context(place);
    }
    return Call(function, arguments).Context(place);
  }
  ASSIGN_OR_RETURN(const Value self, Evaluate(*callee.operands[0]));
  const bool has_fields = self.Is(Value::Kind::kObject) || self.Is(Value::Kind::kNamespace);
  const Value* field = has_fields ? self.object()->Find(callee.text) : nullptr;
  if (field != nullptr && field->Is(Value::Kind::kFunction)) {
    return Call(Value(*field), arguments).Context(place);
  }
  // schema.items() is the method even where the schema has a field "items".
  const MethodFunction method = names_.find_method(self, callee.text);
  if (method == nullptr) {
    return Refuse("The chat template calls the method " + callee.text + " of " +
                  std::string(self.KindName()) + ", which has none of that name.")
        .Context(place);
  }
  TRY(ChargeFor(self));
  return method(*this, self, arguments).Context(place);
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
  return BinaryOperation(*this, expression.text, left, right)
      .Context("While running line " + std::to_string(expression.line) + " of the chat template");
}

Result<Value> Evaluator::EvaluateComparison(const Expression& expression) {
  ASSIGN_OR_RETURN(Value left, Evaluate(*expression.operands[0]));
  for (size_t i = 0; i < expression.comparators.size(); ++i) {
    ASSIGN_OR_RETURN(Value right, Evaluate(*expression.operands[i + 1]));
    auto holds = CompareOperation(*this, expression.comparators[i], left, right);
    if (!holds.ok()) {
      return std::move(holds).error().Context(
          "While running line " + std::to_string(expression.line) + " of the chat template");
    }
    if (!*holds) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Result<Value> Evaluator::Filter(const std::string& name, const Value& operand,
                                const CallArguments& arguments) {
  const FilterFunction filter = names_.find_filter(name);
  if (filter == nullptr) return Refuse("The chat template uses the unknown filter " + name + ".");
  TRY(ChargeFor(operand));
  return filter(*this, operand, arguments);
}

Result<bool> Evaluator::Test(const std::string& name, const Value& operand,
                             const CallArguments& arguments) {
  const TestFunction test = names_.find_test(name);
  if (test == nullptr) return Refuse("The chat template uses the unknown test " + name + ".");
  return test(*this, operand, arguments);
}

Result<Value> Evaluator::Attribute(const Value& operand, const std::string& name) {
  if (operand.Is(Value::Kind::kObject) || operand.Is(Value::Kind::kNamespace)) {
    if (const Value* field = operand.object()->Find(name)) return *field;
  }
  const MethodFunction method = names_.find_method(operand, name);
  if (method == nullptr) return Value();
  auto function = std::make_shared<FunctionData>();
  function->name = name;
  function->call = [operand, method](Evaluator& evaluator,
                                     const CallArguments& arguments) -> Result<Value> {
    TRY(evaluator.ChargeFor(operand));
    return method(evaluator, operand, arguments);
  };
  return Value::Function(std::move(function));
}

Result<Value> Evaluator::Index(const Value& operand, const Value& index) {
  if (index.IsString()) {
    if (operand.Is(Value::Kind::kObject)) {
      const Value* field = operand.object()->Find(index.string());
      return field == nullptr ? Value() : *field;
    }
    return Attribute(operand, index.string());
  }
  if (operand.Is(Value::Kind::kObject) && index.Is(Value::Kind::kInteger)) {
    ASSIGN_OR_RETURN(const std::string key, ObjectKey(index));
    const Value* field = operand.object()->Find(key);
    return field == nullptr ? Value() : *field;
  }
  if (!index.Is(Value::Kind::kInteger) || (!operand.IsArray() && !operand.IsString())) {
    return Value();
  }
  int64_t at = index.integer();
  if (operand.IsArray()) {
    const auto count = static_cast<int64_t>(operand.items().size());
    if (at < 0) at += count;
    return at >= 0 && at < count ? operand.items()[static_cast<size_t>(at)] : Value();
  }
  TRY(Charge(operand.string().size() / 4));
  const auto characters = Characters(operand.string());
  const auto count = static_cast<int64_t>(characters.size());
  if (at < 0) at += count;
  if (at < 0 || at >= count) return Value();
  return MakeString(std::string(characters[static_cast<size_t>(at)]));
}

}  // namespace weft::jinja
