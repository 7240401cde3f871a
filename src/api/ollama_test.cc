// Ollama's chats and prompts: what is accepted and what it comes to, what is refused and how, and
// the lines that answer them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <string>
#include <vector>

#include "api/ollama_models.h"
#include "api/ollama_request.h"
#include "api/ollama_response.h"
#include "api/request_fields_testing.h"

namespace weft::api {
namespace {

namespace json = boost::json;
using testing::HasSubstr;

ApiResult<OllamaRequest> ParseChat(const std::string& more, const std::string& messages = "") {
  const std::string some = R"([{"role": "user", "content": "Hi"}])";
  return ParseOllamaChat(AsBytes(R"({"model": "m", "messages": )" +
                                 (messages.empty() ? some : messages) + (more.empty() ? "" : ", ") +
                                 more + "}"));
}

ApiResult<OllamaRequest> ParsePrompt(const std::string& more) {
  return ParseOllamaGenerate(
      AsBytes(R"({"model": "m")" + std::string(more.empty() ? "" : ", ") + more + "}"));
}

OllamaRequest Accepted(ApiResult<OllamaRequest> parsed) {
  const auto* error = std::get_if<ApiError>(&parsed);
  EXPECT_EQ(error, nullptr) << (error != nullptr ? error->message : "");
  return error != nullptr ? OllamaRequest() : std::get<OllamaRequest>(std::move(parsed));
}

TEST(OllamaRequest, ReadsWhatClientsSend) {
  const OllamaRequest request = Accepted(ParseChat(R"("keep_alive": "5m", "think": "high",
      "format": {"type": "integer"}, "logprobs": true, "top_logprobs": 2,
      "tools": [{"type": "function", "function": {"name": "f"}}],
      "options": {"num_predict": 5, "temperature": 0.5, "top_k": 40, "top_p": 0.9, "min_p": 0.1,
                  "seed": 42, "stop": ["END"], "repeat_penalty": 1.1, "num_ctx": 4096,
                  "presence_penalty": 0.5, "frequency_penalty": 0.25, "num_gpu": 1})"));
  const ChatRequest& chat = request.chat;
  EXPECT_TRUE(chat.stream) << "unless it is said otherwise";
  EXPECT_EQ(chat.max_tokens, 5u);
  EXPECT_FLOAT_EQ(chat.sampling.temperature, 0.5f);
  EXPECT_EQ(chat.sampling.top_k, 40);
  EXPECT_FLOAT_EQ(chat.sampling.top_p, 0.9f);
  EXPECT_FLOAT_EQ(chat.sampling.min_p, 0.1f);
  EXPECT_FLOAT_EQ(chat.sampling.repetition_penalty, 1.1f);
  EXPECT_FLOAT_EQ(chat.sampling.presence_penalty, 0.5f);
  EXPECT_FLOAT_EQ(chat.sampling.frequency_penalty, 0.25f);
  EXPECT_EQ(chat.sampling.seed, 42u);
  EXPECT_EQ(chat.stop, std::vector<std::string>{"END"});
  EXPECT_EQ(chat.template_kwargs.at("reasoning_effort"), "high");
  EXPECT_EQ(chat.template_kwargs.at("enable_thinking"), true);
  ASSERT_TRUE(chat.form);
  EXPECT_EQ(chat.form->kind, AnswerForm::Kind::kSchema);
  EXPECT_TRUE(chat.parses_calls);
  EXPECT_EQ(chat.top_logprobs, 2u);
  EXPECT_EQ(request.load, "");
  EXPECT_FALSE(request.raw);
}

TEST(OllamaRequest, WhatMeansNothing) {
  const OllamaRequest request = Accepted(ParseChat(
      R"("stream": false, "format": "", "think": false, "options": {"num_predict": -1})"));
  EXPECT_FALSE(request.chat.stream);
  EXPECT_FALSE(request.chat.max_tokens);
  EXPECT_FALSE(request.chat.form);
  EXPECT_EQ(request.chat.max_thinking_tokens, 0u);
  EXPECT_EQ(Accepted(ParseChat(R"("format": "json")")).chat.form->kind,
            AnswerForm::Kind::kJsonObject);
}

TEST(OllamaRequest, ChoicesOfToolsAreThoseOfOpenAi) {
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "f"}}])";
  const ChatRequest none = Accepted(ParseChat(R"("tool_choice": "none", )" + tools)).chat;
  EXPECT_TRUE(none.tools.empty());
  EXPECT_FALSE(none.parses_calls);
  EXPECT_EQ(Accepted(ParseChat(R"("tool_choice": "required", )" + tools)).chat.tool_choice.kind,
            ToolChoice::Kind::kRequired);
  EXPECT_EQ(Accepted(ParseChat(R"("tool_choice": "auto", )" + tools)).chat.tool_choice.kind,
            ToolChoice::Kind::kAuto);
}

