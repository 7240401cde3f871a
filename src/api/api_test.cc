// Requests of OpenAI's API: what is accepted, what is refused and how it is said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "api/openai_request.h"
#include "api/openai_response.h"
#include "api/swarm_json.h"
#include "text/utf8.h"

namespace weft::api {
namespace {

ApiResult<ChatRequest> Parse(const std::string& body) {
  return ParseChatRequest(AsBytes(body));
}

ChatRequest Accepted(const std::string& body) {
  auto parsed = Parse(body);
  const auto* error = std::get_if<ApiError>(&parsed);
  EXPECT_EQ(error, nullptr) << (error != nullptr ? error->message : "");
  return error != nullptr ? ChatRequest() : std::get<ChatRequest>(std::move(parsed));
}

TEST(ChatRequest, ReadsWhatClientsSend) {
  const ChatRequest chat = Accepted(R"({
    "model": "m", "stream": true, "stream_options": {"include_usage": true}, "temperature": 0.5,
    "top_p": 0.9, "max_completion_tokens": 7, "stop": ["\n\n", "END"], "seed": 42, "user": "x",
    "logit_bias": {"5": -100}, "logprobs": true, "top_logprobs": 3, "n": 1,
    "messages": [{"role": "developer", "content": "Be brief."},
                 {"role": "user", "content": [{"type": "text", "text": "Hi "},
                                              {"type": "text", "text": "there"}]},
                 {"role": "assistant", "content": null, "tool_calls": []}]})");
  EXPECT_EQ(chat.model, "m");
  EXPECT_TRUE(chat.stream);
  EXPECT_TRUE(chat.include_usage);
  EXPECT_EQ(chat.max_tokens, 7u);
  EXPECT_EQ(chat.stop, (std::vector<std::string>{"\n\n", "END"}));
  EXPECT_FLOAT_EQ(chat.sampling.temperature, 0.5f);
  EXPECT_EQ(chat.sampling.seed, 42u);
  ASSERT_EQ(chat.sampling.logit_bias.size(), 1u);
  EXPECT_EQ(chat.sampling.logit_bias[0].token_id, 5);
  EXPECT_EQ(chat.messages[0].at("role"), "system");
  EXPECT_EQ(chat.messages[1].at("content"), "Hi there");
  EXPECT_TRUE(chat.messages[2].at("content").is_null());
  EXPECT_EQ(chat.top_logprobs, 3u);
}

struct BadCase {
  const char* body;
  const char* param;
  const char* says;
};

class BadRequests : public testing::TestWithParam<BadCase> {};

TEST_P(BadRequests, NameTheFieldAndWhatWasExpected) {
  auto parsed = Parse(GetParam().body);
  ASSERT_TRUE(std::holds_alternative<ApiError>(parsed));
  const ApiError& error = std::get<ApiError>(parsed);
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.param, GetParam().param);
  EXPECT_THAT(error.message, testing::HasSubstr(GetParam().says));
}

