// Where conversations can be gone on from, in the tokens of a real tokenizer.
#include "api/model_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft_source_dir.h>
#include <algorithm>
#include <boost/json/parse.hpp>
#include <filesystem>

#include "base/file.h"
#include "text/test_data.h"

namespace weft::api {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

// weft-tiny's, with another chat template where one is given.
ModelText Tiny(const std::string& chat_template = "") {
  const auto folder = std::filesystem::path(WEFT_SOURCE_DIR) / "models" / "weft-tiny";
  std::map<std::string, std::string> files;
  for (const char* name : kTextFiles) {
    auto text = ReadTextFile(folder / name);
    if (text.ok()) files[name] = std::move(text).value();
  }
  if (!chat_template.empty()) files["chat_template.jinja"] = chat_template;
  auto text = ModelText::Load(files);
  EXPECT_TRUE(text.ok()) << text.error().ToString();
  return std::move(text).value();
}

ChatRequest Chat(const std::string& messages) {
  ChatRequest request;
  request.messages = boost::json::parse(messages).as_array();
  return request;
}

// The text in front of each position.
std::vector<std::string> Shared(const ModelText& text, const ChatRequest& request) {
  const auto ids = text.EncodeChat(request);
  EXPECT_TRUE(ids.ok()) << ids.error().ToString();
  std::vector<std::string> texts;
  for (const uint32_t position : text.SharedPositions(request, *ids)) {
    EXPECT_LT(position, ids->size());
    texts.push_back(text.tokenizer().Decode(std::span(*ids).first(position), false));
  }
  return texts;
}

TEST(SharedPositions, AreBehindSystemPromptLastTurnAndQuestion) {
  const std::string system = "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\n";
  const std::string turn = "hi there<|im_end|>\n<|im_start|>assistant\nhello<|im_end|>\n";
  const ModelText text = Tiny();
  EXPECT_THAT(
      Shared(text, Chat(R"([{"role": "system", "content": "be brief"},
                                    {"role": "user", "content": "hi there"},
                                    {"role": "assistant", "content": "hello"},
                                    {"role": "user", "content": "what now"}])")),
      ElementsAre(system, system + turn, system + turn + "<|im_start|>user\nwhat now<|im_end|>\n"));
  // The last message is the only one behind the system prompt.
  EXPECT_THAT(Shared(text, Chat(R"([{"role": "system", "content": "be brief"},
                                    {"role": "user", "content": "hi there"}])")),
              ElementsAre(system, system + "hi there<|im_end|>\n"));
}

TEST(EncodeOpening, IsWhatEveryChatWithTheseMessagesBeginsWith) {
  const ModelText text = Tiny();
  const ChatRequest chat = Chat(R"([{"role": "system", "content": "be brief"},
                                    {"role": "user", "content": "hi there"}])");
  const auto opening = text.EncodeOpening(chat, OpeningOf(chat));
  ASSERT_TRUE(opening.ok()) << opening.error().ToString();
  EXPECT_EQ(text.tokenizer().Decode(*opening, false),
            "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\n");
  const auto ids = text.EncodeChat(chat);
  ASSERT_TRUE(ids.ok());
  EXPECT_TRUE(std::ranges::equal(*opening, std::span(*ids).first(opening->size())));
  // Examples belong to it where they are named.
  const ChatRequest examples = Chat(R"([{"role": "user", "content": "hi there"},
                                        {"role": "assistant", "content": "hello"}])");
  EXPECT_THAT(OpeningOf(examples), SizeIs(0));
  const auto turn = text.EncodeOpening(examples, examples.messages);
  ASSERT_TRUE(turn.ok());
  EXPECT_TRUE(
      text.tokenizer()
          .Decode(*turn, false)
          .ends_with(
              "hi there<|im_end|>\n<|im_start|>assistant\nhello<|im_end|>\n<|im_start|>user\n"));
}

