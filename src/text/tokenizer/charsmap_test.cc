// Precompiled character maps written by hand, and such as nobody should send.
#include "text/tokenizer/charsmap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "text/tokenizer/graphemes.h"
#include "text/tokenizer/tokenizer.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint32_t kEnd = 1u << 31;

// The map of "a" -> "X" and "ab" -> "YZ". Offsets are against the unit's own place.
std::vector<uint32_t> SmallMap() {
  std::vector<uint32_t> units(256);
  const auto node = [](uint32_t at, uint8_t byte, uint32_t children, bool ends) {
    return byte | (ends ? 1u << 8 : 0) | (at ^ children) << 10;
  };
  units[0] = node(0, 0, 1, false);
  units[1 ^ 'a'] = node(1 ^ 'a', 'a', 4, true);
  units[4] = kEnd | 0;
  units[4 ^ 'b'] = node(4 ^ 'b', 'b', 8, true);
  units[8] = kEnd | 2;
  return units;
}

std::vector<uint8_t> Bytes(const std::vector<uint32_t>& units, std::string_view replacements) {
  std::vector<uint8_t> bytes(4 + 4 * units.size());
  StoreLe<uint32_t>(bytes.data(), static_cast<uint32_t>(4 * units.size()));
  for (size_t i = 0; i < units.size(); ++i) StoreLe(bytes.data() + 4 + 4 * i, units[i]);
  bytes.insert(bytes.end(), replacements.begin(), replacements.end());
  return bytes;
}

const std::string kReplacements("X\0YZ\0\xC3\xA9", 7);

std::string Fault(const std::vector<uint8_t>& bytes) {
  const auto map = Charsmap::FromBytes(bytes);
  return map.ok() ? "ok" : map.error().message();
}

TEST(Charsmap, ReplacesByTheShortestOrTheLongest) {
  const auto map = *Charsmap::FromBytes(Bytes(SmallMap(), kReplacements));
  EXPECT_EQ(map.Shortest("ab")->replacement, "X");
  EXPECT_EQ(map.Shortest("ab")->byte_count, 1u);
  EXPECT_EQ(map.Longest("abc")->replacement, "YZ");
  EXPECT_EQ(map.Longest("abc")->byte_count, 2u);
  EXPECT_FALSE(map.Longest("b").has_value());
  EXPECT_FALSE(map.Longest("").has_value());
  EXPECT_FALSE(map.Longest(std::string_view("\0a", 2)).has_value());
  EXPECT_EQ(ReplaceByCharacters(map, "abca\u0301é"), "XbcXé");
  EXPECT_EQ(ReplaceLongest(map, "abca\u0301é"), "YZcX\u0301é");
}

TEST(Charsmap, WhatLeadsOutsideIsRefused) {
  EXPECT_EQ(Fault(Bytes(SmallMap(), kReplacements)), "ok");
  EXPECT_THAT(Fault({}), HasSubstr("under four"));
  EXPECT_THAT(Fault({0, 4, 0}), HasSubstr("under four"));
  EXPECT_THAT(Fault({0, 0, 0, 0}), HasSubstr("multiple of 1024"));
  EXPECT_THAT(Fault({0xFF, 0xFF, 0xFF, 0xFF}), HasSubstr("multiple of 1024"));
  auto bytes = Bytes(SmallMap(), kReplacements);
  bytes.resize(1000);
  EXPECT_THAT(Fault(bytes), HasSubstr("within its 1000 bytes"));
  bytes = Bytes(std::vector<uint32_t>(100), "");
  EXPECT_THAT(Fault(bytes), HasSubstr("multiple of 1024"));
  auto units = SmallMap();
  units[1 ^ 'a'] |= 1u << 18;
  EXPECT_THAT(Fault(Bytes(units, kReplacements)), HasSubstr("leads from unit 96 to 260"));
  units = SmallMap();
  units[7] = 1u << 9 | 1u << 10;  // 256 units further
  EXPECT_THAT(Fault(Bytes(units, kReplacements)), HasSubstr("leads from unit 7 to 263"));
  units = SmallMap();
  units[4] = kEnd | 8;
  EXPECT_THAT(Fault(Bytes(units, kReplacements)), HasSubstr("replacement at byte 8 of 7"));
  units[4] = kEnd | 6;  // the second byte of é
  EXPECT_THAT(Fault(Bytes(units, kReplacements)), HasSubstr("replacement at byte 6"));
  units[4] = kEnd | 7;  // the end: nothing
  EXPECT_EQ(Fault(Bytes(units, kReplacements)), "ok");
  EXPECT_THAT(Fault(Bytes(SmallMap(), "\xFF")), HasSubstr("not valid UTF-8"));
}

