// For tests: GGUF files written byte by byte.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "convert/source/gguf_metadata.h"

namespace weft::convert::testing {

class GgufBuilder {
 public:
  template <typename T>
  static std::string Bytes(T value) {
    std::string bytes(sizeof(T), '\0');
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
  }
  static std::string Text(std::string_view text) {
    return Bytes<uint64_t>(text.size()) + std::string(text);
  }

  void Value(std::string_view key, GgufType type, const std::string& bytes) {
    metadata_ += Text(key) + Bytes(static_cast<uint32_t>(type)) + bytes;
    ++key_count;
  }
  void Whole(std::string_view key, uint32_t value) { Value(key, GgufType::kU32, Bytes(value)); }
  void Real(std::string_view key, float value) { Value(key, GgufType::kF32, Bytes(value)); }
  void Text(std::string_view key, std::string_view text) {
    Value(key, GgufType::kText, Text(text));
  }
  void Array(std::string_view key, GgufType type, uint64_t count, const std::string& items) {
    Value(key, GgufType::kArray, Bytes(static_cast<uint32_t>(type)) + Bytes(count) + items);
  }
  // `shape`: as in the file, columns first.
  void Tensor(std::string_view name, std::vector<uint64_t> shape, uint32_t type,
              const std::string& data) {
    TensorAt(name, std::move(shape), type, data_.size());
    data_ += data;
    data_.resize((data_.size() + 31) / 32 * 32);
  }
  void TensorAt(std::string_view name, std::vector<uint64_t> shape, uint32_t type,
                uint64_t offset) {
    tensors_ += Text(name) + Bytes(static_cast<uint32_t>(shape.size()));
    for (const uint64_t length : shape) tensors_ += Bytes(length);
    tensors_ += Bytes(type) + Bytes(offset);
    ++tensor_count;
  }

  std::string File() const {
    std::string file = magic + Bytes(version) + Bytes(tensor_count) + Bytes(key_count);
    file += metadata_ + tensors_;
    file.resize((file.size() + 31) / 32 * 32);
    return file + data_;
  }

  // Counted by the functions above; tests may lie.
  std::string magic = "GGUF";
  uint32_t version = 3;
  uint64_t tensor_count = 0;
  uint64_t key_count = 0;

 private:
  std::string metadata_, tensors_, data_;
};

}  // namespace weft::convert::testing
