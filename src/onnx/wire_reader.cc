#include "onnx/wire_reader.h"

namespace weft::onnx {

std::optional<uint64_t> ReadVarint(ByteSpan bytes, size_t& position) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (position >= bytes.size()) return std::nullopt;
    const uint8_t byte = bytes[position++];
    if (shift == 63 && byte > 1) return std::nullopt;
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  return std::nullopt;
}

std::optional<WireField> WireReader::Next() {
  if (!ok_ || position_ >= bytes_.size()) return std::nullopt;
  const std::optional<uint64_t> key = ReadVarint(bytes_, position_);
  if (!key || (*key >> 3) == 0 || (*key >> 3) > 0x1fffffff) return Fail();
  WireField field;
  field.number = static_cast<uint32_t>(*key >> 3);
  const size_t left = bytes_.size() - position_;
  switch (*key & 7) {
    case 0: {
      const std::optional<uint64_t> value = ReadVarint(bytes_, position_);
      if (!value) return Fail();
      field.varint = *value;
      return field;
    }
    case 1:
      if (left < 8) return Fail();
      field.type = WireType::kFixed64;
      field.varint = LoadLe<uint64_t>(bytes_.data() + position_);
      position_ += 8;
      return field;
    case 2: {
      const std::optional<uint64_t> count = ReadVarint(bytes_, position_);
      if (!count || *count > bytes_.size() - position_) return Fail();
      field.type = WireType::kBytes;
      field.bytes = bytes_.subspan(position_, *count);
      position_ += *count;
      return field;
    }
    case 5:
      if (left < 4) return Fail();
      field.type = WireType::kFixed32;
      field.varint = LoadLe<uint32_t>(bytes_.data() + position_);
      position_ += 4;
      return field;
    default:  // groups (3, 4) are not used by ONNX; 6 and 7 do not exist
      return Fail();
  }
}

bool AppendVarints(const WireField& field, std::vector<int64_t>& values) {
  if (field.type == WireType::kVarint) {
    values.push_back(static_cast<int64_t>(field.varint));
    return true;
  }
  if (field.type != WireType::kBytes) return false;
  size_t position = 0;
  while (position < field.bytes.size()) {
    const std::optional<uint64_t> value = ReadVarint(field.bytes, position);
    if (!value) return false;
    values.push_back(static_cast<int64_t>(*value));
  }
  return true;
}

}  // namespace weft::onnx