#define MESSAGES "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]"
INSTANTIATE_TEST_SUITE_P(
    All, BadRequests,
    testing::Values(
        BadCase{"", "", "not valid JSON"}, BadCase{"[]", "", "JSON object"},
        BadCase{"{\"a\":1,}", "", "at byte 7 of 8"}, BadCase{"{} {}", "", "not valid JSON"},
        BadCase{"{\"messages\":[]}", "messages", "non-empty array"},
        BadCase{"{\"model\":\"m\"}", "messages", "non-empty array"},
        BadCase{"{\"model\":\"m\",\"messages\":[]}", "messages", "non-empty array"},
        BadCase{"{\"model\":\"m\",\"messages\":[{\"role\":\"king\",\"content\":\"x\"}]}",
                "messages[0].role", "expected system"},
        BadCase{"{\"model\":\"m\",\"messages\":[{\"role\":\"user\"}]}", "messages[0].content",
                "missing"},
        BadCase{"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
                "\"image_url\"}]}]}",
                "messages[0].content", "text parts only"},
        BadCase{"{" MESSAGES ",\"temperature\":3}", "temperature", "from 0"},
        BadCase{"{" MESSAGES ",\"temperature\":\"hot\"}", "temperature", "\"hot\""},
        BadCase{"{" MESSAGES ",\"max_tokens\":0}", "max_tokens", "from 1"},
        BadCase{"{" MESSAGES ",\"max_tokens\":1.5}", "max_tokens", "integer"},
        BadCase{"{" MESSAGES ",\"max_tokens\":5,\"max_completion_tokens\":6}", "max_tokens",
                "the 6 of 'max_completion_tokens'"},
        BadCase{"{" MESSAGES ",\"n\":9}", "n", "'n' is 9; expected an integer from 1 to 8"},
        BadCase{"{" MESSAGES ",\"n\":0}", "n", "from 1 to 8"},
        BadCase{"{" MESSAGES ",\"stop\":[\"a\",5]}", "stop", "has 5"},
        BadCase{"{" MESSAGES ",\"logit_bias\":[]}", "logit_bias", "is []; expected an object"},
        BadCase{"{" MESSAGES ",\"tools\":5}", "tools", "is 5; expected an array"},
        BadCase{"{" MESSAGES ",\"tools\":[5]}", "tools[0]", "is 5; expected an object"},
        BadCase{"{" MESSAGES ",\"stream_options\":{\"include_usage\":1}}", "include_usage",
                "true or false"},
        BadCase{"{" MESSAGES ",\"stream_options\":{\"continuous_usage_stats\":true}}",
                "stream_options.continuous_usage_stats", "include_usage alone"},
        BadCase{"{" MESSAGES ",\"chat_template_kwargs\":[]}", "chat_template_kwargs", "an object"},
        BadCase{"{" MESSAGES ",\"temprature\":1}", "temprature", "no field that weft knows"},
        BadCase{"{\"model\":5}", "model", "'model' is 5"},
        BadCase{"{\"model\":\"m\",\"messages\":\"Hi\"}", "messages", "is \"Hi\""},
        BadCase{"{" MESSAGES ",\"stream\":\"yes\"}", "stream", "true or false"},
        BadCase{"{" MESSAGES ",\"prompt_cache_key\":5}", "prompt_cache_key", "a string"},
        BadCase{"{" MESSAGES ",\"stop\":\"\"}", "stop", "non-empty"},
        BadCase{"{" MESSAGES ",\"logit_bias\":{\"x\":1}}", "logit_bias", "token id"},
        BadCase{"{" MESSAGES ",\"logit_bias\":{\"05\":1}}", "logit_bias", "token id"},
        BadCase{"{" MESSAGES ",\"logit_bias\":{\"-1\":1}}", "logit_bias", "token id"},
        BadCase{"{" MESSAGES ",\"logit_bias\":{\"5\":101}}", "logit_bias", "from -100 to 100"},
        BadCase{"{" MESSAGES ",\"top_logprobs\":99}", "top_logprobs", "20"},
        BadCase{"{" MESSAGES ",\"top_logprobs\":5}", "top_logprobs", "'logprobs': true"},
        BadCase{"{" MESSAGES ",\"response_format\":{\"type\":\"xml\"}}", "response_format",
                "\"json_object\""},
        BadCase{"{" MESSAGES ",\"tool_choice\":\"required\"}", "tool_choice",
                "'tools' has no function"},
        BadCase{"{" MESSAGES
                ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}},"
                "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"g\"}}]}",
                "tool_choice", "expected one of 'tools': g."},
        BadCase{"{" MESSAGES ",\"tool_choice\":{\"type\":\"custom\"}}", "tool_choice",
                "\"required\""},
        BadCase{"{" MESSAGES ",\"functions\":[]}", "functions", "'tools'"},
        BadCase{"{" MESSAGES ",\"function_call\":\"auto\"}", "function_call", "not supported"},
        BadCase{"{" MESSAGES ",\"reasoning_effort\":\"most\"}", "reasoning_effort", "minimal"},
        BadCase{"{" MESSAGES ",\"parallel_tool_calls\":1}", "parallel_tool_calls", "true or false"},
        BadCase{"{" MESSAGES ",\"max_thinking_tokens\":-1}", "max_thinking_tokens", "from 0 to"},
        BadCase{"{" MESSAGES ",\"thinking_token_budget\":0.5}", "thinking_token_budget", "integer"},
        BadCase{"{" MESSAGES ",\"modalities\":[\"text\",\"audio\"]}", "modalities", "only"},
        BadCase{"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
                "\"input_audio\",\"input_audio\":{}}]}]}",
                "messages[0].content", "\"input_audio\""},
        BadCase{"{\"model\":\"m\",\"messages\":[{\"role\":\"assistant\",\"tool_calls\":5}]}",
                "messages[0].tool_calls", "array of calls"}));

