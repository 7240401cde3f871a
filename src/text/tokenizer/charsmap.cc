#include "text/tokenizer/charsmap.h"

#include <algorithm>
#include <array>

#include "text/tokenizer/graphemes.h"
#include "text/utf8.h"

namespace weft {
namespace {

constexpr size_t kBlockUnits = 256;
constexpr uint32_t kEndUnit = 1u << 31;
// Longer user-perceived characters are replaced code point by code point.
constexpr size_t kMaxWholeBytes = 5;

bool HasEnd(uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
uint32_t Offset(uint32_t unit) {
  return (unit >> 10) << ((unit & 1u << 9) >> 6);
}

Error Wrong(const std::string& what) {
  return Error(ErrorCode::kInvalidData, "The precompiled character map " + what);
}

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

// Children of a node lie in one block of 256 units: where the node's own offset leads into the
// array, and the array is whole blocks, no byte leads out of it.
Result<Charsmap> Charsmap::FromBytes(ByteSpan bytes) {
  if (bytes.size() < 4) return Wrong("has " + std::to_string(bytes.size()) + " bytes, under four.");
  const size_t array_bytes = LoadLe<uint32_t>(bytes.data());
  if (array_bytes > bytes.size() - 4 || array_bytes == 0 || array_bytes % (4 * kBlockUnits) != 0) {
    return Wrong("says that its array has " + std::to_string(array_bytes) +
                 " bytes, which must be a multiple of 1024 within its " +
                 std::to_string(bytes.size()) + " bytes.");
  }
  Charsmap map;
  map.units_.resize(array_bytes / 4);
  std::memcpy(map.units_.data(), bytes.data() + 4, array_bytes);
  map.replacements_ = AsText(bytes.subspan(4 + array_bytes));
  if (utf8::FindInvalid(map.replacements_) != std::string_view::npos) {
    return Wrong("has replacements that are not valid UTF-8.");
  }
  for (size_t at = 0; at < map.units_.size(); ++at) {
    const uint32_t unit = map.units_[at];
    if ((unit & kEndUnit) != 0) continue;
    const size_t children = at ^ Offset(unit);
    if (children >= map.units_.size()) {
      return Wrong("leads from unit " + std::to_string(at) + " to " + std::to_string(children) +
                   ", but it has " + std::to_string(map.units_.size()) + " units.");
    }
    if (!HasEnd(unit)) continue;
    const size_t begin = map.units_[children] & ~kEndUnit;
    const bool is_inside = begin < map.replacements_.size();
    if (begin > map.replacements_.size() ||
        (is_inside && (static_cast<uint8_t>(map.replacements_[begin]) & 0xC0) == 0x80)) {
      return Wrong("has a replacement at byte " + std::to_string(begin) + " of " +
                   std::to_string(map.replacements_.size()) +
                   ", which is not where a character begins.");
    }
  }
  return map;
}

std::optional<Charsmap::Match> Charsmap::Find(std::string_view text, bool shortest) const {
  std::optional<Match> found;
  size_t node = Offset(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    const uint32_t unit = units_[node ^ byte];
    if (byte == 0 || (unit & (kEndUnit | 0xFF)) != byte) break;
    node = node ^ byte ^ Offset(unit);
    if (!HasEnd(unit)) continue;
    const size_t begin = units_[node] & ~kEndUnit;
    const size_t end = std::min(replacements_.find('\0', begin), replacements_.size());
    found = {i + 1, std::string_view(replacements_).substr(begin, end - begin)};
    if (shortest) break;
  }
  return found;
}

std::string ReplaceByCharacters(const Charsmap& map, std::string_view text) {
  std::string out;
  out.reserve(text.size());
  Graphemes graphemes(text);
  for (std::string_view whole = graphemes.Next(); !whole.empty(); whole = graphemes.Next()) {
    if (whole.size() <= kMaxWholeBytes) {
      if (const auto match = map.Shortest(whole)) {
        out += match->replacement;
        continue;
      }
    }
    for (size_t at = 0; at < whole.size();) {
      const std::string_view character = whole.substr(at, utf8::LengthOf(whole[at]));
      const auto match = map.Shortest(character);
      out += match ? match->replacement : character;
      at += character.size();
    }
  }
  return out;
}

std::string ReplaceLongest(const Charsmap& map, std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto match = map.Longest(text);
    const size_t byte_count = match ? match->byte_count : utf8::LengthOf(text[0]);
    out += match ? match->replacement : text.substr(0, byte_count);
    text.remove_prefix(byte_count);
  }
  return out;
}

std::optional<std::vector<uint8_t>> FromBase64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  const size_t padding = text.ends_with("==") ? 2 : (text.ends_with('=') ? 1 : 0);
  std::array<int, 256> values;
  values.fill(-1);
  for (size_t i = 0; i < kBase64.size(); ++i) {
    values[static_cast<uint8_t>(kBase64[i])] = static_cast<int>(i);
  }
  std::vector<uint8_t> bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t bits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_padding = i + padding >= text.size();
    const int value = is_padding ? 0 : values[static_cast<uint8_t>(text[i])];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    if (i % 4 != 3) continue;
    for (const int shift : {16, 8, 0}) bytes.push_back(static_cast<uint8_t>(bits >> shift));
  }
  // The bits of the last character that belong to no byte are zero.
  for (size_t i = 0; i < padding; ++i) {
    if (bytes.back() != 0) return std::nullopt;
    bytes.pop_back();
  }
  return bytes;
}

std::string ToBase64(ByteSpan bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) bits = bits << 8 | (j < count ? bytes[i + j] : 0);
    for (size_t j = 0; j < 4; ++j) {
      text += j <= count ? kBase64[bits >> (18 - 6 * j) & 63] : '=';
    }
  }
  return text;
}

}  // namespace weft
