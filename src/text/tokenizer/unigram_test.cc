// Unigram vocabularies made up for one rule each, quoted text, and files that are wrong.
// (native_oracle_test.cc compares whole vocabularies with the library.)
#include "text/tokenizer/unigram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "text/test_time.h"
#include "text/tokenizer/tokenizer.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

namespace json = boost::json;

json::object UnigramFile(json::array vocab) {
  return {{"version", "1.0"},
          {"added_tokens", json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", nullptr},
          {"decoder", nullptr},
          {"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", std::move(vocab)}}}};
}

Result<Tokenizer> Load(const json::object& file) {
  return Tokenizer::FromJson(AsBytes(json::serialize(file)));
}

std::vector<std::string> TokensOf(const json::object& file, std::string_view text,
                                  bool parse_special = true) {
  const auto tokenizer = Load(file);
  if (!tokenizer.ok()) return {tokenizer.error().message()};
  const auto ids = tokenizer->Encode(text, false, parse_special);
  if (!ids.ok()) return {ids.error().message()};
  std::vector<std::string> tokens;
  for (const int32_t id : *ids) tokens.emplace_back(tokenizer->TokenText(id));
  return tokens;
}

TEST(Unigram, TheLargestSumOfScoresWins) {
  const auto file = UnigramFile({{"<unk>", 0},
                                 {"a", 0.0},
                                 {"b", 0.0},
                                 {"c", 0.0},
                                 {"d", 0.0},
                                 {"cd", 1.0},
                                 {"ab", 2.0},
                                 {"abc", 5.0},
                                 {"abcd", 10.0}});
  EXPECT_THAT(TokensOf(file, "abcdacd"), ElementsAre("abcd", "a", "cd"));
  // Of equal sums the path stays that was found first: the one whose last token is the longest.
  const auto ties = UnigramFile({{"<unk>", -9}, {"a", -1}, {"aa", -2}, {"aaa", -3}});
  EXPECT_THAT(TokensOf(ties, "aaaaa"), ElementsAre("aa", "aaa"));
}

// An unknown character costs ten more than the worst token, and a run of them is one token.
TEST(Unigram, WhatAnUnknownCharacterCosts) {
  // a and an unknown b: score of a - 5 - 10, against -5 for ab.
  const auto file = [](double score) {
    return UnigramFile({{"<unk>", 0}, {"a", score}, {"ab", -5}});
  };
  EXPECT_THAT(TokensOf(file(9.9), "ab"), ElementsAre("ab"));
  EXPECT_THAT(TokensOf(file(10.1), "ab"), ElementsAre("a", "<unk>"));
  EXPECT_THAT(TokensOf(file(10.1), "xyzaxyab"), ElementsAre("<unk>", "a", "<unk>", "a", "<unk>"));
  // Three unknown characters make 45, xy and an unknown one 44.9 or 45.1.
  const auto high = [](double score) { return UnigramFile({{"<unk>", 25}, {"xy", score}}); };
  EXPECT_THAT(TokensOf(high(29.9), "xyz"), ElementsAre("<unk>"));
  EXPECT_THAT(TokensOf(high(30.1), "xyz"), ElementsAre("xy", "<unk>"));
  // A run of them that is a token's text is that token.
  EXPECT_THAT(TokensOf(high(29.9), "xy"), ElementsAre("xy"));
}

TEST(Unigram, BytesStandForWhatNoTokenSpells) {
  json::array vocab{{"<unk>", 0}, {"a", -1}};
  for (const char* hex : {"<0xC3>", "<0xA9>", "<0x78>"}) vocab.push_back({hex, -5});
  auto file = UnigramFile(vocab);
  file["model"].as_object()["byte_fallback"] = true;
  EXPECT_THAT(TokensOf(file, "aéxa"), ElementsAre("a", "<0xC3>", "<0xA9>", "<0x78>", "a"));
  // One byte is missing: the whole run is unknown.
  EXPECT_THAT(TokensOf(file, "aéya"), ElementsAre("a", "<unk>", "a"));
  file["model"].as_object()["unk_id"] = nullptr;
  EXPECT_THAT(TokensOf(file, "aya"), ElementsAre(HasSubstr("no token for the character \"y\"")));
}