TEST(ChatRequest, TakesWhatChangesNothing) {
  const ChatRequest chat = Accepted(
      "{" MESSAGES
      ",\"response_format\":{\"type\":\"text\"},\"tool_choice\":\"auto\",\"functions\":null,"
      "\"parallel_tool_calls\":true,\"modalities\":[\"text\"],\"store\":true,\"n\":1,"
      "\"metadata\":{\"a\":\"b\"},\"tools\":[{\"type\":\"function\"}]}");
  EXPECT_EQ(chat.tools.size(), 1u);
}

TEST(ChatRequest, ABodyMayBeginWithAByteOrderMark) {
  EXPECT_EQ(Accepted("\xEF\xBB\xBF{" MESSAGES "}").model, "m");
}

TEST(ChatRequest, ToolsThatAreNotToBeUsedAreNotTold) {
  EXPECT_TRUE(
      Accepted("{" MESSAGES ",\"tool_choice\":\"none\",\"tools\":[{\"type\":\"function\"}]}")
          .tools.empty());
}

TEST(ChatRequest, ArgumentsOfToolCallsReachTemplatesAsObjects) {
  const ChatRequest chat = Accepted(R"({"model":"m","messages":[{"role":"assistant","tool_calls":[
      {"type":"function","function":{"name":"add","arguments":"{\"a\": 1}"}},
      {"type":"function","function":{"name":"add","arguments":"{broken"}},
      {"type":"function","function":{"name":"add","arguments":{"a":2}}}]}]})");
  const auto& calls = chat.messages[0].at("tool_calls").as_array();
  EXPECT_EQ(calls[0].at("function").at("arguments").at("a"), 1);
  EXPECT_EQ(calls[1].at("function").at("arguments"), "{broken");
  EXPECT_EQ(calls[2].at("function").at("arguments").at("a"), 2);
}

TEST(ChatRequest, WhatIsShownOfAValueIsWholeCharacters) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "\u00e9";
  for (const char* before : {"", "x"}) {
    const std::string body = "{" MESSAGES ",\"n\":\"" + (before + text) + "\"}";
    auto parsed = Parse(body);
    const std::string& message = std::get<ApiError>(parsed).message;
    EXPECT_THAT(message, testing::HasSubstr("..."));
    EXPECT_EQ(utf8::FindInvalid(message), std::string::npos) << message;
  }
}

TEST(ChatRequest, RefusesDeepNesting) {
  std::string body = "{" MESSAGES ",\"metadata\":";
  for (int i = 0; i < 100; ++i) body += "[";
  for (int i = 0; i < 100; ++i) body += "]";
  auto refused = Parse(body + "}");
  ASSERT_TRUE(std::holds_alternative<ApiError>(refused));
  EXPECT_THAT(std::get<ApiError>(refused).message, testing::HasSubstr("more than 64 deep"));
}

TEST(Responses, ChunksAreEventsOfOneJsonObject) {
  const CompletionHead head = {"chatcmpl-1", 5, "m"};
  const std::string event = ChunkEvent(head, 0, {{"content", "a\n\"b\""}}, "");
  ASSERT_TRUE(event.starts_with("data: ") && event.ends_with("\n\n"));
  EXPECT_EQ(event.find('\n'), event.size() - 2);  // a line break in the text must not end the event
  const auto chunk = boost::json::parse(event.substr(6));
  EXPECT_EQ(chunk.at_pointer("/choices/0/delta/content"), "a\n\"b\"");
  EXPECT_TRUE(chunk.at_pointer("/choices/0/finish_reason").is_null());
  EXPECT_EQ(chunk.at("object"), "chat.completion.chunk");
}

