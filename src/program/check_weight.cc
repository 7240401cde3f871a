#include "program/check_weight.h"

#include <algorithm>
#include <optional>

namespace weft::program {
namespace {

constexpr uint64_t kMaxDimension = uint64_t{1} << 31;
constexpr uint64_t kMaxOffset = uint64_t{1} << 50;
constexpr size_t kMaxParts = 1 << 16;

std::string Str(uint64_t value) {
  return std::to_string(value);
}

struct ArrayBytes {
  uint64_t data = 0;
  uint64_t scale = 0;
  uint64_t zero = 0;
};

// Gives nullopt on overflow. REQUIRES: a shape without zeros.
std::optional<ArrayBytes> BytesOf(const Weight& weight) {
  std::optional<uint64_t> rows = 1;
  for (size_t i = 0; i + 1 < weight.shape.size() && rows; ++i) {
    rows = CheckedMul(*rows, weight.shape[i]);
  }
  if (!rows) return std::nullopt;
  const uint64_t columns = weight.shape.back();
  ArrayBytes bytes;
  if (!IsBlockFormat(weight.dtype)) {
    const auto values = CheckedMul(*rows, columns);
    const auto data =
        values ? CheckedMul(*values, static_cast<uint64_t>(ElementBytes(weight.dtype))) : values;
    if (!data) return std::nullopt;
    bytes.data = *data;
    return bytes;
  }
  const auto blocks_in_row = static_cast<uint64_t>(BlockCount(static_cast<int64_t>(columns)));
  const auto blocks = CheckedMul(*rows, blocks_in_row);
  const auto data =
      blocks ? CheckedMul(*blocks, static_cast<uint64_t>(BlockDataBytes(weight.dtype))) : blocks;
  if (!data) return std::nullopt;
  bytes.data = *data;
  const auto words = static_cast<uint64_t>(ScaleWords(weight.dtype, static_cast<int64_t>(columns)));
  bytes.scale = *rows * words * 2;  // at most half as many as of data
  bytes.zero = *rows * ((blocks_in_row + 1) / 2);
  return bytes;
}

Status CheckParts(const std::string& what, const std::vector<Part>& parts, uint64_t expected) {
  uint64_t total = 0;
  for (const Part& part : parts) {
    if (part.byte_count == 0 || part.byte_count > kMaxOffset || part.offset > kMaxOffset) {
      return Invalid("A part of " + what + " has offset " + Str(part.offset) + " and " +
                     Str(part.byte_count) + " bytes; expected 1 to " + Str(kMaxOffset) + ".");
    }
    total += part.byte_count;  // at most 2^16 parts of 2^50 bytes: no overflow
    if (total > expected) break;
  }
  if (total == expected) return OkStatus();
  return Invalid("The parts of " + what + " hold " + (total > expected ? "at least " : "") +
                 Str(total) + " bytes; its shape and dtype need " + Str(expected) + ".");
}

}  // namespace

Error Invalid(std::string message) {
  return Error(ErrorCode::kInvalidData, std::move(message));
}

std::string ShapeText(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + Str(shape[i]);
  return text + "]";
}

Status CheckWeight(const Weight& weight) {
  const std::string what = "weight '" + weight.name.substr(0, 200) + "'";
  switch (weight.dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kQ8:
    case DType::kQ4:
    case DType::kQ4S:
    case DType::kQ4K:
    case DType::kQ5K:
    case DType::kQ6K:
      break;
    default:
      return Invalid("The dtype of " + what + " is " + Str(static_cast<uint64_t>(weight.dtype)) +
                     "; expected f32, f16, bf16, q8, q4, q4s, q4k, q5k or q6k.");
  }
  const bool block = IsBlockFormat(weight.dtype);
  const bool fits = weight.shape.size() >= (block ? 2 : 1) && weight.shape.size() <= 3 &&
                    std::all_of(weight.shape.begin(), weight.shape.end(),
                                [](uint64_t d) { return d >= 1 && d <= kMaxDimension; });
  if (!fits) {
    return Invalid("The shape of " + what + " is " + ShapeText(weight.shape) + "; expected " +
                   (block ? "2 or 3" : "1 to 3") + " dimensions from 1 to " + Str(kMaxDimension) +
                   ".");
  }
  if (IsKQuant(weight.dtype) && weight.shape.back() % kSuperblockValues != 0) {
    return Invalid("The rows of " + what + ShapeText(weight.shape) + " are no whole superblocks; " +
                   std::string(DTypeName(weight.dtype)) + " has columns in multiples of " +
                   Str(kSuperblockValues) + ".");
  }
  for (const auto* parts : {&weight.data, &weight.scale, &weight.zero}) {
    if (parts->size() > kMaxParts) {
      return Invalid(what + " has " + Str(parts->size()) + " parts; at most " + Str(kMaxParts) +
                     " are read.");
    }
  }
  const std::optional<ArrayBytes> bytes = BytesOf(weight);
  if (!bytes) return Invalid("The bytes of " + what + ShapeText(weight.shape) + " overflow.");
  TRY(CheckParts("the data of " + what, weight.data, bytes->data));
  TRY(CheckParts("the scales of " + what, weight.scale, bytes->scale));
  if (weight.zero.empty()) return OkStatus();
  return CheckParts("the zero points of " + what, weight.zero,
                    weight.dtype == DType::kQ4 ? bytes->zero : 0);
}

}  // namespace weft::program