// Text of others must not become control tokens, which the vocabulary holds as tokens like any.
TEST(Unigram, QuotedTextHasNoControlTokens) {
  auto file = UnigramFile({{"<unk>", 0}, {"</s>", 0}, {"<", -3}, {"/", -3}, {"s", -3}, {">", -3}});
  file["added_tokens"] =
      json::array{{{"id", 1}, {"content", "</s>"}, {"special", true}},
                  {{"id", 6}, {"content", "X"}, {"special", false}, {"normalized", false}}};
  file["normalizer"] = {{"type", "NFKC"}};
  EXPECT_THAT(TokensOf(file, "</s>"), ElementsAre("</s>"));
  EXPECT_THAT(TokensOf(file, "</s>", false), ElementsAre("<", "/", "s", ">"));
  // Normalisation makes the token's text of other characters.
  EXPECT_THAT(TokensOf(file, "＜/s＞"), ElementsAre("</s>"));
  EXPECT_THAT(TokensOf(file, "＜/s＞", false), ElementsAre("<", "/", "s", ">"));
  const auto tokenizer = *Load(file);
  const std::string text = "＜/s＞</s>＜/s＞";
  const size_t token_at = text.find("</s>");
  EXPECT_THAT(*tokenizer.Encode({text, {{0, 3}}}), ElementsAre(2, 3, 4, 5, 1, 1));
  EXPECT_THAT(*tokenizer.Encode({text, {{token_at, token_at + 1}}}),
              ElementsAre(2, 3, 4, 5, 2, 3, 4, 5, 2, 3, 4, 5));
  EXPECT_THAT(*tokenizer.Encode({text, {{text.size() - 1, text.size()}}}),
              ElementsAre(1, 1, 2, 3, 4, 5));
  // What is quoted ends where the text of the token begins.
  EXPECT_THAT(*tokenizer.Encode({"X＜/s＞", {{0, 1}}}), ElementsAre(6, 1));
}

TEST(Unigram, FilesThatAreWrongNameTheirField) {
  const auto fault = [](auto change) {
    auto file = UnigramFile({{"<unk>", 0}, {"a", -1}});
    change(file["model"].as_object());
    const auto tokenizer = Load(file);
    return tokenizer.ok() ? "ok" : tokenizer.error().message();
  };
  EXPECT_EQ(fault([](json::object&) {}), "ok");
  EXPECT_EQ(fault([](auto& m) { m.erase("type"); }), "ok");  // T5's file is so old
  EXPECT_THAT(fault([](auto& m) {
                m["vocab"] = json::object{{"a", 1}};
              }),
              HasSubstr("model.vocab must be an array"));
  EXPECT_THAT(fault([](auto& m) { m["vocab"] = json::array{"a"}; }), HasSubstr("vocab[0]"));
  EXPECT_THAT(fault([](auto& m) {
                m["vocab"] = json::array{json::array{"a", "b"}};
              }),
              HasSubstr("[\"token\", -1.5]"));
  EXPECT_THAT(
      fault([](auto& m) {
        m["vocab"] = json::array{json::array{"a", 1}, json::array{std::string(2000, 'a'), 1}};
      }),
      HasSubstr("vocab[1] has 2000 bytes"));
  EXPECT_THAT(fault([](auto& m) { m["unk_id"] = 2; }), HasSubstr("unk_id is 2"));
  EXPECT_THAT(fault([](auto& m) { m["unk_id"] = -1; }), HasSubstr("unk_id is -1"));
  EXPECT_THAT(fault([](auto& m) { m["vocab"] = json::array(); }), HasSubstr("unk_id"));
  const auto file = json::serialize(UnigramFile({{"<unk>", 0}, {"a", 7}}));
  std::string infinite = file;
  infinite.replace(infinite.find("7]"), 1, "1e999");
  const auto tokenizer = Tokenizer::FromJson(AsBytes(infinite));
  ASSERT_FALSE(tokenizer.ok());
}

// As files of llm-jp end: an expression that is a text, and one that is Strip.
TEST(Unigram, DecodersThatReplaceExpressions) {
  auto file = UnigramFile({{"<unk>", 0}, {"_a", -1}, {"_", -2}, {"\n", -2}});
  const auto replace = [](const char* expression, const char* content) {
    return json::object{
        {"type", "Replace"}, {"pattern", {{"Regex", expression}}}, {"content", content}};
  };
  const auto decode = [&](json::array decoders) {
    file["decoder"] = {{"type", "Sequence"}, {"decoders", std::move(decoders)}};
    const auto tokenizer = Load(file);
    return tokenizer.ok() ? tokenizer->Decode(std::vector<int32_t>{1, 2, 3, 1}, false)
                          : tokenizer.error().message();
  };
  const json::object fuse{{"type", "Fuse"}};
  const json::object front = replace("(?<!\\n)^ ", "");
  EXPECT_EQ(decode({replace("_", " "), fuse}), " a \n a");
  EXPECT_EQ(decode({replace("_", " "), fuse, front}), "a \n a");
  EXPECT_THAT(decode({replace("_+", " "), fuse}),
              HasSubstr("replaces \"_+\"; weft replaces plain"));
  EXPECT_THAT(decode({replace("_", " "), front}), HasSubstr("(?<!"));
  EXPECT_THAT(decode({fuse, replace("_", " ")}), HasSubstr("replaces \"_\" after Fuse"));
}

TEST(Unigram, TimeIsLinear) {
  json::array vocab{{"<unk>", 0}};
  for (size_t length = 1; length <= 16; ++length) {
    vocab.push_back({std::string(length, 'a'), -1.0 / static_cast<double>(length)});
    vocab.push_back({std::string(length, 'b') + "c", -2});
  }
  const auto tokenizer = *Load(UnigramFile(vocab));
  for (const char* unit : {"a", "b", "x", "ab", "bc"}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    const double start = ThreadSeconds();
    EXPECT_TRUE(tokenizer.Encode(text, false).ok());
    EXPECT_LT(ThreadSeconds() - start, 5 * kTimeLimitFactor) << unit;
  }
}

}  // namespace
}  // namespace weft
