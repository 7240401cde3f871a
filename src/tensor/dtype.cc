#include "tensor/dtype.h"

#include <array>
#include <utility>

#include "base/check.h"

namespace weft {
namespace {

constexpr std::array<std::pair<DType, std::string_view>, 14> kNames = {{
    {DType::kF32, "f32"},
    {DType::kF16, "f16"},
    {DType::kBF16, "bf16"},
    {DType::kI32, "i32"},
    {DType::kI64, "i64"},
    {DType::kU8, "u8"},
    {DType::kI8, "i8"},
    {DType::kBool, "bool"},
    {DType::kQ8, "q8"},
    {DType::kQ4, "q4"},
    {DType::kQ4S, "q4s"},
    {DType::kQ4K, "q4k"},
    {DType::kQ5K, "q5k"},
    {DType::kQ6K, "q6k"},
}};

}  // namespace

std::string_view DTypeName(DType dtype) {
  for (const auto& [known, name] : kNames) {
    if (known == dtype) return name;
  }
  return "unknown";
}

std::optional<DType> DTypeFromName(std::string_view wanted) {
  for (const auto& [dtype, name] : kNames) {
    if (name == wanted) return dtype;
  }
  return std::nullopt;
}

int64_t ElementBytes(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kI64:
      return 8;
    case DType::kU8:
    case DType::kI8:
    case DType::kBool:
      return 1;
    case DType::kQ8:
    case DType::kQ4:
    case DType::kQ4S:
    case DType::kQ4K:
    case DType::kQ5K:
    case DType::kQ6K:
      break;
  }
  CHECK(false, "block formats have no element size");
  return 0;
}

int64_t BlockDataBytes(DType dtype) {
  CHECK(IsBlockFormat(dtype));
  return dtype == DType::kQ8 ? 32 : 16;
}

}  // namespace weft
