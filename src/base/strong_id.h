// A number that names one thing of one kind. `using BindingId = StrongId<struct BindingTag>` is a
// type of its own. A session's number cannot be passed where a binding's is wanted, and neither can
// an integer that only the running program knows. A literal may stand for an id. value() and the
// explicit constructor are for the edges, where ids are encoded or decoded.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>

namespace weft {

// Trivially copyable, as large as its value. The default, 0, names nothing.
template <class Tag, class Value = uint32_t>
class StrongId {
 public:
  constexpr StrongId() = default;
  template <std::unsigned_integral Number>
  constexpr explicit StrongId(Number value) : value_(value) {}
  // NOLINTNEXTLINE(google-explicit-constructor): literals alone, or it does not compile.
  template <std::same_as<int> Literal>
  consteval StrongId(Literal value) : value_(static_cast<Value>(value)) {}

  constexpr Value value() const { return value_; }
  constexpr bool is_set() const { return value_ != 0; }
  // The id behind this one, of kinds whose ids rise.
  constexpr StrongId Next() const { return StrongId(value_ + 1); }
  constexpr StrongId& operator++() {
    ++value_;
    return *this;
  }
  constexpr StrongId operator++(int) { return StrongId(value_++); }

  constexpr auto operator<=>(const StrongId&) const = default;

 private:
  Value value_ = 0;
};

template <class Tag, class Value>
std::string ToString(StrongId<Tag, Value> id) {
  return std::to_string(id.value());
}

template <class Tag, class Value>
std::ostream& operator<<(std::ostream& out, StrongId<Tag, Value> id) {
  return out << id.value();
}

}  // namespace weft

template <class Tag, class Value>
struct std::hash<weft::StrongId<Tag, Value>> {
  size_t operator()(weft::StrongId<Tag, Value> id) const { return std::hash<Value>()(id.value()); }
};
