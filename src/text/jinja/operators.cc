// Operators of chat templates on values.
#include <cmath>

#include "base/bytes.h"
#include "text/jinja/eval.h"
#include "text/jinja/json.h"

namespace weft::jinja {
namespace {

Error Overflow() {
  return Refuse("The chat template computes an integer beyond 64 bits.");
}

Error NoMeaning(const std::string& symbol, const Value& left, const Value& right) {
  return Refuse("The chat template uses '" + symbol + "' between " + std::string(left.KindName()) +
                " and " + std::string(right.KindName()) + ", which has no meaning.");
}

Result<Value> IntegerPower(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    return Value::Float(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return Overflow();
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) return Overflow();
  }
  return Value::Integer(result);
}

Result<Value> IntegerOperation(const std::string& symbol, int64_t a, int64_t b) {
  int64_t result = 0;
  if (symbol == "+") {
    if (__builtin_add_overflow(a, b, &result)) return Overflow();
    return Value::Integer(result);
  }
  if (symbol == "-") {
    if (__builtin_sub_overflow(a, b, &result)) return Overflow();
    return Value::Integer(result);
  }
  if (symbol == "*") {
    if (__builtin_mul_overflow(a, b, &result)) return Overflow();
    return Value::Integer(result);
  }
  if (symbol == "**") return IntegerPower(a, b);
  if (b == 0) return Refuse("The chat template divides by 0.");
  if (symbol == "/") return Value::Float(static_cast<double>(a) / static_cast<double>(b));
  if (a == INT64_MIN && b == -1) return Overflow();
  // Python rounds down, C++ towards 0.
  const bool uneven = a % b != 0 && (a % b < 0) != (b < 0);
  if (symbol == "//") return Value::Integer(a / b - (uneven ? 1 : 0));
  return Value::Integer(uneven ? a % b + b : a % b);
}

Result<Value> FloatOperation(const std::string& symbol, double a, double b) {
  if (symbol == "+") return Value::Float(a + b);
  if (symbol == "-") return Value::Float(a - b);
  if (symbol == "*") return Value::Float(a * b);
  if (symbol == "**") return Value::Float(std::pow(a, b));
  if (b == 0) return Refuse("The chat template divides by 0.");
  if (symbol == "/") return Value::Float(a / b);
  const double floor = std::floor(a / b);
  return Value::Float(symbol == "//" ? floor : a - b * floor);
}

Result<Value> Concatenate(Evaluator& evaluator, const Value& left, const Value& right) {
  TRY(evaluator.ChargeFor(left));
  TRY(evaluator.ChargeFor(right));
  ASSIGN_OR_RETURN(const std::string a, ToText(left));
  ASSIGN_OR_RETURN(const std::string b, ToText(right));
  return evaluator.MakeString(a + b);
}

Result<Value> Repeat(Evaluator& evaluator, const std::string& text, int64_t count) {
  if (count <= 0 || text.empty()) return evaluator.MakeString("");
  const auto total = CheckedMul<uint64_t>(text.size(), static_cast<uint64_t>(count));
  if (!total || *total > (uint64_t{1} << 30)) {
    return Refuse("The chat template repeats a string of " + std::to_string(text.size()) +
                  " bytes " + std::to_string(count) + " times, which is too long.");
  }
  TRY(evaluator.Charge(*total / 16));
  std::string repeated;
  repeated.reserve(*total);
  for (int64_t i = 0; i < count; ++i) repeated += text;
  return evaluator.MakeString(std::move(repeated));
}

bool IsText(const Value& value) {
  return value.IsString() || value.IsNumeric();
}

}  // namespace

Result<Value> BinaryOperation(Evaluator& evaluator, const std::string& symbol, const Value& left,
                              const Value& right) {
  if (symbol == "~") return Concatenate(evaluator, left, right);
  if (left.IsNumeric() && right.IsNumeric()) {
    const bool real = left.Is(Value::Kind::kFloat) || right.Is(Value::Kind::kFloat);
    return real ? FloatOperation(symbol, left.AsDouble(), right.AsDouble())
                : IntegerOperation(symbol, left.AsInteger(), right.AsInteger());
  }
  if (symbol == "+") {
    if (left.IsArray() && right.IsArray()) {
      TRY(evaluator.Charge(left.items().size() + right.items().size()));
      std::vector<Value> items = left.items();
      items.insert(items.end(), right.items().begin(), right.items().end());
      return evaluator.MakeArray(std::move(items));
    }
    // Python refuses a number beside a string; @huggingface/jinja does not.
    const bool one_string = left.IsString() || right.IsString();
    if (one_string && IsText(left) && IsText(right)) return Concatenate(evaluator, left, right);
  }
  if (symbol == "*" && left.IsString() && right.Is(Value::Kind::kInteger)) {
    return Repeat(evaluator, left.string(), right.integer());
  }
  return NoMeaning(symbol, left, right);
}

Result<bool> CompareOperation(Evaluator& evaluator, const std::string& symbol, const Value& left,
                              const Value& right) {
  TRY(evaluator.ChargeFor(left));
  TRY(evaluator.ChargeFor(right));
  if (symbol == "==" || symbol == "!=") {
    // As in @huggingface/jinja, undefined equals none; in Python it does not.
    const bool both_absent =
        (left.IsUndefined() || left.IsNone()) && (right.IsUndefined() || right.IsNone());
    ASSIGN_OR_RETURN(const bool same, evaluator.Same(left, right));
    return (same || both_absent) == (symbol == "==");
  }
  if (symbol == "in" || symbol == "not in") {
    const bool wanted = symbol == "in";
    if (right.IsUndefined()) return !wanted;
    if (right.IsArray()) {
      for (const Value& item : right.items()) {
        ASSIGN_OR_RETURN(const bool same, evaluator.Same(left, item));
        if (same) return wanted;
      }
      return !wanted;
    }
    if (left.IsString() && right.IsString()) {
      return (right.string().find(left.string()) != std::string::npos) == wanted;
    }
    if (right.Is(Value::Kind::kObject)) {
      const auto key = ObjectKey(left);
      return (key.ok() && right.object()->Find(*key) != nullptr) == wanted;
    }
    return NoMeaning(symbol, left, right);
  }
  auto order = Compare(left, right, true);
  if (!order.ok()) return NoMeaning(symbol, left, right);
  if (symbol == "<") return *order < 0;
  if (symbol == "<=") return *order <= 0;
  if (symbol == ">") return *order > 0;
  return *order >= 0;
}

}  // namespace weft::jinja
