// Reads protobuf's wire format in place: no message is built, length-delimited fields are spans of
// the input. This is what keeps a model file of gigabytes out of memory; protobuf's own parser
// would copy every weight.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"

namespace weft::onnx {

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct WireField {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t varint = 0;  // kVarint: the value; kFixed32 and kFixed64: its bits
  ByteSpan bytes;       // kBytes: the content
};

// Fields of one message, in file order:
//   WireReader reader(bytes);
//   while (const auto field = reader.Next()) ...
//   if (!reader.ok()) ... truncated or malformed
class WireReader {
 public:
  explicit WireReader(ByteSpan bytes) : bytes_(bytes) {}

  // Gives nullopt at the end of the message or at the first malformed field; then ok() tells which.
  std::optional<WireField> Next();
  bool ok() const { return ok_; }

 private:
  std::optional<WireField> Fail() {
    ok_ = false;
    return std::nullopt;
  }
  ByteSpan bytes_;
  size_t position_ = 0;
  bool ok_ = true;
};

// Reads a base-128 number at `position` and advances it; nullopt when it is cut off or longer than
// 64 bits.
std::optional<uint64_t> ReadVarint(ByteSpan bytes, size_t& position);

// Appends the values of a repeated integer field, packed or not. False when malformed.
bool AppendVarints(const WireField& field, std::vector<int64_t>& values);

}  // namespace weft::onnx
