#include "grammar/number_range.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "grammar/json_rules.h"

namespace weft::grammar {
namespace {

// kMaxIntegerDigits of 9.
constexpr uint64_t kLargest = 9'999'999'999'999'999'999u;

uint64_t MagnitudeOf(int64_t value) {
  return value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

// The digits of numbers that are not negative.
class Digits {
 public:
  explicit Digits(Rules& rules) : rules_(rules) {}

  ExprId Any(size_t count) {
    return rules_.Repeat(One('0', '9'), static_cast<uint32_t>(count), static_cast<uint32_t>(count));
  }
  ExprId AtLeastOne(uint32_t most) { return rules_.Repeat(One('0', '9'), 1, most); }

  // From first to last; nothing where last < first.
  ExprId Between(uint64_t first, uint64_t last) {
    std::vector<ExprId> ways;
    uint64_t begin = 0;  // of the numbers with as many digits
    for (uint64_t end = 9; first <= last; end = end * 10 + 9) {
      if (first <= end) {
        const uint64_t stop = std::min(last, end);
        const std::string from = std::to_string(std::max(first, begin)), to = std::to_string(stop);
        ways.push_back(Same(from, to));
        if (stop == last) break;
        first = end + 1;
      }
      begin = end + 1;
    }
    return rules_.Choice(std::move(ways));
  }

 private:
  ExprId One(char first, char last) {
    return rules_.Set({{static_cast<uint8_t>(first), static_cast<uint8_t>(last)}});
  }

  // Of as many digits each.
  ExprId Same(const std::string& from, const std::string& to) {
    const auto parted = std::ranges::mismatch(from, to).in1 - from.begin();
    const auto at = static_cast<size_t>(parted);
    if (at == from.size()) return rules_.Bytes(from);
    const std::string rest_of_from = from.substr(at + 1), rest_of_to = to.substr(at + 1);
    const auto is_all = [](const std::string& digits, char digit) {
      return digits.find_first_not_of(digit) == std::string::npos;
    };
    // Digits for which any may follow.
    char low = from[at], high = to[at];
    std::vector<ExprId> ways;
    if (!is_all(rest_of_from, '0')) {
      ways.push_back(rules_.Sequence({rules_.Bytes(from.substr(at, 1)),
                                      Same(rest_of_from, std::string(rest_of_from.size(), '9'))}));
      ++low;
    }
    if (!is_all(rest_of_to, '9')) {
      ways.push_back(rules_.Sequence(
          {rules_.Bytes(to.substr(at, 1)), Same(std::string(rest_of_to.size(), '0'), rest_of_to)}));
      --high;
    }
    if (low <= high) ways.push_back(rules_.Sequence({One(low, high), Any(rest_of_to.size())}));
    return rules_.Sequence({rules_.Bytes(from.substr(0, at)), rules_.Choice(std::move(ways))});
  }

  Rules& rules_;
};

// Magnitudes from `least` to `most`, with a fraction.
class Fractions {
 public:
  Fractions(const Bounds& bounds, Rules& rules) : rules_(rules), digits_(rules) {
    // Fifteen digits in all are told apart by doubles.
    constexpr uint32_t kDigits = 15, kMostDigits = 10;
    uint64_t largest = 0;
    for (const auto& bound : {bounds.least, bounds.most})
      if (bound) largest = std::max(largest, MagnitudeOf(bound->value));
    const auto whole = static_cast<uint32_t>(std::to_string(largest).size());
    digit_count_ = whole >= kDigits ? 1 : std::min(kDigits - whole, kMostDigits);
  }

  ExprId Between(uint64_t least, bool without_least, uint64_t most, bool without_most,
                 bool is_bounded) {
    std::vector<ExprId> ways;
    const ExprId some = rules_.Sequence({rules_.Bytes("."), digits_.AtLeastOne(digit_count_)});
    if (is_bounded && most < least) return rules_.Never();
    if (is_bounded && least == most) {
      if (!without_least && !without_most) ways.push_back(Exactly(most));
      return rules_.Choice(std::move(ways));
    }
    const uint64_t last = is_bounded ? most - 1 : kLargest;  // whole parts with any fraction
    uint64_t first = least;
    if (without_least) {
      ways.push_back(
          rules_.Sequence({rules_.Bytes(std::to_string(least)), rules_.Bytes("."), NotZero()}));
      ++first;
    }
    if (first <= last)
      ways.push_back(rules_.Sequence({digits_.Between(first, last), rules_.Optional(some)}));
    if (is_bounded && !without_most) ways.push_back(Exactly(most));
    return rules_.Choice(std::move(ways));
  }

 private:
  // "7", "7.0", "7.00"
  ExprId Exactly(uint64_t number) {
    const ExprId zeros = rules_.Repeat(rules_.Bytes("0"), 1, digit_count_);
    return rules_.Sequence({rules_.Bytes(std::to_string(number)),
                            rules_.Optional(rules_.Sequence({rules_.Bytes("."), zeros}))});
  }
  // Digits that are not all 0.
  ExprId NotZero() {
    const ExprId digit = rules_.Set({{'0', '9'}});
    std::vector<ExprId> ways;
    for (uint32_t zeros = 0; zeros < digit_count_; ++zeros)
      ways.push_back(
          rules_.Sequence({rules_.Bytes(std::string(zeros, '0')), rules_.Set({{'1', '9'}}),
                           rules_.Repeat(digit, 0, digit_count_ - zeros - 1)}));
    return rules_.Choice(std::move(ways));
  }

  Rules& rules_;
  Digits digits_;
  uint32_t digit_count_ = 1;
};

}  // namespace

ExprId AddIntegerRange(const Bounds& bounds, Rules& rules) {
  Digits digits(rules);
  int64_t least = INT64_MIN, most = INT64_MAX;
  bool is_empty = false;
  if (bounds.least) {
    least = bounds.least->value;
    is_empty = bounds.least->excluded && least == INT64_MAX;
    if (bounds.least->excluded && !is_empty) ++least;
  }
  if (bounds.most) {
    most = bounds.most->value;
    is_empty = is_empty || (bounds.most->excluded && most == INT64_MIN);
    if (bounds.most->excluded && !is_empty) --most;
  }
  if (is_empty || most < least) return rules.Never();
  std::vector<ExprId> ways;
  if (least < 0) {
    const uint64_t last = bounds.least ? MagnitudeOf(least) : kLargest;
    const uint64_t first = most < 0 ? MagnitudeOf(most) : 1;
    ways.push_back(rules.Sequence({rules.Bytes("-"), digits.Between(first, last)}));
  }
  if (most >= 0) {
    const uint64_t last = bounds.most ? MagnitudeOf(most) : kLargest;
    ways.push_back(digits.Between(least < 0 ? 0 : MagnitudeOf(least), last));
  }
  return rules.Choice(std::move(ways));
}

ExprId AddNumberRange(const Bounds& bounds, Rules& rules) {
  Fractions fractions(bounds, rules);
  const auto& [least, most] = bounds;
  for (const auto& bound : {least, most})
    CHECK(!bound || MagnitudeOf(bound->value) <= uint64_t{kMostBoundOfNumber});
  std::vector<ExprId> ways;
  if (!least || least->value < 0) {
    // 0 itself is written without a sign.
    const bool up_to_zero = !most || most->value >= 0;
    ways.push_back(rules.Sequence(
        {rules.Bytes("-"),
         fractions.Between(up_to_zero ? 0 : MagnitudeOf(most->value), up_to_zero || most->excluded,
                           least ? MagnitudeOf(least->value) : 0, least && least->excluded,
                           least.has_value())}));
  }
  if (!most || most->value >= 0) {
    const bool from_zero = !least || least->value < 0;
    ways.push_back(fractions.Between(
        from_zero ? 0 : MagnitudeOf(least->value), !from_zero && least->excluded,
        most ? MagnitudeOf(most->value) : 0, most && most->excluded, most.has_value()));
  }
  return rules.Choice(std::move(ways));
}

}  // namespace weft::grammar
