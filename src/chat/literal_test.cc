#include "chat/literal.h"

#include <gtest/gtest.h>

namespace weft::chat {
namespace {

std::string Read(std::string_view text) {
  std::string json;
  LiteralReader reader(text);
  return reader.Value(&json) && reader.AtEnd() ? json : "refused";
}

TEST(LiteralReader, WritesBothLanguagesAsJson) {
  EXPECT_EQ(Read("{'a': [1, 2.50, -1e5,], \"b\": True, 'c': None}"),
            R"({"a": [1, 2.50, -1e5], "b": true, "c": null})");
  EXPECT_EQ(Read(R"("\u00e9\ud83d\ude00\n\x41\'")"), "\"\u00e9\U0001F600\\nA'\"");
  EXPECT_EQ(Read(R"("\ud83d alone")"), "\"\uFFFD alone\"");
  EXPECT_EQ(Read("'say \"hi\"'"), R"("say \"hi\"")");
  EXPECT_EQ(Read("\"two\nlines\""), R"("two\nlines")");
}

TEST(LiteralReader, RefusesWhatIsNeither) {
  for (const char* text : {"", "{", "{a: 1}", "[1 2]", "\"open", "01", "1.", "-", "nan", "{\"a\"}",
                           "truth", "\"\\u12\"", "[,]", "1 2"})
    EXPECT_EQ(Read(text), "refused") << text;
  EXPECT_EQ(Read(std::string(64, '[') + std::string(64, ']')),
            std::string(64, '[') + std::string(64, ']'));
  EXPECT_EQ(Read(std::string(65, '[') + std::string(65, ']')), "refused");
}

}  // namespace
}  // namespace weft::chat
