// The Responses API: what is read of a request, the messages that items come to, and the events of
// an answer. tests/e2e/openai_client.mjs has OpenAI's own client.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "api/request_fields_testing.h"
#include "api/responses_answer.h"
#include "api/responses_items.h"
#include "api/responses_request.h"

namespace weft::api {
namespace {

namespace json = boost::json;
using testing::ElementsAre;
using testing::HasSubstr;

ApiResult<ResponsesRequest> Parse(const std::string& fields) {
  const std::string body = "{\"input\":\"Hi\"" + fields + "}";
  return ParseResponsesRequest(AsBytes(body));
}

ResponsesRequest Read(const std::string& fields) {
  auto parsed = Parse(fields);
  const auto* error = std::get_if<ApiError>(&parsed);
  EXPECT_EQ(error, nullptr) << (error != nullptr ? error->message : "");
  return error != nullptr ? ResponsesRequest() : std::get<ResponsesRequest>(std::move(parsed));
}

json::array Items(const char* input) {
  auto read = ReadItems(json::parse(input));
  const auto* error = std::get_if<ApiError>(&read);
  EXPECT_EQ(error, nullptr) << (error != nullptr ? error->message : "");
  return error != nullptr ? json::array() : std::get<json::array>(std::move(read));
}

TEST(ResponsesRequest, ReadsWhatClientsSend) {
  const ResponsesRequest request = Read(R"(,"model":"m","instructions":"Be brief.","stream":true,
      "max_output_tokens":7,"temperature":0.6,"store":false,"previous_response_id":"resp_1",
      "parallel_tool_calls":false,"reasoning":{"effort":"low","summary":"auto"},
      "include":["reasoning.encrypted_content"],"metadata":{"a":"b"},"prompt_cache_key":"k",
      "text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true}},
      "tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"object"},
                "strict":true}])");
  EXPECT_EQ(request.chat.model, "m");
  EXPECT_EQ(request.instructions, "Be brief.");
  EXPECT_EQ(request.previous, "resp_1");
  EXPECT_TRUE(request.chat.stream && request.chat.parses_calls && request.chat.ends_with_call);
  EXPECT_EQ(request.chat.max_tokens, 7u);
  EXPECT_FALSE(request.stores);
  EXPECT_TRUE(request.summarises);
  EXPECT_EQ(request.chat.reasoning_effort, "low");
  ASSERT_TRUE(request.chat.form);
  EXPECT_EQ(request.chat.form->kind, AnswerForm::Kind::kSchema);
  EXPECT_EQ(request.chat.form->field, "text.format");
  EXPECT_EQ(request.chat.tools,
            json::parse(R"([{"type":"function","function":{"name":"f","description":"d",
                             "parameters":{"type":"object"},"strict":true}}])"));
  EXPECT_EQ(request.told.at("tools").at(0).at("name"), "f") << "as it came";
  EXPECT_EQ(request.told.at("metadata").at("a"), "b");
  EXPECT_EQ(request.told.at("store"), false);
  EXPECT_EQ(request.told.at("temperature"), 0.6);
}

TEST(ResponsesRequest, TellsWhatIsMeantWhereNothingIsSaid) {
  const ResponsesRequest request = Read("");
  EXPECT_TRUE(request.stores);
  EXPECT_FALSE(request.chat.logprobs || request.chat.parses_calls || request.summarises);
  EXPECT_EQ(request.told.at("tool_choice"), "auto");
  EXPECT_EQ(request.told.at("text"), json::parse(R"({"format":{"type":"text"}})"));
  EXPECT_EQ(request.told.at("instructions"), nullptr);
}

TEST(ResponsesRequest, LogprobsAreAskedForInEitherWay) {
  EXPECT_TRUE(Read(R"(,"include":["message.output_text.logprobs"])").chat.logprobs);
  EXPECT_EQ(Read(R"(,"top_logprobs":3)").chat.top_logprobs, 3u);
  EXPECT_TRUE(Read(R"(,"top_logprobs":3)").chat.logprobs);
}

TEST(ResponsesRequest, CallsCanBeDemanded) {
  const std::string tools = R"(,"tools":[{"type":"function","name":"f"}],"tool_choice":)";
  EXPECT_EQ(Read(tools + R"("required")").chat.tool_choice.kind, ToolChoice::Kind::kRequired);
  const ToolChoice named = Read(tools + R"({"type":"function","name":"f"})").chat.tool_choice;
  EXPECT_EQ(named.kind, ToolChoice::Kind::kNamed);
  EXPECT_EQ(named.name, "f");
  EXPECT_TRUE(Read(tools + R"("none")").chat.tools.empty());
  EXPECT_FALSE(Read(tools + R"("none")").chat.parses_calls);
  for (const char* choice : {R"({"type":"function","name":"g"})", R"({"type":"allowed_tools"})",
                             R"({"type":"web_search"})", "5"}) {
    auto parsed = Parse(tools + choice);
    ASSERT_TRUE(std::holds_alternative<ApiError>(parsed)) << choice;
    EXPECT_EQ(std::get<ApiError>(parsed).param, "tool_choice");
  }
}

