// Which tokens belong to the text that is shown.
#include "api/answer_text.h"

#include <gtest/gtest.h>
#include <weft_source_dir.h>

#include <filesystem>

#include "base/file.h"

namespace weft::api {
namespace {

Tokenizer TinyTokenizer() {
  const auto folder = std::filesystem::path(WEFT_SOURCE_DIR) / "models" / "weft-tiny";
  const auto json = ReadTextFile(folder / "tokenizer.json", 16 << 20);
  return Tokenizer::FromJson(AsBytes(*json)).value();
}

// "text|tokens" of each push, then of the end.
std::string Shown(const Tokenizer& tokenizer, const std::string& answer,
                  std::vector<std::string> stops) {
  AnswerText text(tokenizer, std::move(stops));
  std::string shown;
  const auto note = [&](const std::string& piece) {
    shown += "[" + piece + "|" + std::to_string(text.TakeShownTokens()) + "]";
  };
  const auto ids = tokenizer.Encode(answer, false);
  for (const int32_t id : *ids) note(text.Push(id));
  note(text.Flush());
  return shown;
}

TEST(AnswerText, TokensComeWithTheirText) {
  const Tokenizer tokenizer = TinyTokenizer();
  EXPECT_EQ(Shown(tokenizer, "Long ago, in a quiet forest", {}),
            "[Long|1][ ago|1][,|1][ in|1][ a|1][ quiet|1][ forest|1][|0]");
}

TEST(AnswerText, TokensOfAStopStringNeverCome) {
  const Tokenizer tokenizer = TinyTokenizer();
  EXPECT_EQ(Shown(tokenizer, "Long ago, in a quiet forest", {"quiet forest"}),
            "[Long|1][ ago|1][,|1][ in|1][ a|1][ |1][|0][|0]");
  EXPECT_EQ(Shown(tokenizer, "Long ago, in a quiet forest", {" in a quiet forest"}),
            "[Long|1][ ago|1][,|1][|0][|0][|0][|0][|0]");
}

TEST(AnswerText, WhatWasHeldForNothingComesWithItsTokens) {
  const Tokenizer tokenizer = TinyTokenizer();
  EXPECT_EQ(Shown(tokenizer, "Long ago, in a quiet forest", {" ago, out"}),
            "[Long|1][|0][|0][ ago, in|3][|0][ a quiet|2][ forest|1][|0]");
  EXPECT_EQ(Shown(tokenizer, "Long ago", {" ago, in"}), "[Long|1][|0][ ago|1]");
}

TEST(AnswerText, TokensOfHalfACharacterComeWithTheWholeOne) {
  const Tokenizer tokenizer = TinyTokenizer();
  const std::string fox = "\U0001F98A";  // a token a byte
  EXPECT_EQ(Shown(tokenizer, fox, {}), "[|0][|0][|0][" + fox + "|4][|0]");
  EXPECT_EQ(Shown(tokenizer, fox, {fox}), "[|0][|0][|0][|0][|0]");
}

}  // namespace
}  // namespace weft::api
