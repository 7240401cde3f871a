#include "convert/source/gguf_metadata.h"

#include <algorithm>
#include <cmath>

#include "convert/source/json_reader.h"

namespace weft::convert {
namespace {

// Value `i` of numbers or truth values; exact for whole numbers up to 2^53.
double NumberAt(const GgufValue& value, uint64_t i) {
  const uint8_t* at = value.bytes.data() + i * GgufTypeBytes(value.type);
  switch (value.type) {
    case GgufType::kU8:
    case GgufType::kBool:
      return *at;
    case GgufType::kI8:
      return LoadLe<int8_t>(at);
    case GgufType::kU16:
      return LoadLe<uint16_t>(at);
    case GgufType::kI16:
      return LoadLe<int16_t>(at);
    case GgufType::kU32:
      return LoadLe<uint32_t>(at);
    case GgufType::kI32:
      return LoadLe<int32_t>(at);
    case GgufType::kU64:
      return static_cast<double>(LoadLe<uint64_t>(at));
    case GgufType::kI64:
      return static_cast<double>(LoadLe<int64_t>(at));
    case GgufType::kF32:
      return static_cast<double>(LoadLe<float>(at));
    case GgufType::kF64:
      return LoadLe<double>(at);
    default:
      return NAN;
  }
}

std::string NumberText(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.15g", number);
  return text;
}

// What a value is, for error sentences.
std::string Described(const GgufValue& value) {
  if (value.is_array) return "an array of " + std::to_string(value.count);
  if (value.type == GgufType::kText) {
    return "the text '" + Printable(AsText(value.bytes.subspan(8))) + "'";
  }
  return NumberText(NumberAt(value, 0));
}

}  // namespace

uint64_t GgufTypeBytes(GgufType type) {
  static constexpr uint64_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  const auto index = static_cast<uint32_t>(type);
  return index < std::size(kBytes) ? kBytes[index] : 0;
}

const GgufValue* GgufMetadata::Find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

Error GgufMetadata::Missing(std::string_view key) const {
  return Error(ErrorCode::kInvalidData,
               "'" + file_ + "' has no '" + std::string(key) + "' in its metadata.");
}

Error GgufMetadata::Wrong(std::string_view key, const std::string& found,
                          const std::string& expected) const {
  return Error(ErrorCode::kInvalidData, "'" + std::string(key) + "' in the metadata of '" + file_ +
                                            "' is " + found + "; expected " + expected + ".");
}

Result<double> GgufMetadata::Single(std::string_view key, const GgufValue& value,
                                    const std::string& expected) const {
  if (value.type == GgufType::kText || value.type == GgufType::kBool || value.count == 0) {
    return Wrong(key, Described(value), expected);
  }
  const double first = NumberAt(value, 0);
  for (uint64_t i = 1; i < value.count; ++i) {
    if (NumberAt(value, i) == first) continue;
    return Error(ErrorCode::kUnsupported, "'" + std::string(key) + "' in the metadata of '" +
                                              file_ + "' is " + NumberText(first) +
                                              " for layer 0 and " + NumberText(NumberAt(value, i)) +
                                              " for layer " + std::to_string(i) +
                                              "; weft converts models whose layers are alike.");
  }
  return first;
}

Result<uint64_t> GgufMetadata::Whole(std::string_view key, uint64_t least, uint64_t most,
                                     std::optional<uint64_t> if_absent) const {
  const GgufValue* value = Find(key);
  if (value == nullptr && if_absent) return *if_absent;
  if (value == nullptr) return Missing(key);
  const std::string expected =
      "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  ASSIGN_OR_RETURN(const double number, Single(key, *value, expected));
  if (!(number >= static_cast<double>(least) && number <= static_cast<double>(most)) ||
      number != std::floor(number)) {
    return Wrong(key, NumberText(number), expected);
  }
  return static_cast<uint64_t>(number);
}

Result<double> GgufMetadata::Real(std::string_view key, double least, double most,
                                  std::optional<double> if_absent) const {
  const GgufValue* value = Find(key);
  if (value == nullptr && if_absent) return *if_absent;
  if (value == nullptr) return Missing(key);
  const std::string expected = "a number from " + NumberText(least) + " to " + NumberText(most);
  ASSIGN_OR_RETURN(const double number, Single(key, *value, expected));
  if (!(number >= least && number <= most)) return Wrong(key, NumberText(number), expected);
  return number;
}

Result<bool> GgufMetadata::Bool(std::string_view key, bool if_absent) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return if_absent;
  // Writers take a byte or a number for it, too.
  const bool is_whole = value->type != GgufType::kText && value->type != GgufType::kF32 &&
                        value->type != GgufType::kF64;
  const double number = value->is_array || !is_whole ? NAN : NumberAt(*value, 0);
  if (number != 0 && number != 1) return Wrong(key, Described(*value), "a truth value, 0 or 1");
  return number == 1;
}

Result<std::string> GgufMetadata::Text(std::string_view key,
                                       std::optional<std::string> if_absent) const {
  const GgufValue* value = Find(key);
  if (value == nullptr && if_absent) return *if_absent;
  if (value == nullptr) return Missing(key);
  if (value->is_array || value->type != GgufType::kText) {
    return Wrong(key, Described(*value), "a text");
  }
  return std::string(AsText(value->bytes.subspan(8)));
}

Result<std::vector<std::string>> GgufMetadata::Texts(std::string_view key) const {
  std::vector<std::string> texts;
  const GgufValue* value = Find(key);
  if (value == nullptr) return texts;
  if (!value->is_array || value->type != GgufType::kText) {
    return Wrong(key, Described(*value), "an array of texts");
  }
  texts.reserve(value->count);
  ByteSpan rest = value->bytes;
  for (uint64_t i = 0; i < value->count; ++i) {
    const auto length = LoadLe<uint64_t>(rest.data());
    texts.emplace_back(AsText(rest.subspan(8, length)));
    rest = rest.subspan(8 + length);
  }
  return texts;
}

Result<std::vector<double>> GgufMetadata::Numbers(std::string_view key) const {
  std::vector<double> numbers;
  const GgufValue* value = Find(key);
  if (value == nullptr) return numbers;
  if (value->type == GgufType::kText) {
    return Wrong(key, Described(*value), "numbers");
  }
  numbers.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i) numbers.push_back(NumberAt(*value, i));
  return numbers;
}

}  // namespace weft::convert