TEST(ResponsesRequest, RefusesByName) {
  const auto refused = [](const std::string& fields) {
    auto parsed = Parse("," + fields);
    const auto* error = std::get_if<ApiError>(&parsed);
    EXPECT_NE(error, nullptr) << fields;
    EXPECT_EQ(error == nullptr ? 400 : error->status, 400);
    return error != nullptr ? error->param + ": " + error->message : "";
  };
  EXPECT_THAT(refused(R"("tools":[{"type":"web_search"}])"),
              HasSubstr("tools[0].type: 'tools[0].type' is \"web_search\"; weft hosts no tools"));
  EXPECT_THAT(refused(R"("tools":[{"type":"function"}])"), HasSubstr("tools[0]: "));
  EXPECT_THAT(refused(R"("text":{"verbosity":"low"})"), HasSubstr("text.verbosity: "));
  EXPECT_THAT(refused(R"("text":{"format":{"type":"json_schema"}})"), HasSubstr("text.format: "));
  EXPECT_THAT(refused(R"("text":{"size":1})"), HasSubstr("text.size: "));
  EXPECT_THAT(refused(R"("reasoning":{"effort":"most"})"), HasSubstr("reasoning.effort: "));
  EXPECT_THAT(refused(R"("reasoning":{"context":"all"})"), HasSubstr("reasoning.context: "));
  EXPECT_THAT(refused(R"("include":["everything"])"), HasSubstr("include: "));
  EXPECT_THAT(refused(R"("metadata":{"a":1})"), HasSubstr("metadata: "));
  EXPECT_THAT(refused(R"("max_output_tokens":0)"), HasSubstr("max_output_tokens: "));
  EXPECT_THAT(refused(R"("messages":[])"), HasSubstr("docs/responses.md"));
  EXPECT_THAT(refused(R"("input":[])"), HasSubstr("at least one item"));
  EXPECT_TRUE(std::holds_alternative<ResponsesRequest>(
      Parse(R"(,"input":[],"previous_response_id":"resp_1")")));
}

TEST(ResponsesRequest, NoFieldIsPassedOver) {
  ExpectNeverPassedOver(ResponsesFields(), [](json::object fields) {
    fields["input"] = "Hi";
    const std::string body = json::serialize(fields);
    return ParseResponsesRequest(AsBytes(body));
  });
  ExpectDocumented(ResponsesFields());
}

TEST(ResponsesItems, WhatTheAssistantDoesInARowIsOneMessage) {
  const json::array items = Items(R"([
    {"role": "developer", "content": "You know Bern."},
    {"role": "user", "content": [{"type": "input_text", "text": "How "},
                                 {"type": "input_text", "text": "warm?"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [],
     "content": [{"type": "reasoning_text", "text": "hm"}]},
    {"type": "message", "role": "assistant", "id": "msg_1",
     "content": [{"type": "output_text", "text": "Wait.", "annotations": []}]},
    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"city\": \"Bern\"}"},
    {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{broken"},
    {"type": "function_call_output", "call_id": "c1", "output": "21"},
    {"type": "function_call_output", "call_id": "c2",
     "output": [{"type": "input_text", "text": "none"}]},
    {"role": "assistant", "content": "So warm."},
    {"role": "assistant", "content": "And so cold."}])");
  const json::array messages = MessagesOf(items, "Be brief.");
  ASSERT_EQ(messages.size(), 7u);
  EXPECT_EQ(messages[0],
            json::parse(R"({"role":"system","content":"Be brief.\n\nYou know Bern."})"));
  EXPECT_EQ(messages[1], json::parse(R"({"role":"user","content":"How warm?"})"));
  EXPECT_EQ(messages[2].at("role"), "assistant");
  EXPECT_EQ(messages[2].at("content"), "Wait.");
  EXPECT_EQ(messages[2].at("reasoning_content"), "hm");
  ASSERT_EQ(messages[2].at("tool_calls").as_array().size(), 2u);
  EXPECT_EQ(messages[2].at("tool_calls").at(0).at("id"), "c1");
  EXPECT_EQ(messages[2].at("tool_calls").at(0).at("function").at("arguments").at("city"), "Bern");
  EXPECT_EQ(messages[2].at("tool_calls").at(1).at("function").at("arguments"), "{broken");
  EXPECT_EQ(messages[3], json::parse(R"({"role":"tool","tool_call_id":"c1","content":"21"})"));
  EXPECT_EQ(messages[4].at("content"), "none");
  EXPECT_EQ(messages[5].at("content"), "So warm.");
  EXPECT_EQ(messages[6].at("content"), "And so cold.");
}

TEST(ResponsesItems, CallsAloneAreAMessageWithoutContent) {
  const json::array messages = MessagesOf(Items(R"([{"role": "user", "content": "Hi"},
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}])"),
                                          "");
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[1].at("content"), nullptr);
  EXPECT_EQ(messages[1].at("tool_calls").as_array().size(), 1u);
}