TEST(OllamaRequest, OptionsGoBeforeWhatIsBesideThem) {
  const ChatRequest beside =
      Accepted(ParseChat(R"("temperature": 0.5, "top_p": 0.25, "max_output_tokens": 5)")).chat;
  EXPECT_FLOAT_EQ(beside.sampling.temperature, 0.5f);
  EXPECT_FLOAT_EQ(beside.sampling.top_p, 0.25f);
  EXPECT_EQ(beside.max_tokens, 5u);
  const ChatRequest both = Accepted(ParseChat(R"("temperature": 0.5, "max_output_tokens": 5,
      "options": {"temperature": 0.75, "num_predict": 6})"))
                               .chat;
  EXPECT_FLOAT_EQ(both.sampling.temperature, 0.75f);
  EXPECT_EQ(both.max_tokens, 6u);
}

TEST(OllamaRequest, CallsGetIdsAndResultsFindThem) {
  const json::array messages = Accepted(ParseChat("", R"([
      {"role": "user", "content": "How warm?"},
      {"role": "assistant", "content": "", "thinking": "A tool.", "tool_calls": [
        {"function": {"name": "f", "arguments": {"city": "Bern"}}},
        {"function": {"name": "g", "arguments": {}}}]},
      {"role": "tool", "tool_name": "g", "content": "2"},
      {"role": "tool", "content": "1"},
      {"role": "assistant", "content": "x",
       "tool_calls": [{"id": "own", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
      {"role": "tool", "tool_call_id": "own", "content": "3"}])"))
                                   .chat.messages;
  ASSERT_EQ(messages.size(), 6u);
  const json::object& assistant = messages[1].as_object();
  EXPECT_TRUE(assistant.at("content").is_null());
  EXPECT_EQ(assistant.at("reasoning_content"), "A tool.");
  EXPECT_EQ(json::serialize(assistant.at("tool_calls")),
            R"([{"id":"call00001","type":"function","function":{"name":"f",)"
            R"("arguments":{"city":"Bern"}}},)"
            R"({"id":"call00002","type":"function","function":{"name":"g","arguments":{}}}])");
  EXPECT_EQ(json::serialize(messages[2]),
            R"({"role":"tool","content":"2","tool_call_id":"call00002","name":"g"})");
  EXPECT_EQ(json::serialize(messages[3]),
            R"({"role":"tool","content":"1","tool_call_id":"call00001","name":"f"})");
  EXPECT_EQ(messages[4].at("tool_calls").at(0).at("function").at("arguments").at("a"), 1);
  EXPECT_EQ(json::serialize(messages[5]),
            R"({"role":"tool","content":"3","tool_call_id":"own","name":"f"})");
}

TEST(OllamaRequest, ResultsOfOneToolComeInTheOrderOfItsCalls) {
  const std::string call = R"({"function": {"name": "f", "arguments": {}}})";
  const json::array messages = Accepted(ParseChat("", R"([
      {"role": "assistant", "tool_calls": [)" + call + ", " +
                                                          call + R"(]},
      {"role": "tool", "tool_name": "f", "content": "1"}, {"role": "tool", "content": "2"},
      {"role": "tool", "content": "3"}])"))
                                   .chat.messages;
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[1].at("tool_call_id"), "call00001");
  EXPECT_EQ(messages[2].at("tool_call_id"), "call00002");
  EXPECT_FALSE(messages[3].as_object().contains("tool_call_id")) << "nobody called it";
}

TEST(OllamaRequest, Prompts) {
  const OllamaRequest request = Accepted(ParsePrompt(R"("prompt": "Hi", "system": "Be brief.")"));
  EXPECT_EQ(json::serialize(request.chat.messages),
            R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}])");
  const OllamaRequest raw = Accepted(ParsePrompt(R"("prompt": "[INST] Hi", "raw": true)"));
  EXPECT_EQ(raw.raw, "[INST] Hi");
  EXPECT_TRUE(raw.chat.messages.empty());
  Accepted(ParsePrompt(
      R"("prompt": "Hi", "template": "", "suffix": "", "context": [], "images": [],
         "system": "")"));
}

TEST(OllamaRequest, NothingAskedLoadsTheModel) {
  EXPECT_EQ(Accepted(ParsePrompt("")).load, "load");
  EXPECT_EQ(Accepted(ParsePrompt(R"("prompt": "", "keep_alive": 0)")).load, "unload");
  EXPECT_EQ(Accepted(ParseChat(R"("keep_alive": "0s")", "[]")).load, "unload");
  EXPECT_EQ(Accepted(ParseChat(R"("keep_alive": -1)", "[]")).load, "load");
}

struct BadCase {
  bool is_chat;
  const char* more;
  const char* messages;
  const char* param;
  const char* says;
};

class BadOllama : public testing::TestWithParam<BadCase> {};

TEST_P(BadOllama, AreRefusedByName) {
  const BadCase& bad = GetParam();
  auto parsed = bad.is_chat ? ParseChat(bad.more, bad.messages) : ParsePrompt(bad.more);
  const auto* error = std::get_if<ApiError>(&parsed);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->status, 400);
  EXPECT_EQ(error->param, bad.param) << error->message;
  EXPECT_THAT(error->message, HasSubstr(bad.says));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadOllama,
    testing::Values(
        BadCase{true, R"("options": 5)", "", "options", "an object"},
        BadCase{true, R"("options": {"temperature": 3})", "", "options.temperature", "0 to 2"},
        BadCase{true, R"("options": {"num_predict": -3})", "", "options.num_predict", "-2"},
        BadCase{true, R"("options": {"mirostat": 2})", "", "options.mirostat", "min_p"},
        BadCase{true, R"("options": {"stop": [5]})", "", "options.stop", "has 5"},
        BadCase{true, R"("options": {"repeat_last_n": 64, "repeat_penalty": 1.1})", "",
                "options.repeat_last_n", "all tokens"},
        BadCase{true, R"("options": {"warmth": 3})", "", "options.warmth", "docs/ollama.md"},
        BadCase{true, R"("think": "very")", "", "think", "low, medium"},
        BadCase{true, R"("format": "yaml")", "", "format", "a JSON Schema"},
        BadCase{true, R"("tools": [{"name": "f"}])", "", "tools", "function"},
        BadCase{true, R"("tool_choice": "any")", "", "tool_choice", "required"},
        BadCase{true, R"("tool_choice": "required")", "", "tool_choice", "no function"},
        BadCase{true, R"("stream": "yes")", "", "stream", "true or false"},
        BadCase{true, "", R"([{"role": "user", "content": "x", "images": ["AA=="]}])",
                "messages[0].images", "text alone"},
        BadCase{true, "", R"([{"role": "critic", "content": "x"}])", "messages[0].role", "tool"},
        BadCase{true, "", R"([{"role": "user", "content": ["x"]}])", "messages[0].content",
                "a string"},
        BadCase{true, "", R"([5])", "messages[0]", "role"},
        BadCase{true, "", R"([{"role": "assistant", "tool_calls": [{}]}])",
                "messages[0].tool_calls", "arguments"},
        BadCase{true, "", R"([{"role": "assistant", "content": "Well,"}])", "messages",
                "cannot go on"},
        BadCase{true, "", R"({})", "messages", "an array"},
        BadCase{false, R"("prompt": 5)", "", "prompt", "a string"},
        BadCase{false, R"("prompt": "x", "raw": true, "system": "s")", "", "system", "raw"},
        BadCase{false, R"("prompt": "x", "suffix": "y")", "", "suffix", "filled in"},
        BadCase{false, R"("prompt": "x", "template": "y")", "", "template", "'raw'"},
        BadCase{false, R"("prompt": "x", "context": [1])", "", "context", "/api/chat"},
        BadCase{false, R"("prompt": "x", "images": ["AA=="])", "", "images", "reads text"}));

TEST(OllamaRequest, AWindowOfPenaltiesCountsWhereThereAreSome) {
  Accepted(ParseChat(R"("options": {"repeat_last_n": 64})"));
}

std::string Inside(const json::object& object) {
  const std::string text = json::serialize(object);
  return text.substr(1, text.size() - 2);
}

TEST(OllamaFields, AreNeverPassedOverAndThoseOfTheDocument) {
  ExpectNeverPassedOver(OllamaChatFields(),
                        [](const json::object& more) { return ParseChat(Inside(more)); });
  ExpectNeverPassedOver(OllamaGenerateFields(),
                        [](const json::object& more) { return ParsePrompt(Inside(more)); });
  ExpectNeverPassedOver(OllamaOptions(), [](json::object more) {
    if (more.contains("repeat_last_n")) more["repeat_penalty"] = 1.5;
    return ParseChat(Inside({{"options", more}}));
  });
  for (const FieldTable& table : {OllamaChatFields(), OllamaGenerateFields(), OllamaOptions()})
    ExpectDocumented(table);
}

using chat::Event;
using chat::EventKind;

const std::vector<Event> kEvents = {{EventKind::kReasoning, "Who asks"},
                                    {EventKind::kContent, "So "},
                                    {EventKind::kContent, "be it."},
                                    {EventKind::kCallBegins, "f", 0, "id0"},
                                    {EventKind::kArguments, R"({"city": )", 0},
                                    {EventKind::kArguments, R"("Bern"})", 0},
                                    {EventKind::kCallEnds, "", 0}};
// 2026-11-26 15:44:20.000123 UTC
constexpr int64_t kNow = 1795707860'000123;
const OllamaTimes kTimes = {Milliseconds(10), Milliseconds(1), Milliseconds(2), Milliseconds(7)};

AnswerEnd End() {
  AnswerEnd end;
  end.usage = {10, 4, 7};
  return end;
}

std::vector<json::object> LinesOf(const std::string& text) {
  std::vector<json::object> lines;
  for (size_t at = 0, end = 0; at < text.size(); at = end + 1) {
    end = text.find('\n', at);
    lines.push_back(json::parse(text.substr(at, end - at)).as_object());
  }
  return lines;
}

TEST(OllamaResponse, WholeChats) {
  OllamaAnswer answer(OllamaAnswer::Kind::kChat, "m", false);
  answer.Take(kEvents, {}, kNow);
  EXPECT_EQ(json::parse(answer.Whole(End(), kTimes, kNow)), json::parse(R"({
      "model": "m", "created_at": "2026-11-26T15:44:20.000123Z",
      "message": {"role": "assistant", "content": "So be it.", "thinking": "Who asks",
        "tool_calls": [{"id": "id0", "function": {"index": 0, "name": "f",
                                                  "arguments": {"city": "Bern"}}}]},
      "done": true, "done_reason": "stop", "total_duration": 10000000, "load_duration": 1000000,
      "prompt_eval_count": 10, "prompt_eval_duration": 2000000, "eval_count": 7,
      "eval_duration": 7000000})"));
}

TEST(OllamaResponse, LinesComeToTheWholeChat) {
  OllamaAnswer answer(OllamaAnswer::Kind::kChat, "m", false);
  std::string text = answer.Alive(kNow);
  for (const Event& event : kEvents) text += answer.Take({event}, {}, kNow);
  text += answer.Last(End(), kTimes, kNow);
  std::string content, thinking;
  json::array calls;
  const auto lines = LinesOf(text);
  for (const json::object& line : lines) {
    const json::object& message = line.at("message").as_object();
    content += message.at("content").as_string();
    if (message.contains("thinking")) thinking += message.at("thinking").as_string();
    if (message.contains("tool_calls")) calls = message.at("tool_calls").as_array();
    EXPECT_EQ(line.at("done"), &line == &lines.back());
  }
  EXPECT_EQ(lines.size(), 6u) << "a sign of life, a thought, two pieces, a call, the end";
  const json::value whole = json::parse(answer.Whole(End(), kTimes, kNow));
  EXPECT_EQ(whole.at("message").at("content"), json::value(content));
  EXPECT_EQ(whole.at("message").at("thinking"), json::value(thinking));
  EXPECT_EQ(whole.at("message").at("tool_calls"), json::value(calls));
  EXPECT_EQ(lines.back().at("eval_count"), 7);
}

TEST(OllamaResponse, PromptsLengthsLogprobsAndLoads) {
  OllamaAnswer answer(OllamaAnswer::Kind::kGenerate, "m", false);
  const SaidToken said{{"So ", "So ", -0.5f}, {{"No", "No", -1.5f}}};
  const auto lines = LinesOf(answer.Take({{EventKind::kContent, "So "}}, {said}, kNow));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].at("response"), "So ");
  EXPECT_EQ(json::serialize(lines[0].at("logprobs")),
            R"([{"token":"So ","logprob":-5E-1,"bytes":[83,111,32],)"
            R"("top_logprobs":[{"token":"No","logprob":-1.5E0,"bytes":[78,111]}]}])");
  AnswerEnd end = End();
  end.reason = EndReason::kLength;
  const json::value whole = json::parse(answer.Whole(end, kTimes, kNow));
  EXPECT_EQ(whole.at("response"), "So ");
  EXPECT_EQ(whole.at("done_reason"), "length");
  EXPECT_EQ(whole.at("logprobs").as_array().size(), 1u);
  EXPECT_FALSE(whole.as_object().contains("message"));
  const json::value loaded =
      json::parse(OllamaAnswer(OllamaAnswer::Kind::kGenerate, "m", false).Loaded("unload", kNow));
  EXPECT_EQ(loaded.at("done"), true);
  EXPECT_EQ(loaded.at("done_reason"), "unload");
  EXPECT_EQ(OllamaErrorJson({404, "No"}), R"({"error":"No"})");
}

