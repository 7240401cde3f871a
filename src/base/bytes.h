// Spans of raw bytes, little-endian loads and stores, overflow-checked size arithmetic, and a
// reference-counted immutable slice of bytes. The wire, the package and every parser share these.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"

namespace weft {

using ByteSpan = std::span<const uint8_t>;
using MutableByteSpan = std::span<uint8_t>;

inline ByteSpan AsBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}
inline std::string_view AsText(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
// The bytes of an array of plain values, host order (weft runs on little-endian machines only).
template <typename T>
ByteSpan AsBytes(std::span<const T> values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()};
}

// REQUIRES: sizeof(T) bytes at `from` / `to`.
template <typename T>
T LoadLe(const uint8_t* from) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}
template <typename T>
void StoreLe(uint8_t* to, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(to, &value, sizeof(T));
}

// nullopt on overflow. For sizes that come from files and peers.
template <std::unsigned_integral T>
std::optional<T> CheckedAdd(T a, T b) {
  T sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}
template <std::unsigned_integral T>
std::optional<T> CheckedMul(T a, T b) {
  T product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// An immutable run of bytes that shares ownership of what holds it: a frame's payload travels from
// the socket to another socket without a copy. Cheap to copy; threads may share it.
class Slice {
 public:
  Slice() = default;
  explicit Slice(std::vector<uint8_t> bytes)
      : owner_(std::make_shared<std::vector<uint8_t>>(std::move(bytes))) {
    const auto& held = *static_cast<const std::vector<uint8_t>*>(owner_.get());
    bytes_ = held;
  }
  // `bytes` must stay valid for as long as `owner` lives.
  Slice(std::shared_ptr<const void> owner, ByteSpan bytes)
      : owner_(std::move(owner)), bytes_(bytes) {}

  static Slice OfText(std::string text) {
    auto owner = std::make_shared<const std::string>(std::move(text));
    const ByteSpan bytes = AsBytes(*owner);
    return Slice(std::move(owner), bytes);
  }

  ByteSpan bytes() const { return bytes_; }
  size_t byte_count() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  // REQUIRES: offset + count <= byte_count().
  Slice Sub(size_t offset, size_t count) const {
    CHECK(offset <= bytes_.size() && count <= bytes_.size() - offset);
    return Slice(owner_, bytes_.subspan(offset, count));
  }

 private:
  std::shared_ptr<const void> owner_;
  ByteSpan bytes_;
};

std::string ToHex(ByteSpan bytes);
// nullopt unless `hex` is an even number of lower- or upper-case hexadecimal digits.
std::optional<std::vector<uint8_t>> FromHex(std::string_view hex);

// "1.5 GB", "812 KB": decimal units, for people.
std::string HumanBytes(uint64_t byte_count);
// "4GiB", "512MiB", "1.5GB", "1048576": nullopt when it is none of these or overflows.
std::optional<uint64_t> ParseByteCount(std::string_view text);

}  // namespace weft