TEST(ResponsesItems, HaveIdsAndTypes) {
  const json::array text = Items(R"("Hi")");
  ASSERT_EQ(text.size(), 1u);
  EXPECT_EQ(text[0].at("content").at(0).at("type"), "input_text");
  EXPECT_THAT(std::string(text[0].at("id").as_string()), testing::StartsWith("msg_"));
  EXPECT_EQ(Items(R"([{"role":"user","id":"msg_7","content":"a"}])")[0].at("id"), "msg_7");
  EXPECT_EQ(Items(R"([{"id":"msg_7"}])")[0].at("type"), "item_reference");
}

TEST(ResponsesItems, RefusalsNameTheirPlace) {
  const auto param = [](const char* input) {
    auto read = ReadItems(json::parse(input));
    const auto* error = std::get_if<ApiError>(&read);
    return error != nullptr ? error->param : "none";
  };
  EXPECT_EQ(param("5"), "input");
  EXPECT_EQ(param("[5]"), "input[0]");
  EXPECT_EQ(param(R"([{"role":"tool","content":"a"}])"), "input[0].role");
  EXPECT_EQ(param(R"([{"role":"user"}])"), "input[0].content");
  EXPECT_EQ(param(R"([{"role":"user","content":[{"type":"input_image","image_url":"x"}]}])"),
            "input[0].content[0]");
  EXPECT_EQ(param(R"([{"type":"web_search_call","id":"w"}])"), "input[0].type");
  EXPECT_EQ(param(R"([{"type":"function_call","call_id":"c","name":"f"}])"), "input[0].arguments");
  EXPECT_EQ(param(R"([{"type":"function_call_output","output":"a"}])"), "input[0].call_id");
  EXPECT_EQ(param(R"([{"type":"function_call_output","call_id":"c","output":5}])"),
            "input[0].output");
}

// Reads events one by one and checks what holds for all of them.
std::vector<json::object> EventsOf(const std::string& stream) {
  std::vector<json::object> events;
  for (size_t at = 0; at < stream.size();) {
    const size_t end = stream.find("\n\n", at);
    const std::string event = stream.substr(at, end - at);
    const size_t line = event.find("\ndata: ");
    EXPECT_TRUE(event.starts_with("event: "));
    events.push_back(json::parse(event.substr(line + 7)).as_object());
    EXPECT_EQ(event.substr(7, line - 7), events.back().at("type").as_string().c_str());
    EXPECT_EQ(events.back().at("sequence_number").to_number<size_t>(), events.size() - 1);
    at = end + 2;
  }
  return events;
}

std::vector<std::string> TypesOf(const std::vector<json::object>& events) {
  std::vector<std::string> types;
  for (const json::object& event : events)
    types.push_back(std::string(event.at("type").as_string()).substr(9));
  return types;
}

AnswerEnd EndsWith(EndReason reason) {
  return {reason, "", {.prompt_tokens = 5, .completion_tokens = 3, .thinking_tokens = 2}};
}

using chat::EventKind;