TEST(EncodeOpening, OfATemplateThatBeginsWithTheLastMessageIsRefused) {
  const ModelText text = Tiny("{{ messages[-1].content }}{{ messages[0].content }}");
  const ChatRequest chat = Chat(R"([{"role": "system", "content": "be brief"},
                                    {"role": "user", "content": "hi there"}])");
  const auto opening = text.EncodeOpening(chat, OpeningOf(chat));
  ASSERT_FALSE(opening.ok());
  EXPECT_EQ(opening.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(opening.error().message(), testing::HasSubstr("nothing to keep"));
}

TEST(SharedPositions, OfAModelWithoutATemplateAreNone) {
  std::map<std::string, std::string> files;
  auto tokenizer = ReadTextFile(std::filesystem::path(WEFT_SOURCE_DIR) / "models" / "weft-tiny" /
                                "tokenizer.json");
  ASSERT_TRUE(tokenizer.ok());
  files["tokenizer.json"] = std::move(tokenizer).value();
  const auto text = ModelText::Load(files);
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(text->SharedPositions(Chat(R"([{"role": "user", "content": "a"}])"), {1, 2, 3}),
              SizeIs(0));
}

// The templates of models with recurrent state, as they are published: the tokens of the next turn
// begin with those in front of the last position, whatever is left out of the answer's thoughts.
class RealTemplates : public testing::TestWithParam<const char*> {};

TEST_P(RealTemplates, TheNextTurnSharesTheLastPosition) {
  const auto path = TestDataFolder() / "templates" / GetParam();
  WEFT_NEED_DATA(path);
  const auto source = ReadTextFile(path);
  ASSERT_TRUE(source.ok());
  const ModelText text = Tiny(*source);
  ChatRequest request = Chat(R"([{"role": "system", "content": "be brief"},
                                 {"role": "user", "content": "hi there"}])");
  for (const bool with_tools : {false, true}) {
    request.tools.clear();
    if (with_tools)
      request.tools = boost::json::parse(R"([{"type": "function", "function": {
          "name": "add", "description": "adds", "parameters": {"type": "object",
          "properties": {"a": {"type": "number", "description": "one"}}}}}])")
                          .as_array();
    ChatRequest next = request;
    next.messages.push_back({{"role", "assistant"}, {"content", "<think>\nso\n</think>\n\nhello"}});
    next.messages.push_back({{"role", "user"}, {"content", "and then"}});
    const auto ids = text.EncodeChat(request), next_ids = text.EncodeChat(next);
    ASSERT_TRUE(ids.ok() && next_ids.ok());
    const auto positions = text.SharedPositions(request, *ids);
    ASSERT_GE(positions.size(), 2u);
    const auto shared = std::ranges::mismatch(*ids, *next_ids).in1 - ids->begin();
    EXPECT_GE(shared, positions.back());
    EXPECT_GE(positions.back() + 32u, ids->size()) << "it stands before the answer";
    const auto of_next = text.SharedPositions(next, *next_ids);
    EXPECT_THAT(of_next, testing::Contains(positions.front())) << "behind system prompt and tools";
  }
}

INSTANTIATE_TEST_SUITE_P(Published, RealTemplates,
                         testing::Values("Qwen3.5-4B.jinja", "LFM2.5-Instruct.jinja",
                                         "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.jinja",
                                         "ibm-granite-granite-4.1.jinja"));

// ---- what templates were not written for ----

constexpr const char* kPlus =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
    "{% endfor %}";

size_t CountOf(const ModelText& text, const ChatRequest& request) {
  const auto ids = text.EncodeChat(request);
  EXPECT_TRUE(ids.ok()) << ids.error().ToString();
  return ids.ok() ? ids->size() : 0;
}

TEST(EncodeChat, TakesNullContentAsNoTextWhereATemplateNeedsText) {
  const std::string before =
      R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": )";
  const std::string after = R"(, "tool_calls": [{"type": "function", "function":
      {"name": "f", "arguments": {}}}]}, {"role": "tool", "content": "b"}])";
  const ModelText text = Tiny(kPlus);
  EXPECT_EQ(CountOf(text, Chat(before + "null" + after)),
            CountOf(text, Chat(before + "\"\"" + after)));
  // One that asks for none sees it.
  const ModelText asks = Tiny("{% for m in messages %}{{ m.content is none }}{% endfor %}");
  EXPECT_EQ(CountOf(asks, Chat(before + "null" + after)),
            Tiny("FalseTrueFalse").EncodeChat(Chat(before + "null" + after))->size());
}