// A node that is its own child ends with the text.
TEST(Charsmap, CirclesEnd) {
  auto units = SmallMap();
  units['a'] = 'a' | 'a' << 10;
  units[0] = 0;
  const auto map = *Charsmap::FromBytes(Bytes(units, kReplacements));
  EXPECT_FALSE(map.Longest(std::string(1000, 'a')).has_value());
}

TEST(Charsmap, Base64) {
  for (const std::string_view text : {"", "a", "ab", "abc", "\xFF\xFE\xFD\xFC"}) {
    const auto bytes = FromBase64(ToBase64(AsBytes(text)));
    ASSERT_TRUE(bytes.has_value()) << text;
    EXPECT_EQ(AsText(*bytes), text);
  }
  EXPECT_EQ(ToBase64(AsBytes("\xFB\xFF\xBF?")), "+/+/Pw==");
  for (const char* wrong : {"a", "ab", "abc", "ab=c", "a===", "====", "abcd=", "ab c",
                            "ab\n=", "aa-_", "ab==", "abd=", "YQ==YQ=="}) {
    EXPECT_FALSE(FromBase64(wrong).has_value()) << wrong;
  }
}

TEST(Charsmap, TokenizersNameTheField) {
  boost::json::object file{
      {"model",
       {{"type", "Unigram"},
        {"unk_id", 0},
        {"vocab", boost::json::array{{"<unk>", 0}, {"X", -1}, {"Y", -1}}}}},
      {"normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "!"}}}};
  const auto message = [&](std::string_view map) {
    file["normalizer"].as_object()["precompiled_charsmap"] = map;
    const auto tokenizer = Tokenizer::FromJson(AsBytes(boost::json::serialize(file)));
    return tokenizer.ok() ? "ok" : tokenizer.error().ToString();
  };
  EXPECT_THAT(message("!"), HasSubstr("precompiled_charsmap must be base64"));
  EXPECT_THAT(message("AAAA"), HasSubstr("under four"));
  EXPECT_EQ(message(ToBase64(Bytes(SmallMap(), kReplacements))), "ok");
}

TEST(Graphemes, CutsWhereUsersDo) {
  const auto cut = [](std::string_view text) {
    std::vector<std::string> parts;
    Graphemes graphemes(text);
    for (auto part = graphemes.Next(); !part.empty(); part = graphemes.Next()) {
      parts.emplace_back(part);
    }
    return parts;
  };
  EXPECT_THAT(cut("a\r\nb\n\r"), ElementsAre("a", "\r\n", "b", "\n", "\r"));
  EXPECT_THAT(cut("e\u0301\u0323x"), ElementsAre("e\u0301\u0323", "x"));
  EXPECT_THAT(cut("🇩🇪🇫🇷🇯"), ElementsAre("🇩🇪", "🇫🇷", "🇯"));
  EXPECT_THAT(cut("👩\u200d👧👧"), ElementsAre("👩\u200d👧", "👧"));
  // Consonants that a virama joins, also across a joiner, but not across a non-joiner.
  EXPECT_THAT(cut("क्कक"), ElementsAre("क्क", "क"));
  EXPECT_THAT(cut("क्\u200dक"), ElementsAre("क्\u200dक"));
  EXPECT_THAT(cut("क्\u200cक"), ElementsAre("क्\u200c", "क"));
  EXPECT_THAT(cut("का"), ElementsAre("का"));
}

}  // namespace
}  // namespace weft