TEST(OllamaModels, AreToldInEachForm) {
  OllamaModel model;
  model.name = "Qwen/Qwen3-0.6B:q4";
  model.digest = "ab12";
  model.architecture = "qwen3";
  model.quantisation = "q4";
  model.chat_template = "{{ messages }}";
  model.capabilities = {"completion", "tools"};
  model.changed_s = kNow / 1'000'000;
  model.byte_count = 123;
  model.context_length = 4096;
  model.layer_count = 28;
  model.hidden_columns = 1024;
  const json::value tags = json::parse(OllamaTagsJson({&model, 1})).at("models").at(0);
  EXPECT_EQ(json::serialize(tags),
            R"({"name":"Qwen/Qwen3-0.6B:q4","model":"Qwen/Qwen3-0.6B:q4","digest":"ab12",)"
            R"("details":{"parent_model":"","format":"weft","family":"qwen3",)"
            R"("families":["qwen3"],"parameter_size":"","quantization_level":"q4"},)"
            R"("modified_at":"2026-11-26T15:44:20.000000Z","size":123})");
  const json::value shown = json::parse(OllamaShowJson(model));
  EXPECT_EQ(shown.at("template"), "{{ messages }}");
  EXPECT_EQ(shown.at("details"), tags.at("details"));
  EXPECT_EQ(json::serialize(shown.at("capabilities")), R"(["completion","tools"])");
  EXPECT_EQ(json::serialize(shown.at("model_info")),
            R"({"general.architecture":"qwen3","general.basename":"Qwen/Qwen3-0.6B:q4",)"
            R"("qwen3.context_length":4096,"qwen3.block_count":28,"qwen3.embedding_length":1024})");
  OllamaHeld held{&model, 100, 40, std::nullopt};
  const json::value running = json::parse(OllamaPsJson({&held, 1})).at("models").at(0);
  EXPECT_EQ(running.at("size"), 100);
  EXPECT_EQ(running.at("size_vram"), 40);
  held.held_bytes = 0;
  EXPECT_EQ(OllamaPsJson({&held, 1}), R"({"models":[]})");
}

TEST(OllamaModels, AreAskedForByEitherName) {
  const auto asked = [](const char* body) {
    auto parsed = ParseOllamaShow(AsBytes(std::string_view(body)));
    const auto* error = std::get_if<ApiError>(&parsed);
    return error != nullptr ? error->message : std::get<std::string>(std::move(parsed));
  };
  EXPECT_EQ(asked(R"({"model": "m", "name": "n"})"), "m");
  EXPECT_EQ(asked(R"({"name": "n", "verbose": true})"), "n");
  EXPECT_THAT(asked(R"({"model": 5})"), HasSubstr("'model' is missing"));
  EXPECT_THAT(asked("["), HasSubstr("not valid JSON"));
}

}  // namespace
}  // namespace weft::api