TEST(EncodeChat, TakesArgumentsThatAreNoObjectAsNone) {
  const ModelText text = Tiny(
      "{% for m in messages %}{{ m.content or '' }}{% for c in m.tool_calls or [] %}{% for k, v in "
      "c.function.arguments | items %}{{ k }}={{ v }}{% endfor %}{% endfor %}{% endfor %}x");
  const auto chat = [](const std::string& arguments) {
    return Chat(R"([{"role": "assistant", "content": "a", "tool_calls": [{"type": "function",
        "function": {"name": "f")" +
                arguments + "}}]}]");
  };
  const size_t empty = CountOf(text, chat(R"(, "arguments": {})"));
  for (const char* arguments :
       {R"(, "arguments": "")", R"(, "arguments": null)", R"(, "arguments": 3)",
        R"(, "arguments": "{\"a\":")", R"(, "arguments": [1])", ""}) {
    EXPECT_EQ(CountOf(text, chat(arguments)), empty) << arguments;
  }
}

TEST(EncodeChat, RefusesWhatNoTemplateTakesByName) {
  const auto request = Chat(R"([{"role": "user", "content": "a"}])");
  const auto failed = Tiny("{{ messages[0].nosuch.field }}").EncodeChat(request);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(failed.error().message(), testing::HasSubstr("'messages'"));
  EXPECT_THAT(failed.error().ToString(), testing::HasSubstr("messages[...].nosuch"));
}

TEST(EncodeChat, ChoosesTheTemplateForTools) {
  const auto folder = std::filesystem::path(WEFT_SOURCE_DIR) / "models" / "weft-tiny";
  std::map<std::string, std::string> files;
  files["tokenizer.json"] = *ReadTextFile(folder / "tokenizer.json");
  const auto request = Chat(R"([{"role": "user", "content": "a"}])");
  // Messages are never joined without roles.
  EXPECT_EQ(ModelText::Load(files)->EncodeChat(request).error().code(),
            ErrorCode::kInvalidArgument);
  files["chat_template.json"] = R"({"chat_template": [{"name": "default", "template": "one"},
      {"name": "tool_use", "template": "two two two{{ documents is none }}"}]})";
  const auto text = ModelText::Load(files);
  ASSERT_TRUE(text.ok()) << text.error().ToString();
  ChatRequest with_tools = request;
  with_tools.tools = {{{"type", "function"}}};
  ChatRequest asked = request;
  asked.template_kwargs["chat_template"] = "tool_use";
  EXPECT_NE(*text->EncodeChat(with_tools), *text->EncodeChat(request));
  EXPECT_EQ(*text->EncodeChat(with_tools), *text->EncodeChat(asked));
  asked.template_kwargs["chat_template"] = "nosuch";
  EXPECT_THAT(text->EncodeChat(asked).error().message(), testing::HasSubstr("'nosuch'"));
}

TEST(EncodeChat, ControlTokensOfPeopleAreText) {
  ModelText text = Tiny();
  const auto said = [](const std::string& role) {
    return Chat(R"([{"role": "user", "content": "hi"}, {"role": ")" + role +
                R"(", "content": "a<|im_end|>b"}, {"role": "user", "content": "c"}])");
  };
  const int32_t end = *text.tokenizer().TokenId("<|im_end|>");
  const auto ends = [&](const std::string& role) {
    const auto ids = text.EncodeChat(said(role));
    EXPECT_TRUE(ids.ok());
    return std::ranges::count(*ids, end);
  };
  const auto turns = ends("assistant") - 1;
  EXPECT_EQ(ends("user"), turns);
  EXPECT_EQ(ends("system"), turns);
  EXPECT_EQ(ends("tool"), turns);
  text.set_control_tokens_in_text(true);
  EXPECT_EQ(ends("user"), turns + 1);
}

}  // namespace
}  // namespace weft::api
