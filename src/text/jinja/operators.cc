// Operators of chat templates on values, as Python has them.
#include <cmath>

#include "base/bytes.h"
#include "text/jinja/eval.h"
#include "text/jinja/format.h"
#include "text/jinja/library.h"
#include "text/jinja/repr.h"

namespace weft::jinja {
namespace {

Error Overflow() {
  return Refuse("The chat template computes an integer beyond 128 bits.");
}

Error NoMeaning(const std::string& symbol, const Value& left, const Value& right) {
  return Refuse("The chat template uses '" + symbol + "' between " + std::string(left.KindName()) +
                " and " + std::string(right.KindName()) + ", which has no meaning.");
}

Result<Value> Fitting(std::optional<Int128> value) {
  if (!value) return Overflow();
  return Value::Integer(*value);
}

Result<Value> FloatPower(double base, double exponent) {
  if (base == 0 && exponent < 0) return Refuse("The chat template divides by 0.");
  const double power = std::pow(base, exponent);
  if (std::isfinite(base) && std::isfinite(exponent) && !std::isfinite(power)) {
    return Refuse("The chat template computes a power that is no number of 64 bits.");
  }
  return Value::Float(power);
}

Result<Value> IntegerPower(Int128 base, Int128 exponent) {
  if (exponent < 0) return FloatPower(static_cast<double>(base), static_cast<double>(exponent));
  std::optional<Int128> result = 1;
  std::optional<Int128> square = base;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = square ? MultiplyIntegers(*result, *square) : square;
    if (!result) return Overflow();
    if (square && exponent > 1) square = MultiplyIntegers(*square, *square);
  }
  return Value::Integer(*result);
}

// Rounded once, as far as long double holds both.
double Quotient(Int128 a, Int128 b) {
  if (a != 0 && !(a == kMinInteger && b == -1) && a % b == 0) return static_cast<double>(a / b);
  return static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b));
}

Result<Value> IntegerOperation(const std::string& symbol, Int128 a, Int128 b) {
  if (symbol == "+") return Fitting(AddIntegers(a, b));
  if (symbol == "-") return Fitting(b == kMinInteger ? std::nullopt : AddIntegers(a, -b));
  if (symbol == "*") return Fitting(MultiplyIntegers(a, b));
  if (symbol == "**") return IntegerPower(a, b);
  if (b == 0) return Refuse("The chat template divides by 0.");
  if (symbol == "/") return Value::Float(Quotient(a, b));
  if (a == kMinInteger && b == -1) return Overflow();
  return Value::Integer(symbol == "//" ? FloorDivide(a, b) : FloorModulo(a, b));
}

Result<Value> FloatOperation(const std::string& symbol, double a, double b) {
  if (symbol == "+") return Value::Float(a + b);
  if (symbol == "-") return Value::Float(a - b);
  if (symbol == "*") return Value::Float(a * b);
  if (symbol == "**") return FloatPower(a, b);
  if (b == 0) return Refuse("The chat template divides by 0.");
  if (symbol == "/") return Value::Float(a / b);
  // The rest has the sign of the divisor.
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (rest == 0) rest = std::copysign(0.0, b);
  if (symbol == "%") return Value::Float(rest);
  const double quotient = (a - rest) / b;
  const double floor = std::floor(quotient);
  if (quotient == 0) return Value::Float(std::copysign(0.0, a / b));
  return Value::Float(quotient - floor > 0.5 ? floor + 1 : floor);
}

// Markup takes other strings only escaped.
Result<Value> AddTexts(Evaluator& evaluator, const Text& left, const Text& right) {
  const bool markup = left.is_markup() || right.is_markup();
  Text sum;
  sum.Reserve(left.size() + right.size());
  sum.Append(markup && !left.is_markup() ? EscapeHtml(left) : left);
  sum.Append(markup && !right.is_markup() ? EscapeHtml(right) : right);
  sum.set_markup(markup);
  return evaluator.MakeString(std::move(sum));
}

Result<Value> AddArrays(Evaluator& evaluator, const Value& left, const Value& right) {
  TRY(evaluator.Charge(left.items().size() + right.items().size()));
  std::vector<Value> items = left.items();
  items.insert(items.end(), right.items().begin(), right.items().end());
  const bool tuple = left.array()->IsTuple();
  return evaluator.MakeArray(std::move(items),
                             tuple ? ArrayData::Form::kTuple : ArrayData::Form::kList);
}

bool IsListOrTuple(const Value& value) {
  return value.IsArray() &&
         (value.array()->form == ArrayData::Form::kList || value.array()->IsTuple());
}

