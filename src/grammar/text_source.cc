#include "grammar/text_source.h"

#include <algorithm>
#include <charconv>

#include "base/sentence.h"
#include "grammar/code_points.h"
#include "grammar/utf8.h"

namespace weft::grammar {

bool TextSource::Take(std::string_view text) {
  if (!text_.substr(at_).starts_with(text)) return false;
  at_ += text.size();
  return true;
}

std::string_view TextSource::TakeWhile(bool (*is_one)(char)) {
  const size_t begin = at_;
  while (at_ < text_.size() && is_one(text_[at_])) ++at_;
  return text_.substr(begin, at_ - begin);
}

uint32_t TextSource::TakeCodePoint() {
  return NextCodePoint(text_, at_).value_or(0xFFFD);
}

std::optional<uint32_t> TextSource::TakeHex(size_t digits) {
  const std::string_view text = text_.substr(at_, digits);
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() < digits || error != std::errc() || end != text.data() + digits ||
      value > kLastCodePoint || (value >= kFirstSurrogate && value <= kLastSurrogate))
    return std::nullopt;
  at_ += digits;
  return value;
}

std::optional<uint32_t> TextSource::TakeNumber() {
  constexpr size_t kMostDigits = 9;
  const std::string_view text = text_.substr(at_, kMostDigits);
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  at_ += static_cast<size_t>(end - text.data());
  return value;
}

Error TextSource::Fail(const std::string& sentence) const {
  return FailAt(at_, sentence);
}

Error TextSource::FailAt(size_t at, const std::string& sentence) const {
  constexpr size_t kShownBytes = 30;
  // Neither end in the middle of a character.
  const auto is_inside = [this](size_t place) {
    return place < text_.size() && (static_cast<uint8_t>(text_[place]) & 0xC0) == 0x80;
  };
  size_t begin = at - std::min(at, kShownBytes);
  size_t end = std::min(text_.size(), at + kShownBytes);
  while (is_inside(begin)) ++begin;
  while (is_inside(end)) --end;
  return Error(ErrorCode::kInvalidArgument,
               Sentence(what_, " ", sentence, ", at byte ", at, ", behind '",
                        text_.substr(begin, at - begin), "' and in front of '",
                        text_.substr(at, end - at), "'."));
}

}  // namespace weft::grammar
