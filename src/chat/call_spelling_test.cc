// What templates show of calls, as texts to put names and arguments between. Each spelling is read
// back before it is given (call_spelling.cc), so that here it is enough to see that there is one.
#include "chat/call_spelling.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "base/data_testing.h"
#include "base/file.h"
#include "chat/template_testing.h"

namespace weft::chat {
namespace {

std::optional<CallSpelling> SpellingOf(const std::string& source) {
  const RenderTemplate render = RenderOf(Template(source));
  return LearnSpelling(DetectFormat(source, render), render,
                       {"</s>", "<|eom_id|>", "<|START_OF_TURN_TOKEN|>"});
}

std::optional<CallSpelling> SpellingOfFile(const std::string& name) {
  auto text = ReadTextFile(TestDataFolder() / "templates" / (name + ".jinja"));
  EXPECT_TRUE(text.ok()) << name;
  return text.ok() ? SpellingOf(*text) : std::nullopt;
}

TEST(CallSpelling, OfJson) {
  const auto hermes = SpellingOfFile("Qwen-Qwen3-0.6B");
  ASSERT_TRUE(hermes);
  EXPECT_EQ(hermes->mark, "<tool_call>");
  EXPECT_EQ(hermes->begin, "\n{\"name\": \"");
  EXPECT_EQ(hermes->name_end, "\", \"arguments\": ");
  EXPECT_EQ(hermes->close, "}\n</tool_call>");
  EXPECT_EQ(hermes->between, "}\n</tool_call>\n<tool_call>\n{\"name\": \"");
  EXPECT_FALSE(hermes->arguments);

  const auto bare = SpellingOfFile("meta-llama-Llama-3.1-8B-Instruct");
  ASSERT_TRUE(bare);
  EXPECT_EQ(bare->mark, "");
  EXPECT_EQ(bare->begin, "{\"name\": \"");
  EXPECT_EQ(bare->name_end, "\", \"parameters\": ");
  EXPECT_EQ(bare->between, "");
}

TEST(CallSpelling, OfTags) {
  const auto coder = SpellingOfFile("Qwen3.5-4B");
  ASSERT_TRUE(coder && coder->arguments);
  EXPECT_EQ(coder->begin, "\n<function=");
  EXPECT_EQ(coder->close, "\n</function>\n</tool_call>");
  EXPECT_EQ(coder->arguments->none, ">");
  EXPECT_EQ(coder->arguments->first_key, ">\n<parameter=");
  EXPECT_EQ(coder->arguments->next, "\n<parameter=");
  EXPECT_EQ(coder->arguments->string_begin, ">\n");
  EXPECT_EQ(coder->arguments->string_end, "</parameter>");
  EXPECT_EQ(coder->arguments->other_end, "\n</parameter>");
  EXPECT_FALSE(coder->arguments->has_json_strings);
}

TEST(CallSpelling, OfPythonAndGemma) {
  const auto python = SpellingOfFile("LFM2-8B-A1B");
  ASSERT_TRUE(python && python->arguments);
  EXPECT_EQ(python->mark + python->begin, "<|tool_call_start|>[");
  EXPECT_EQ(python->between, "), ");
  EXPECT_EQ(python->arguments->string_begin, "=\"");
  EXPECT_EQ(python->arguments->other_begin, "=");
  EXPECT_TRUE(python->arguments->has_json_strings);

  const auto gemma = SpellingOfFile("google-gemma-4-31B-it-interleaved");
  ASSERT_TRUE(gemma && gemma->arguments);
  EXPECT_EQ(gemma->arguments->string_begin, ":<|\"|>");
  EXPECT_EQ(gemma->arguments->string_end, "<|\"|>");
  EXPECT_EQ(gemma->arguments->other_begin, ":");
}

TEST(CallSpelling, OfNumberedCallsAndIds) {
  const auto kimi = SpellingOfFile("moonshotai-Kimi-K2");
  ASSERT_TRUE(kimi);
  EXPECT_TRUE(kimi->numbers_calls);
  EXPECT_EQ(kimi->name_end, "<|tool_call_argument_begin|>");
  const auto solar = SpellingOfFile("upstage-Solar-Open-100B");
  ASSERT_TRUE(solar);
  EXPECT_EQ(solar->begin, "<|tool_call:begin|>abcdefghi<|tool_call:name|>");
}

TEST(CallSpelling, OfChannels) {
  const auto harmony = SpellingOfFile("openai-gpt-oss-120b");
  ASSERT_TRUE(harmony);
  EXPECT_EQ(harmony->lead, "<|channel|>commentary ");
  EXPECT_EQ(harmony->mark, "to=functions.");
  EXPECT_EQ(harmony->name_end, " <|constrain|>json<|message|>");
}

// Two of them show no calls, one nests elements, one shows what it does not read.
TEST(CallSpelling, OfAllTemplatesButFour) {
  std::set<std::string> without;
  for (const auto& entry : std::filesystem::directory_iterator(TestDataFolder() / "templates")) {
    if (entry.path().extension() != ".jinja") continue;
    if (!SpellingOfFile(entry.path().stem().string())) without.insert(entry.path().stem().string());
  }
  const std::set<std::string> expected = {"phi3", "HuggingFaceTB-SmolLM3-3B", "MiniMax-M3",
                                          "llama-cpp-deepseek-r1"};
  EXPECT_EQ(without, expected);
}

// Nothing is taken for a spelling that reads as something else.
TEST(CallSpelling, IsReadBack) {
  EXPECT_FALSE(
      SpellingOf("{% for m in messages %}{% if m.tool_calls %}<tool_call>{{ "
                 "m.tool_calls[0].function.name }} what {{ "
                 "m.tool_calls[0].function.arguments | tojson }}</tool_call>{% else %}{{ "
                 "m.content }}{% endif %}{% endfor %}"));
}

}  // namespace
}  // namespace weft::chat