TEST(ResponsesAnswer, ItemsComeOneAfterAnother) {
  ResponsesAnswer answer({{"id", "resp_1"}}, {.stream = true});
  std::string stream = answer.Begin();
  stream += answer.Take({{EventKind::kReasoning, "hm"}}, {});
  stream += answer.Take({{EventKind::kContent, "a"}}, {});
  stream += answer.Take({{EventKind::kContent, "b"},
                         {EventKind::kCallBegins, "f", 0, "call_9"},
                         {EventKind::kArguments, "{}"},
                         {EventKind::kCallEnds, ""}},
                        {});
  stream += answer.End(EndsWith(EndReason::kCalls), 9);
  const auto events = EventsOf(stream);
  EXPECT_THAT(
      TypesOf(events),
      ElementsAre("created", "in_progress", "output_item.added", "content_part.added",
                  "reasoning_text.delta", "reasoning_text.done", "content_part.done",
                  "output_item.done", "output_item.added", "content_part.added",
                  "output_text.delta", "output_text.delta", "output_text.done", "content_part.done",
                  "output_item.done", "output_item.added", "function_call_arguments.delta",
                  "function_call_arguments.done", "output_item.done", "completed"));
  EXPECT_EQ(events[0].at("response").at("output"), json::array());
  EXPECT_EQ(events[8].at("item").at("content"), json::array()) << "nothing was said yet";
  EXPECT_EQ(events[12].at("text"), "ab");
  EXPECT_EQ(events[12].at("output_index"), 1);
  EXPECT_EQ(events[12].at("item_id"), events[8].at("item").at("id"));
  EXPECT_EQ(events[15].at("item").at("arguments"), "");
  EXPECT_EQ(events[17].at("name"), "f");
  const json::object& response = events.back().at("response").as_object();
  EXPECT_EQ(response, answer.response());
  EXPECT_EQ(response.at("status"), "completed");
  EXPECT_EQ(response.at("completed_at"), 9);
  EXPECT_EQ(response.at("output").at(2).at("call_id"), "call_9");
  EXPECT_EQ(response.at("usage").at("output_tokens_details").at("reasoning_tokens"), 2);
  EXPECT_EQ(response.at("usage").at("total_tokens"), 8);
  // They can be sent back as they are.
  EXPECT_EQ(MessagesOf(Items(json::serialize(answer.items()).c_str()), "").size(), 1u);
}

TEST(ResponsesAnswer, ThoughtsAreASummaryWhereOneIsAskedFor) {
  ResponsesAnswer answer({}, {.stream = true, .summarises = true});
  std::string stream = answer.Take({{EventKind::kReasoning, "hm"}}, {});
  stream += answer.End(EndsWith(EndReason::kStop), 9);
  const auto events = EventsOf(stream);
  EXPECT_THAT(TypesOf(events),
              ElementsAre("output_item.added", "reasoning_summary_part.added",
                          "reasoning_summary_text.delta", "reasoning_summary_text.done",
                          "reasoning_summary_part.done", "output_item.done", "completed"));
  EXPECT_EQ(events[2].at("summary_index"), 0);
  EXPECT_FALSE(events[2].contains("content_index"));
  EXPECT_EQ(answer.items()[0].at("summary").at(0).at("text"), "hm");
  EXPECT_EQ(answer.items()[0].at("content"), json::array());
}

TEST(ResponsesAnswer, OneThatHasNoMoreTokensIsIncomplete) {
  ResponsesAnswer answer({}, {});
  EXPECT_EQ(answer.Begin() + answer.Take({{EventKind::kContent, "a"}}, {}), "") << "no stream";
  answer.End(EndsWith(EndReason::kLength), 9);
  EXPECT_EQ(answer.response().at("status"), "incomplete");
  EXPECT_EQ(answer.response().at("incomplete_details").at("reason"), "max_output_tokens");
  EXPECT_EQ(answer.items()[0].at("status"), "incomplete");
}

TEST(ResponsesAnswer, AnEmptyOneHasAMessage) {
  ResponsesAnswer answer({}, {});
  answer.End(EndsWith(EndReason::kStop), 9);
  EXPECT_EQ(answer.items()[0].at("content").at(0).at("text"), "");
}

TEST(ResponsesAnswer, LogprobsAreOfTheText) {
  ResponsesAnswer answer({}, {.stream = true, .logprobs = true});
  const SaidToken said{{"a", "a", -1.0f}, {}};
  std::string stream = answer.Take({{EventKind::kReasoning, "hm"}}, {said});
  stream += answer.Take({{EventKind::kContent, "a"}, {EventKind::kContent, "b"}}, {said, said});
  stream += answer.End(EndsWith(EndReason::kStop), 9);
  EXPECT_EQ(answer.items()[1].at("content").at(0).at("logprobs").as_array().size(), 2u);
  size_t told = 0;
  for (const json::object& event : EventsOf(stream))
    if (event.at("type") == "response.output_text.delta")
      told += event.at("logprobs").as_array().size();
  EXPECT_EQ(told, 2u);
}

TEST(ResponsesAnswer, FailuresAreSaidInTheirWords) {
  ResponsesAnswer answer({}, {.stream = true});
  answer.Take({{EventKind::kContent, "a"}}, {});
  const std::string told = answer.Fail({500, "It broke \xff.", "server_error", "", ""});
  EXPECT_TRUE(told.starts_with("event: response.failed\n"));
  EXPECT_EQ(answer.response().at("status"), "failed");
  EXPECT_EQ(answer.response().at("error"),
            json::parse("{\"code\":\"server_error\",\"message\":\"It broke \uFFFD.\"}"));
}

}  // namespace
}  // namespace weft::api
