// Texts that the grammar of calls allows read as calls that fit: every template at hand, random
// texts, and what must not come.
#include "api/call_grammar.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <filesystem>
#include <random>
#include <string>

#include "base/data_testing.h"
#include "base/file.h"
#include "chat/answer_testing.h"
#include "chat/template_testing.h"
#include "grammar/matcher.h"

namespace weft::api {
namespace {

namespace json = boost::json;

constexpr const char* kTools = R"([
  {"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "additionalProperties": false, "required": ["city", "days"],
    "properties": {
      "city": {"type": "string"},
      "unit": {"type": "string", "enum": ["celsius", "kelvin"]},
      "days": {"type": "integer", "minimum": 1, "maximum": 14},
      "exact": {"type": "boolean"},
      "tags": {"type": "array", "maxItems": 3, "items": {"type": "integer"}}}}}},
  {"type": "function", "function": {"name": "now", "parameters": {
    "type": "object", "properties": {}, "additionalProperties": false}}}])";

ChatRequest Asking(const std::string& fields) {
  auto parsed = ParseChatRequest(
      AsBytes(R"({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": )" +
              std::string(kTools) + fields + "}"));
  if (const auto* error = std::get_if<ApiError>(&parsed)) ADD_FAILURE() << error->message;
  return std::get<ChatRequest>(std::move(parsed));
}

struct Model {
  chat::Format format;
  std::optional<chat::CallSpelling> spelling;
};

Model ModelOf(const std::string& source) {
  const chat::RenderTemplate render = chat::RenderOf(chat::Template(source));
  Model model{chat::DetectFormat(source, render), std::nullopt};
  model.spelling =
      chat::LearnSpelling(model.format, render, {"</s>", "<|eom_id|>", "<|START_OF_TURN_TOKEN|>"});
  return model;
}

Model ModelOfFile(const std::string& name) {
  auto text = ReadTextFile(TestDataFolder() / "templates" / (name + ".jinja"));
  EXPECT_TRUE(text.ok()) << name;
  return ModelOf(text.value());
}

std::shared_ptr<const grammar::Automaton> Compiled(const Model& model, const ChatRequest& request) {
  auto compiled = CompileCalls(request, model.format, model.spelling, true);
  if (const auto* error = std::get_if<ApiError>(&compiled)) {
    ADD_FAILURE() << error->message;
    return nullptr;
  }
  return std::get<std::shared_ptr<const grammar::Automaton>>(std::move(compiled));
}

bool Allows(const std::shared_ptr<const grammar::Automaton>& automaton, std::string_view text) {
  grammar::Matcher matcher(automaton);
  return matcher.Advance(text) && matcher.CanEnd();
}

// A text that the grammar allows. Bytes are drawn from those that may come, of ASCII where any is,
// and after `loose` of them those that lead to an end.
std::string RandomText(const std::shared_ptr<const grammar::Automaton>& automaton, size_t loose,
                       std::mt19937& random) {
  grammar::Matcher matcher(automaton);
  std::string text;
  while (!matcher.IsOver() && text.size() < 20'000) {
    const bool ends = text.size() >= loose;
    if (matcher.CanEnd() && (ends || random() % 4 == 0)) break;
    const auto next = matcher.NextBytes();
    std::vector<char> ways;
    uint32_t least = UINT32_MAX;
    for (size_t byte = 0; byte < 256; ++byte) {
      if (!next[byte] || (byte >= 0x80 && random() % 64 != 0 && next.count() > 128)) continue;
      const char c = static_cast<char>(byte);
      grammar::Matcher further = matcher;
      further.Advance(std::string_view(&c, 1));
      if (ends && further.BytesToEnd() < least) ways.clear();
      if (!ends || further.BytesToEnd() < least) ways.push_back(c);
      least = std::min(least, further.BytesToEnd());
    }
    const char c = ways[random() % ways.size()];
    EXPECT_TRUE(matcher.Advance(std::string_view(&c, 1)));
    text += c;
  }
  EXPECT_TRUE(matcher.CanEnd()) << text;
  return text;
}

