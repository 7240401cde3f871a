#include "grammar/code_points.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "grammar/utf8.h"

namespace weft::grammar {
namespace {

bool Fits(const std::vector<ByteSequence>& sequences, std::string_view bytes) {
  return std::ranges::any_of(sequences, [&](const ByteSequence& sequence) {
    if (sequence.size() != bytes.size()) return false;
    for (size_t i = 0; i < bytes.size(); ++i) {
      const auto byte = static_cast<uint8_t>(bytes[i]);
      if (byte < sequence[i].first || byte > sequence[i].last) return false;
    }
    return true;
  });
}

TEST(CodePointSet, JoinsWhatTouches) {
  CodePointSet set = {{'a', 'c'}, {'x', 'z'}};
  set.Add('d', 'w');
  EXPECT_EQ(set.ranges(), (std::vector<CodePointRange>{{'a', 'z'}}));
  EXPECT_EQ(CodePointSet::All().ranges(),
            (std::vector<CodePointRange>{{0, 0xD7FF}, {0xE000, 0x10FFFF}}))
      << "without surrogates";
  EXPECT_EQ(CodePointSet::All().Complement(), CodePointSet());
}

TEST(CodePointSet, OperationsAreThoseOfSets) {
  SeededRandom random(1);
  const auto some = [&random] {
    CodePointSet set;
    for (int i = 0; i < 6; ++i) {
      const auto first = static_cast<uint32_t>(random.Below(200));
      set.Add(first, first + static_cast<uint32_t>(random.Below(20)));
    }
    return set;
  };
  for (int round = 0; round < 200; ++round) {
    const CodePointSet a = some(), b = some();
    for (uint32_t c = 0; c < 230; ++c) {
      EXPECT_EQ(a.Minus(b).Contains(c), a.Contains(c) && !b.Contains(c));
      EXPECT_EQ(a.And(b).Contains(c), a.Contains(c) && b.Contains(c));
    }
  }
}

TEST(Utf8Sequences, AreExactlyTheCharactersOfTheSet) {
  SeededRandom random(2);
  for (int round = 0; round < 30; ++round) {
    CodePointSet set;
    for (int i = 0; i < 3; ++i) {
      // Near the places where lengths change, and far from them.
      constexpr uint32_t kNear[] = {0x70, 0x7F0, 0xD7F0, 0xDFF0, 0xFFF0, 0x10FFF0, 0x3000, 0x1F600};
      const uint32_t first = kNear[random.Below(8)] + static_cast<uint32_t>(random.Below(32));
      set.Add(first, first + static_cast<uint32_t>(random.Below(round % 2 == 0 ? 20 : 5000)));
    }
    const auto sequences = Utf8Sequences(set);
    for (int i = 0; i < 3000; ++i) {
      const auto code_point = static_cast<uint32_t>(
          i % 2 == 0 ? random.Below(kLastCodePoint + 1)
                     : set.ranges()[random.Below(set.ranges().size())].first + random.Below(40));
      if (code_point > kLastCodePoint ||
          (code_point >= kFirstSurrogate && code_point <= kLastSurrogate))
        continue;
      std::string bytes;
      AppendUtf8(bytes, code_point);
      EXPECT_EQ(Fits(sequences, bytes), set.Contains(code_point)) << std::hex << code_point;
      size_t at = 0;
      EXPECT_EQ(NextCodePoint(bytes, at), code_point);
      EXPECT_EQ(at, bytes.size());
    }
  }
}

TEST(Utf8, IllFormedBytesAreNone) {
  for (const char* bad : {"\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
                          "\xF4\x90\x80\x80", "\xF8\x88\x80\x80\x80", "\xE2\x82", "a\xFF"})
    EXPECT_FALSE(IsUtf8(bad)) << bad;
  EXPECT_TRUE(IsUtf8("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"));
}

}  // namespace
}  // namespace weft::grammar
