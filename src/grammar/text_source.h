// A grammar's source while it is read: where the reader is, and errors that say where that was.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace weft::grammar {

class TextSource {
 public:
  // `what` begins its errors: "The regular expression".
  TextSource(std::string_view text, std::string what) : text_(text), what_(std::move(what)) {}

  bool at_end() const { return at_ == text_.size(); }
  size_t at() const { return at_; }
  // 0 at the end; the byte `ahead` of the next one.
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void Skip(size_t bytes = 1) { at_ += bytes; }
  // Moves past `text` where it comes next.
  bool Take(std::string_view text);
  // Bytes while they are among `set`.
  std::string_view TakeWhile(bool (*is_one)(char));
  // The next character. REQUIRES: !at_end(), and well-formed text.
  uint32_t TakeCodePoint();
  // Exactly so many hexadecimal digits; nullopt where others come, or they are no character.
  std::optional<uint32_t> TakeHex(size_t digits);
  // A number of 1 to 9 digits; nullopt where none comes.
  std::optional<uint32_t> TakeNumber();

  // kInvalidArgument: "WHAT SENTENCE, at character 7: 'abc('".
  Error Fail(const std::string& sentence) const;
  // The same of another place.
  Error FailAt(size_t at, const std::string& sentence) const;

 private:
  std::string_view text_;
  std::string what_;
  size_t at_ = 0;
};

}  // namespace weft::grammar
