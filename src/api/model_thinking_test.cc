// What a model's files tell of its thoughts and calls, and what of a conversation is told to it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft_source_dir.h>
#include <boost/json.hpp>
#include <filesystem>

#include "api/model_text.h"
#include "api/openai_request.h"
#include "base/file.h"

namespace weft::api {
namespace {

namespace json = boost::json;
using testing::HasSubstr;

// weft-tiny's text with another template, and <tool_call> as a control token.
ModelText TinyThinker(const std::string& chat_template) {
  const auto folder = std::filesystem::path(WEFT_SOURCE_DIR) / "models" / "weft-tiny";
  std::map<std::string, std::string> files;
  for (const char* name : kTextFiles) {
    auto text = ReadTextFile(folder / name);
    if (text.ok()) files[name] = std::move(text).value();
  }
  json::value tokenizer = json::parse(files.at("tokenizer.json"));
  json::array& added = tokenizer.at("added_tokens").as_array();
  json::object marker = added.back().as_object();
  marker["id"] = 4096;
  marker["content"] = "<tool_call>";
  added.push_back(marker);
  files["tokenizer.json"] = json::serialize(tokenizer);
  files["chat_template.jinja"] = chat_template;
  auto text = ModelText::Load(files);
  EXPECT_TRUE(text.ok()) << text.error().ToString();
  return std::move(text).value();
}

constexpr const char* kThinks =
    "{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}"
    "{% if m.tool_calls %}<tool_call>{\"name\": \"{{ m.tool_calls[0].function.name }}\", "
    "\"arguments\": {}}</tool_call>{% endif %}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>a\n"
    "{% if enable_thinking is not defined or enable_thinking %}<think>\n{% endif %}{% endif %}";

ChatRequest Asked(const std::string& fields) {
  const std::string body =
      R"({"model":"m","messages":[{"role":"user","content":"x"}])" + fields + "}";
  auto parsed = ParseChatRequest(AsBytes(body));
  EXPECT_TRUE(std::holds_alternative<ChatRequest>(parsed)) << body;
  return std::get<ChatRequest>(parsed);
}

TEST(ModelThinking, MarkersThatAreControlTokensAreKnown) {
  const ModelText text = TinyThinker(kThinks);
  EXPECT_EQ(text.answer_format().family, "hermes");
  EXPECT_THAT(text.marker_ids(), testing::ElementsAre(4096));
  EXPECT_THAT(TinyThinker("{{ messages }}").marker_ids(), testing::IsEmpty());
}

TEST(ModelThinking, ThePromptMayOpenThoughts) {
  const ModelText text = TinyThinker(kThinks);
  EXPECT_TRUE(text.OpensThinking(text.EncodeChat(Asked("")).value()));
  for (const char* fields : {R"(,"enable_thinking":false)", R"(,"reasoning_effort":"none")",
                             R"(,"chat_template_kwargs":{"enable_thinking":false})"})
    EXPECT_FALSE(text.OpensThinking(text.EncodeChat(Asked(fields)).value())) << fields;
  // What the template is told in its own words counts.
  EXPECT_TRUE(text.OpensThinking(
      text.EncodeChat(Asked(R"(,"enable_thinking":false,)"
                            R"("chat_template_kwargs":{"enable_thinking":true})"))
          .value()));
  EXPECT_FALSE(text.OpensThinking({}));
}

TEST(ModelThinking, WhatATemplateDoesNotTakeIsRefused) {
  const ModelText thinks = TinyThinker(kThinks);
  EXPECT_FALSE(thinks.CheckThinking(Asked(R"(,"enable_thinking":false)")));
  EXPECT_FALSE(thinks.CheckThinking(Asked(R"(,"reasoning_effort":"none")")));
  const auto refused = thinks.CheckThinking(Asked(R"(,"reasoning_effort":"low")"));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 400);
  EXPECT_EQ(refused->param, "reasoning_effort");
  EXPECT_THAT(refused->message, HasSubstr("\"low\""));
  const ModelText effort = TinyThinker("{{ reasoning_effort }}{{ messages[0].content }}");
  EXPECT_FALSE(effort.CheckThinking(Asked(R"(,"reasoning_effort":"low")")));
  EXPECT_EQ(effort.CheckThinking(Asked(R"(,"enable_thinking":true)"))->param, "enable_thinking");
  EXPECT_EQ(effort.tokenizer().Decode(
                effort.EncodeChat(Asked(R"(,"reasoning_effort":"low")")).value(), false),
            "lowx");
}

// Templates look for one of three names.
TEST(ModelThinking, ThoughtsThatComeBackHaveEveryName) {
  const auto message = [](const std::string& fields) {
    const std::string body = R"({"model":"m","messages":[{"role":"assistant",)" + fields + "}]}";
    auto parsed = ParseChatRequest(AsBytes(body));
    return std::get<ChatRequest>(parsed).messages.at(0).as_object();
  };
  for (const char* name : {"reasoning_content", "reasoning"}) {
    const json::object given = message("\"content\":\"x\",\"" + std::string(name) + "\":\"hm\"");
    for (const char* each : {"reasoning_content", "reasoning", "thinking"})
      EXPECT_EQ(given.at(each), "hm") << name;
  }
  EXPECT_FALSE(message(R"("content":"x")").contains("thinking"));
  // gpt-oss's template takes either, in a message with calls.
  const char* calls = R"("tool_calls":[{"function":{"name":"f","arguments":"{}"}}])";
  EXPECT_FALSE(
      message(std::string(R"("content":"x","reasoning":"hm",)") + calls).contains("thinking"));
  EXPECT_TRUE(
      message(std::string(R"("content":null,"reasoning":"hm",)") + calls).contains("thinking"));
}

}  // namespace
}  // namespace weft::api
