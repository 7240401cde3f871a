// Literals as models write them, JSON's and Python's alike, read and written as JSON:
//
//   {'city': "Zürich", "days": [1, 2.50], 'exact': True}
//   {"city": "Zürich", "days": [1, 2.50], "exact": true}
//
// Numbers keep their digits. Strings may have line breaks. What is neither language is refused.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::chat {

// Gives `text` as a string of JSON, in quotes.
std::string Quoted(std::string_view text);

// A member is a key and its value, as JSON.
using Member = std::pair<std::string, std::string>;
// Gives the members as an object of JSON.
std::string ObjectOf(const std::vector<Member>& members);

// Reads one thing after another from a text that outlives it. What gives false has read nothing
// that counts: the reader is then of no more use.
class LiteralReader {
 public:
  static constexpr int kMaxDepth = 64;

  explicit LiteralReader(std::string_view text, size_t at = 0) : text_(text), at_(at) {}

  size_t at() const { return at_; }
  std::string_view rest() const { return text_.substr(at_); }
  void SkipSpace();
  bool Accept(std::string_view expected);  // white space before it is passed over
  bool AtEnd();                            // but for white space
  // Reads everything up to `stop`, which is passed over.
  bool Until(std::string_view stop, std::string_view* found);

  // Reads any value, and appends it to `json`.
  bool Value(std::string* json);
  // Reads what a string says.
  bool String(std::string* text);
  // Reads an object's members, in order.
  bool Members(std::vector<Member>* members);
  // Reads the longest run of letters, digits and any of _.- there is; false: there is none.
  bool Name(std::string* name);

 private:
  bool Escape(std::string* text);
  bool Hex(int digits, uint32_t* code);
  bool Number(std::string* json);
  bool Word(std::string* json);
  bool Items(char close, std::string* json, bool with_keys);

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace weft::chat
