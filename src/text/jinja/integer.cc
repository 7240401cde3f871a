#include "text/jinja/integer.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/python_text.h"

namespace weft::jinja {
namespace {

__extension__ typedef unsigned __int128 Magnitude;

Magnitude MagnitudeOf(Int128 value) {
  const auto bits = static_cast<Magnitude>(value);
  return value < 0 ? ~bits + 1 : bits;
}

}  // namespace

std::optional<Int128> AddIntegers(Int128 a, Int128 b) {
  if (b > 0 ? a > kMaxInteger - b : a < kMinInteger - b) return std::nullopt;
  return a + b;
}

// Not the compiler's own check: clang's needs a function that only its own runtime library has.
std::optional<Int128> MultiplyIntegers(Int128 a, Int128 b) {
  if (a == 0 || b == 0) return 0;
  const Magnitude limit =
      (a < 0) == (b < 0) ? static_cast<Magnitude>(kMaxInteger) : MagnitudeOf(kMinInteger);
  if (MagnitudeOf(a) > limit / MagnitudeOf(b)) return std::nullopt;
  return static_cast<Int128>(static_cast<Magnitude>(a) * static_cast<Magnitude>(b));
}

Int128 FloorDivide(Int128 a, Int128 b) {
  const bool uneven = a % b != 0 && (a % b < 0) != (b < 0);
  return a / b - (uneven ? 1 : 0);
}

Int128 FloorModulo(Int128 a, Int128 b) {
  const Int128 rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

std::optional<Int128> IntegerOf(double value) {
  constexpr double kLimit = 1.7e38;  // below 2^127
  if (!(value > -kLimit && value < kLimit)) return std::nullopt;
  return static_cast<Int128>(value);
}

int64_t Clamped(Int128 value) {
  return static_cast<int64_t>(std::clamp<Int128>(value, INT64_MIN, INT64_MAX));
}

std::string DigitsOf(Int128 value, int base) {
  Magnitude rest = MagnitudeOf(value);
  std::string digits;
  do {
    digits.push_back("0123456789abcdef"[static_cast<size_t>(rest % static_cast<Magnitude>(base))]);
    rest /= static_cast<Magnitude>(base);
  } while (rest != 0);
  if (value < 0) digits.push_back('-');
  std::ranges::reverse(digits);
  return digits;
}

std::optional<Int128> ParseDigits(std::string_view digits, int base) {
  Int128 value = 0;
  for (const char c : digits) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const int digit = letter ? (c | 0x20) - 'a' + 10 : c - '0';
    if (digit < 0 || digit >= base || (!letter && digit > 9)) return std::nullopt;
    const auto scaled = MultiplyIntegers(value, base);
    const auto sum = scaled ? AddIntegers(*scaled, digit) : std::nullopt;
    if (!sum) return std::nullopt;
    value = *sum;
  }
  if (digits.empty()) return std::nullopt;
  return value;
}

std::optional<Int128> ParseInteger(std::string_view text, int base) {
  std::string ascii = AsciiDigits(text);
  std::string_view rest = ascii;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  const std::pair<std::string_view, int> kPrefixes[] = {{"xX", 16}, {"oO", 8}, {"bB", 2}};
  bool prefixed = false;
  for (const auto& [letters, prefix_base] : kPrefixes) {
    const bool written =
        rest.size() > 2 && rest[0] == '0' && letters.find(rest[1]) != std::string_view::npos;
    if (!written || (base != 0 && base != prefix_base)) continue;
    base = prefix_base;
    rest.remove_prefix(2);
    prefixed = true;
    if (rest.starts_with('_')) rest.remove_prefix(1);
    break;
  }
  // Python takes 0 and 00 of base 0, but not 010.
  if (base == 0 && !prefixed && rest.size() > 1 && rest[0] == '0' &&
      rest.find_first_not_of("0_") != std::string_view::npos) {
    return std::nullopt;
  }
  std::string digits;
  for (size_t i = 0; i < rest.size(); ++i) {
    const bool separates = rest[i] == '_' && i > 0 && rest[i - 1] != '_' && i + 1 < rest.size();
    if (!separates) digits.push_back(rest[i]);
  }
  const auto value = ParseDigits(digits, base == 0 ? 10 : base);
  if (!value) return std::nullopt;
  return negative ? -*value : *value;
}

}  // namespace weft::jinja