Result<Value> RepeatText(Evaluator& evaluator, const Text& text, Int128 count) {
  if (count <= 0 || text.empty()) return evaluator.MakeString("");
  const auto total =
      CheckedMul<uint64_t>(text.size(), static_cast<uint64_t>(std::min<Int128>(count, INT64_MAX)));
  if (!total || *total > (uint64_t{1} << 30)) {
    return Refuse("The chat template repeats a string of " + std::to_string(text.size()) +
                  " bytes " + DigitsOf(count) + " times, which is too long.");
  }
  TRY(evaluator.Charge(*total / 16));
  Text repeated;
  repeated.Reserve(*total);
  for (Int128 i = 0; i < count; ++i) repeated.Append(text);
  repeated.set_markup(text.is_markup());
  return evaluator.MakeString(std::move(repeated));
}

Result<Value> RepeatItems(Evaluator& evaluator, const Value& array, Int128 count) {
  std::vector<Value> items;
  for (Int128 i = 0; i < count; ++i) {
    TRY(evaluator.Charge(1 + array.items().size()));
    items.insert(items.end(), array.items().begin(), array.items().end());
  }
  const bool tuple = array.array()->IsTuple();
  return evaluator.MakeArray(std::move(items),
                             tuple ? ArrayData::Form::kTuple : ArrayData::Form::kList);
}

Result<bool> Contains(Evaluator& evaluator, const Value& container, const Value& item) {
  if (container.IsUndefined()) return false;
  if (container.Is(Value::Kind::kObject)) {
    // A tuple can be a key in Python, but is none here.
    if (item.IsUndefined() || (item.IsArray() && item.array()->form != ArrayData::Form::kList)) {
      return false;
    }
    ASSIGN_OR_RETURN(const std::string key, ObjectKey(item));
    return container.object()->Find(key) != nullptr;
  }
  if (container.IsString() && item.IsString()) {
    return container.string().find(item.string()) != std::string::npos;
  }
  if (!container.IsArray()) return NoMeaning("in", item, container);
  ASSIGN_OR_RETURN(const std::vector<Value> items, IterableItems(evaluator, container));
  for (const Value& candidate : items) {
    ASSIGN_OR_RETURN(const bool same, evaluator.Same(item, candidate));
    if (same) return true;
  }
  return false;
}

}  // namespace

Result<Value> BinaryOperation(Evaluator& evaluator, const std::string& symbol, const Value& left,
                              const Value& right) {
  if (left.IsNumeric() && right.IsNumeric()) {
    const bool real = left.Is(Value::Kind::kFloat) || right.Is(Value::Kind::kFloat);
    return real ? FloatOperation(symbol, left.AsDouble(), right.AsDouble())
                : IntegerOperation(symbol, left.AsInteger(), right.AsInteger());
  }
  if (symbol == "+") {
    if (left.IsString() && right.IsString()) {
      return AddTexts(evaluator, left.text(), right.text());
    }
    if (IsListOrTuple(left) && IsListOrTuple(right) &&
        left.array()->IsTuple() == right.array()->IsTuple()) {
      return AddArrays(evaluator, left, right);
    }
  }
  if (symbol == "*" && (left.IsWhole() || right.IsWhole())) {
    const Value& row = left.IsWhole() ? right : left;
    const Int128 count = (left.IsWhole() ? left : right).AsInteger();
    if (row.IsString()) return RepeatText(evaluator, row.text(), count);
    if (IsListOrTuple(row)) return RepeatItems(evaluator, row, count);
  }
  if (symbol == "%" && left.IsString()) {
    ASSIGN_OR_RETURN(Text text, FormatPercent(evaluator, left.text(), right));
    return evaluator.MakeString(std::move(text));
  }
  return NoMeaning(symbol, left, right);
}

Result<bool> CompareOperation(Evaluator& evaluator, const std::string& symbol, const Value& left,
                              const Value& right) {
  TRY(evaluator.ChargeFor(left));
  TRY(evaluator.ChargeFor(right));
  if (symbol == "==" || symbol == "!=") {
    ASSIGN_OR_RETURN(const bool same, evaluator.Same(left, right));
    return same == (symbol == "==");
  }
  if (symbol == "in" || symbol == "not in") {
    ASSIGN_OR_RETURN(const bool contained, Contains(evaluator, right, left));
    return contained == (symbol == "in");
  }
  const auto order = evaluator.Order(left, right);
  if (!order.ok()) return NoMeaning(symbol, left, right);
  if (*order == kUnordered) return false;
  if (symbol == "<") return *order < 0;
  if (symbol == "<=") return *order <= 0;
  if (symbol == ">") return *order > 0;
  return *order >= 0;
}

}  // namespace weft::jinja