TEST(Responses, ContentEventEqualsTheGeneralChunk) {
  const CompletionHead head = {"chatcmpl-\"1\"", 5, "m\n"};
  for (const char* text : {"", "a", "line\nbreak \"quoted\" \\ \x01 é \U0001F600"}) {
    EXPECT_EQ(boost::json::parse(ContentEvent(head, 2, text).substr(6)),
              boost::json::parse(ChunkEvent(head, 2, {{"content", text}}, "").substr(6)));
  }
}

TEST(Responses, ProgressIsACommentInOneLine) {
  EXPECT_EQ(LoadingComment("a\n\n\"b", 40),
            ": progress {\"loading\":\"a\\n\\n\\\"b\",\"percent\":40}\n\n");
  EXPECT_EQ(LoadingComment("b", std::nullopt), ": progress {\"loading\":\"b\"}\n\n");
  EXPECT_EQ(ProgressComment({true, 2, 100, 0}), ": progress {\"requests_ahead\":2}\n\n");
  EXPECT_EQ(ProgressComment({false, 0, 1200, 320}),
            ": progress {\"prompt_tokens\":1200,\"prompt_done\":320}\n\n");
}

TEST(Responses, ErrorsHaveOpenAisForm) {
  const auto error = boost::json::parse(
      ErrorJson(FromError(Error(ErrorCode::kUnavailable, "The queue is full."))));
  EXPECT_EQ(error.at_pointer("/error/message"), "The queue is full.");
  EXPECT_EQ(error.at_pointer("/error/type"), "overloaded_error");
  EXPECT_EQ(FromError(Error(ErrorCode::kUnavailable, "")).status, 503);
}

TEST(Responses, NeverHoldBytesThatAreNotText) {
  const std::string error =
      ErrorJson({404, "Nothing at \xff\xc3.", "invalid_request_error", "", ""});
  EXPECT_EQ(utf8::FindInvalid(error), std::string::npos);
  EXPECT_THAT(error, testing::HasSubstr("\uFFFD"));
}

TEST(Responses, ATooLongConversationHasOpenAisCode) {
  const ApiError error = FromError(Error(ErrorCode::kLimitExceeded, "Too long."));
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.code, "context_length_exceeded");
  EXPECT_EQ(error.param, "messages");
}

TEST(SwarmJson, HasEveryWorker) {
  swarm::Snapshot snapshot;
  snapshot.state = swarm::SwarmState::kUp;
  snapshot.workers.resize(2);
  snapshot.workers[1].name = "laptop \"two\"";
  snapshot.covered_layers = {true, false};
  const auto json = boost::json::parse(SwarmJson(snapshot, {"m", "qwen3", "q4", 10, 123, 4096}));
  EXPECT_EQ(json.at("state"), "up");
  EXPECT_EQ(json.at_pointer("/workers/1/name"), "laptop \"two\"");
  EXPECT_EQ(json.at_pointer("/covered_layers/1"), false);
  EXPECT_EQ(json.at_pointer("/model/layers"), 10);
}

TEST(HelperJson, HasTheDevicesOfThatNameAndNothingElse) {
  swarm::Snapshot snapshot;
  snapshot.workers.resize(3);
  snapshot.workers[1].name = snapshot.workers[2].name = "tablet";
  snapshot.workers[1].state = swarm::WorkerState::kIdle;
  snapshot.workers[1].problem = "It would slow the swarm down, so it holds no layers.";
  const auto json = boost::json::parse(HelperJson(snapshot, "tablet"));
  EXPECT_EQ(json.at("devices").as_array().size(), 2u);
  EXPECT_EQ(json.at_pointer("/devices/0/state"), "idle");
  EXPECT_EQ(json.at_pointer("/devices/0/problem"),
            "It would slow the swarm down, so it holds no layers.");
  EXPECT_EQ(HelperJson(snapshot, "phone"), R"({"devices":[]})");
}

}  // namespace
}  // namespace weft::api
