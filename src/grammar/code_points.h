// Sets of Unicode code points, and the byte sequences of UTF-8 that they are: what classes of
// regular expressions and of GBNF come to.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace weft::grammar {

inline constexpr uint32_t kLastCodePoint = 0x10FFFF;
inline constexpr uint32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

// Both ends are in it.
struct CodePointRange {
  uint32_t first = 0, last = 0;
  bool operator==(const CodePointRange&) const = default;
};

// Surrogates are never in a set: no text in UTF-8 has them.
class CodePointSet {
 public:
  CodePointSet() = default;
  CodePointSet(std::initializer_list<CodePointRange> ranges) {
    for (const CodePointRange& range : ranges) Add(range.first, range.last);
  }
  static CodePointSet All() { return {{0, kLastCodePoint}}; }

  // Code points from `first` to `last`; none where last < first.
  void Add(uint32_t first, uint32_t last);
  void Add(uint32_t code_point) { Add(code_point, code_point); }
  void Add(const CodePointSet& other);

  bool Contains(uint32_t code_point) const;
  bool empty() const { return ranges_.empty(); }
  CodePointSet Complement() const;
  CodePointSet Minus(const CodePointSet& other) const;
  CodePointSet And(const CodePointSet& other) const { return Minus(other.Complement()); }

  // In order, apart from each other.
  const std::vector<CodePointRange>& ranges() const { return ranges_; }
  bool operator==(const CodePointSet&) const = default;

 private:
  std::vector<CodePointRange> ranges_;
};

// Both ends are in it.
struct ByteRange {
  uint8_t first = 0, last = 0;
  bool operator==(const ByteRange&) const = default;
};

// One to four ranges, one for each byte: every choice of bytes from them is one character.
using ByteSequence = std::vector<ByteRange>;

// The set as UTF-8. An example: U+0070 to U+0800 is 70-7F, C2-DF 80-BF and E0 A0 80.
std::vector<ByteSequence> Utf8Sequences(const CodePointSet& set);

}  // namespace weft::grammar
