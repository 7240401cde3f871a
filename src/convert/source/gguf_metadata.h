// The metadata of a GGUF file: keys with typed values. Typed access with ranges; each error is a
// sentence with the file, the key, the value and what was expected.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace weft::convert {

// The numbers that files hold.
enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kText = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// Bytes of one value; 0 for texts, arrays and types that are none.
uint64_t GgufTypeBytes(GgufType type);

// One value, or the items of an array. Texts are a u64 length and bytes each; all lengths were
// checked when the file was parsed.
struct GgufValue {
  GgufType type = GgufType::kU8;  // of the items, if this is an array
  bool is_array = false;
  uint64_t count = 1;
  ByteSpan bytes;
};

// The mapped file must outlive it.
class GgufMetadata {
 public:
  GgufMetadata() = default;
  explicit GgufMetadata(std::string file) : file_(std::move(file)) {}

  const std::string& file() const { return file_; }
  size_t key_count() const { return values_.size(); }
  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  // False when the key is there already.
  bool Add(std::string key, const GgufValue& value) {
    return values_.emplace(std::move(key), value).second;
  }

  // Errors: kInvalidData when the key is absent and no default is given, of another type, or out of
  // range. An array of numbers that are all the same is that number (values given for each layer).
  Result<uint64_t> Whole(std::string_view key, uint64_t least, uint64_t most,
                         std::optional<uint64_t> if_absent = std::nullopt) const;
  Result<double> Real(std::string_view key, double least, double most,
                      std::optional<double> if_absent = std::nullopt) const;
  Result<bool> Bool(std::string_view key, bool if_absent) const;
  Result<std::string> Text(std::string_view key,
                           std::optional<std::string> if_absent = std::nullopt) const;
  // Empty when the key is absent.
  Result<std::vector<std::string>> Texts(std::string_view key) const;
  Result<std::vector<double>> Numbers(std::string_view key) const;

 private:
  const GgufValue* Find(std::string_view key) const;
  Error Missing(std::string_view key) const;
  Error Wrong(std::string_view key, const std::string& found, const std::string& expected) const;
  Result<double> Single(std::string_view key, const GgufValue& value,
                        const std::string& expected) const;

  std::string file_;
  std::map<std::string, GgufValue, std::less<>> values_;
};

}  // namespace weft::convert