chat::Answer Read(const Model& model, const ChatRequest& request, const std::string& text) {
  chat::AnswerParser parser(model.format, std::make_shared<const chat::Tools>(request.tools),
                            {.parses_calls = true, .splits_thinking = true});
  chat::Answer answer;
  answer.Take(parser.Push(text));
  answer.Take(parser.Flush());
  return answer;
}

bool IsInteger(const json::value& value) {
  return value.is_int64() || value.is_uint64();
}

// As JSON: what the schema of kTools says of them.
void ExpectFits(const chat::Call& call, const std::string& text) {
  boost::system::error_code error;
  const json::value parsed = json::parse(call.arguments, error);
  ASSERT_FALSE(error || !parsed.is_object()) << text << "\n" << call.arguments;
  const json::object& arguments = parsed.as_object();
  if (call.name == "now") {
    EXPECT_TRUE(arguments.empty()) << text;
    return;
  }
  ASSERT_EQ(call.name, "get_weather") << text;
  EXPECT_TRUE(arguments.contains("city") && arguments.contains("days")) << text;
  for (const auto& [name, value] : arguments) {
    const std::string_view key = name;
    const bool is_right = key == "city"   ? value.is_string()
                          : key == "unit" ? value == "celsius" || value == "kelvin"
                          : key == "days"
                              ? IsInteger(value) && value.as_int64() >= 1 && value.as_int64() <= 14
                          : key == "exact" ? value.is_bool()
                          : key == "tags"  ? value.is_array() && value.as_array().size() <= 3
                                           : false;
    EXPECT_TRUE(is_right) << key << " in " << text;
  }
}

TEST(CallGrammar, WhatItAllowsReadsAsCallsThatFit) {
  const ChatRequest required = Asking(R"(, "tool_choice": "required")");
  const ChatRequest single = Asking(R"(, "tool_choice": "required", "parallel_tool_calls": false)");
  std::mt19937 random(7);
  size_t models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TestDataFolder() / "templates")) {
    if (entry.path().extension() != ".jinja") continue;
    const Model model = ModelOfFile(entry.path().stem().string());
    if (!model.spelling) continue;
    ++models;
    const auto many = Compiled(model, required), one = Compiled(model, single);
    for (int i = 0; i < 14; ++i) {
      SCOPED_TRACE(entry.path().stem().string());
      const std::string text = RandomText(i % 2 == 0 ? many : one, i * 20, random);
      const chat::Answer answer = Read(model, required, text);
      EXPECT_EQ(answer.content.find_first_not_of(" \n"), std::string::npos) << text;
      EXPECT_GE(answer.calls.size(), 1u) << text;
      if (i % 2 == 1) {
        EXPECT_EQ(answer.calls.size(), 1u) << text;
      }
      for (const chat::Call& call : answer.calls) ExpectFits(call, text);
    }
  }
  EXPECT_GE(models, 30u);
}

