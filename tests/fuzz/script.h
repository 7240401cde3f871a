// A fuzzer's input as a script: one byte says what happens next, the bytes after it what with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace weft {

class Script {
 public:
  Script(const uint8_t* data, size_t byte_count) : rest_(data, byte_count) {}
  bool done() const { return rest_.empty(); }
  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const uint8_t byte = rest_.front();
    rest_ = rest_.subspan(1);
    return byte;
  }
  uint32_t Word() {
    uint32_t word = 0;
    for (int shift = 0; shift < 32; shift += 8) word |= uint32_t{Byte()} << shift;
    return word;
  }
  // As many bytes as the next byte says.
  std::vector<uint8_t> Bytes() {
    const size_t wanted = Byte();  // first: it is none of them
    const size_t count = std::min(wanted, rest_.size());
    const std::vector<uint8_t> bytes(rest_.begin(), rest_.begin() + static_cast<ptrdiff_t>(count));
    rest_ = rest_.subspan(count);
    return bytes;
  }
  std::string Text() {
    const std::vector<uint8_t> bytes = Bytes();
    return {bytes.begin(), bytes.end()};
  }
  ByteSpan rest() const { return rest_; }

 private:
  ByteSpan rest_;
};

}  // namespace weft