TEST(CallGrammar, NamedOneIsTheOnlyOne) {
  const Model hermes = ModelOfFile("Qwen-Qwen3-0.6B");
  const auto now = Compiled(
      hermes, Asking(R"(, "tool_choice": {"type": "function", "function": {"name": "now"}})"));
  EXPECT_TRUE(Allows(now, "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_TRUE(Allows(now,
                     "<think>\nThe time?\n</think>\n\n<tool_call>\n{\"name\": \"now\", "
                     "\"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(Allows(now, "It is late."));
  EXPECT_FALSE(Allows(now, ""));
  EXPECT_FALSE(Allows(now,
                      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
                      "\"a\", \"days\": 1}}\n</tool_call>"));
}

// Strict tools of which none must be called: any text, and calls only as they must be.
TEST(CallGrammar, StrictToolsHoldCallsAlone) {
  ChatRequest request = Asking("");
  EXPECT_FALSE(HoldsCalls(request));
  for (json::value& tool : request.tools) tool.as_object()["function"].as_object()["strict"] = true;
  EXPECT_TRUE(HoldsCalls(request));
  const Model coder = ModelOfFile("Qwen3.5-4B");
  const auto free = Compiled(coder, request);
  const std::string call =
      "<tool_call>\n<function=get_weather>\n<parameter=city>\nBern < Basel\n</parameter>\n"
      "<parameter=days>\n5\n</parameter>\n</function>\n</tool_call>";
  EXPECT_TRUE(Allows(free, ""));
  EXPECT_TRUE(Allows(free, "It is <b>late</b>."));
  EXPECT_TRUE(Allows(free, "I look.\n" + call + "\n" + call));
  EXPECT_FALSE(Allows(free, "I look.\n<tool_call>\n<function=look>"));
  EXPECT_FALSE(Allows(free, "<tool_call>\n<function=get_weather>\n</function>\n</tool_call>"));

  const Model bare = ModelOfFile("meta-llama-Llama-3.1-8B-Instruct");
  const auto json_call = Compiled(bare, request);
  EXPECT_TRUE(Allows(json_call, "Late {x}."));
  EXPECT_TRUE(Allows(json_call, R"({"name": "now", "parameters": {}})"));
  EXPECT_FALSE(Allows(json_call, R"({"name": "then", "parameters": {}})"));
}

TEST(CallGrammar, OfChannelsThinksFirst) {
  const Model harmony = ModelOfFile("openai-gpt-oss-120b");
  const auto required = Compiled(harmony, Asking(R"(, "tool_choice": "required")"));
  const std::string call = "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}";
  EXPECT_TRUE(Allows(required, call));
  EXPECT_TRUE(
      Allows(required, "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant" + call));
  EXPECT_FALSE(Allows(required, "<|channel|>final<|message|>Hm."));
}

// More tools than a grammar may have rules: a refusal, in every form of arguments.
TEST(CallGrammar, TooManyToolsAreRefused) {
  for (const char* name : {"Qwen-Qwen3-0.6B", "Qwen3.5-4B", "LFM2-8B-A1B"}) {
    const Model model = ModelOfFile(name);
    ChatRequest request = Asking(R"(, "tool_choice": "required")");
    const json::value tool = request.tools[0];
    for (int i = 0; i < 4'000; ++i) {
      json::value another = tool;
      json::object& function = another.as_object()["function"].as_object();
      function["name"] = "weather_" + std::to_string(i);
      function["parameters"].as_object()["properties"].as_object()["any"] = json::object();
      request.tools.push_back(std::move(another));
    }
    const auto refused = CompileCalls(request, model.format, model.spelling, true);
    const auto* error = std::get_if<ApiError>(&refused);
    ASSERT_NE(error, nullptr) << name;
    EXPECT_EQ(error->param, "tool_choice");
  }
}

TEST(CallGrammar, SaysWhatCannotBeFollowed) {
  ChatRequest request = Asking(R"(, "tool_choice": "required")");
  json::object& function = request.tools[0].as_object()["function"].as_object();
  function["parameters"] = json::parse(
      R"({"type": "object", "properties": {"a": {"type": "string", "pattern": "\\bx"
}
}
})");
  const Model hermes = ModelOfFile("Qwen-Qwen3-0.6B");
  // What is not strict is left open.
  const auto open = Compiled(hermes, request);
  EXPECT_TRUE(Allows(
      open, "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"b\": 5}}\n</tool_call>"));
  function["strict"] = true;
  const auto refused = CompileCalls(request, hermes.format, hermes.spelling, true);
  const auto* error = std::get_if<ApiError>(&refused);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->param, "tools[0].function");
  EXPECT_NE(error->message.find("#/properties/a/pattern"), std::string::npos) << error->message;
  const auto unknown = CompileCalls(request, hermes.format, std::nullopt, true);
  ASSERT_NE(std::get_if<ApiError>(&unknown), nullptr);
  EXPECT_EQ(std::get_if<ApiError>(&unknown)->param, "tool_choice");
}

}  // namespace
}  // namespace weft::api
