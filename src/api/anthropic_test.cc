// Anthropic's Messages API: what is accepted and what it comes to, what is refused and how, and the
// messages and streams that answer it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <weft_source_dir.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_to.hpp>
#include <string>
#include <vector>

#include "api/anthropic_request.h"
#include "api/anthropic_response.h"
#include "api/request_fields_testing.h"
#include "text/utf8.h"

namespace weft::api {
namespace {

namespace json = boost::json;
using testing::HasSubstr;

std::string Body(const std::string& more) {
  return R"({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}])" +
         std::string(more.empty() ? "" : ", ") + more + "}";
}

ChatRequest Accepted(const std::string& body) {
  auto parsed = ParseAnthropicRequest(AsBytes(body));
  const auto* error = std::get_if<ApiError>(&parsed);
  EXPECT_EQ(error, nullptr) << (error != nullptr ? error->message : "");
  return error != nullptr ? ChatRequest() : std::get<ChatRequest>(std::move(parsed));
}

ApiError Refused(const std::string& body) {
  auto parsed = ParseAnthropicRequest(AsBytes(body));
  const auto* error = std::get_if<ApiError>(&parsed);
  EXPECT_NE(error, nullptr) << body;
  return error != nullptr ? *error : ApiError();
}

json::array MessagesOf(const std::string& system, const std::string& messages) {
  std::string body = R"({"model": "m", "max_tokens": 9, "messages": )" + messages;
  if (!system.empty()) body += ", \"system\": " + system;
  return Accepted(body + "}").messages;
}

TEST(AnthropicRequest, ReadsWhatClientsSend) {
  const ChatRequest chat = Accepted(Body(R"("stream": true, "temperature": 0.5, "top_p": 0.9,
      "top_k": 40, "stop_sequences": ["END"], "metadata": {"user_id": "u"}, "service_tier": "auto",
      "cache_control": {"type": "ephemeral"},
      "system": [{"type": "text", "text": "Be ", "cache_control": {"type": "ephemeral"}},
                 {"type": "text", "text": "brief."}],
      "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"},
                 "type": "custom", "cache_control": {"type": "ephemeral"}}],
      "tool_choice": {"type": "auto", "disable_parallel_tool_use": true})"));
  EXPECT_TRUE(chat.stream);
  EXPECT_EQ(chat.max_tokens, 9u);
  EXPECT_FLOAT_EQ(chat.sampling.temperature, 0.5f);
  EXPECT_FLOAT_EQ(chat.sampling.top_p, 0.9f);
  EXPECT_EQ(chat.sampling.top_k, 40);
  EXPECT_EQ(chat.stop, std::vector<std::string>{"END"});
  EXPECT_EQ(json::serialize(chat.messages),
            R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}])");
  EXPECT_EQ(json::serialize(chat.tools),
            R"([{"type":"function","function":{"name":"f","parameters":{"type":"object"},)"
            R"("description":"d"}}])");
  EXPECT_TRUE(chat.parses_calls);
  EXPECT_TRUE(chat.ends_with_call);
  EXPECT_FALSE(chat.max_thinking_tokens);
  EXPECT_TRUE(chat.shows_thinking);
}

// The conversation that an agent sends with the answer of its tool.
TEST(AnthropicRequest, CallsAndResultsBecomeMessagesOfTools) {
  const json::array messages = MessagesOf("", R"([
      {"role": "user", "content": "How warm?"},
      {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "There is a tool.", "signature": "x"},
        {"type": "redacted_thinking", "data": "y"},
        {"type": "tool_use", "id": "a", "name": "f", "input": {"city": "Bern"}},
        {"type": "tool_use", "id": "b", "name": "g", "input": {}}]},
      {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "b", "is_error": true, "content": "no line"},
        {"type": "tool_result", "tool_use_id": "a",
         "content": [{"type": "text", "text": "2"}, {"type": "text", "text": "1"}]},
        {"type": "text", "text": "Well?"}]}])");
  ASSERT_EQ(messages.size(), 5u);
  const json::object& assistant = messages[1].as_object();
  EXPECT_TRUE(assistant.at("content").is_null());
  EXPECT_EQ(assistant.at("reasoning_content"), "There is a tool.");
  EXPECT_EQ(json::serialize(assistant.at("tool_calls")),
            R"([{"id":"a","type":"function","function":{"name":"f","arguments":{"city":"Bern"}}},)"
            R"({"id":"b","type":"function","function":{"name":"g","arguments":{}}}])");
  EXPECT_EQ(json::serialize(messages[2]),
            R"({"role":"tool","content":"Error: no line","tool_call_id":"b","name":"g"})");
  EXPECT_EQ(json::serialize(messages[3]),
            R"({"role":"tool","content":"21","tool_call_id":"a","name":"f"})");
  EXPECT_EQ(json::serialize(messages[4]), R"({"role":"user","content":"Well?"})");
}

TEST(AnthropicRequest, NeighboursOfOneRoleAreOneMessage) {
  const json::array messages = MessagesOf(R"("S")", R"([
      {"role": "user", "content": "a"},
      {"role": "user", "content": [{"type": "text", "text": "b"}]},
      {"role": "assistant", "content": "c"}, {"role": "system", "content": "d"},
      {"role": "user", "content": "e"}])");
  EXPECT_EQ(json::serialize(messages),
            R"([{"role":"system","content":"S"},{"role":"user","content":"a\n\nb"},)"
            R"({"role":"assistant","content":"c"},{"role":"system","content":"d"},)"
            R"({"role":"user","content":"e"}])");
}

// Two requests of Claude Code differ there and nowhere else.
TEST(AnthropicRequest, ALineForBillingIsNotForTheModel) {
  const std::string hi = R"([{"role": "user", "content": "Hi"}])";
  const std::string line = "x-anthropic-billing-header: cc_version=2; cch=ab12;";
  const json::array plain = MessagesOf(R"("You help.")", hi);
  EXPECT_EQ(MessagesOf("\"" + line + "\\nYou help.\"", hi), plain);
  EXPECT_EQ(MessagesOf(R"([{"type": "text", "text": ")" + line + R"("},
                          {"type": "text", "text": "You help."}])",
                       hi),
            plain);
  EXPECT_EQ(MessagesOf("\"" + line + "\"", hi).size(), 1u);
  EXPECT_THAT(json::serialize(MessagesOf(R"("Say x-anthropic-billing-header: to me")", hi)),
              HasSubstr("Say x-anthropic"));
}

TEST(AnthropicRequest, ThinkingIsToldToTheTemplateAndBounded) {
  const ChatRequest on = Accepted(Body(R"("thinking": {"type": "enabled", "budget_tokens": 5})"));
  EXPECT_EQ(on.max_thinking_tokens, 5u);
  EXPECT_EQ(on.template_kwargs.at("enable_thinking"), true);
  const ChatRequest off = Accepted(Body(R"("thinking": {"type": "disabled"})"));
  EXPECT_EQ(off.max_thinking_tokens, 0u);
  EXPECT_EQ(off.template_kwargs.at("enable_thinking"), false);
  const ChatRequest adaptive = Accepted(Body(
      R"("thinking": {"type": "adaptive", "display": "omitted"},
         "output_config": {"effort": "low"})"));
  EXPECT_FALSE(adaptive.max_thinking_tokens);
  EXPECT_FALSE(adaptive.shows_thinking);
  EXPECT_FALSE(adaptive.template_kwargs.contains("enable_thinking"));
  EXPECT_EQ(adaptive.template_kwargs.at("reasoning_effort"), "low");
}

TEST(AnthropicRequest, FormsAndToolChoices) {
  const std::string format = R"({"type": "json_schema", "schema": {"type": "integer"}})";
  for (const std::string& field :
       {"\"output_config\": {\"format\": " + format + "}", "\"output_format\": " + format}) {
    const ChatRequest chat = Accepted(Body(field));
    ASSERT_TRUE(chat.form);
    EXPECT_EQ(chat.form->kind, AnswerForm::Kind::kSchema);
    EXPECT_EQ(json::serialize(chat.form->schema), R"({"type":"integer"})");
  }
  const ChatRequest none = Accepted(Body(R"("tool_choice": {"type": "none"},
      "tools": [{"name": "f", "input_schema": {}}])"));
  EXPECT_TRUE(none.tools.empty());
  EXPECT_FALSE(none.parses_calls);
  const std::string tools = R"(, "tools": [{"name": "f", "input_schema": {}}])";
  const ChatRequest any = Accepted(Body(R"("tool_choice": {"type": "any"})" + tools));
  EXPECT_EQ(any.tool_choice.kind, ToolChoice::Kind::kRequired);
  EXPECT_TRUE(any.parses_calls);
  EXPECT_FALSE(any.ends_with_call);
  const ChatRequest named = Accepted(
      Body(R"("tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": true})" +
           tools));
  EXPECT_EQ(named.tool_choice.kind, ToolChoice::Kind::kNamed);
  EXPECT_EQ(named.tool_choice.name, "f");
  EXPECT_TRUE(named.ends_with_call);
  Accepted(Body(R"("context_management": {"edits": [{"type": "clear_thinking_20251015"}]})"));
}

TEST(AnthropicRequest, CountingNeedsNoLimit) {
  const std::string body = R"({"model": "m", "messages": [{"role": "user", "content": "Hi"}]})";
  EXPECT_EQ(Refused(body).param, "max_tokens");
  EXPECT_TRUE(std::holds_alternative<ChatRequest>(ParseAnthropicRequest(AsBytes(body), {}, true)));
}

struct BadCase {
  const char* more;  // fields beside the good ones; or a whole body, from '{' on
  const char* param;
  const char* says;
};

class BadMessages : public testing::TestWithParam<BadCase> {};

TEST_P(BadMessages, AreRefusedByName) {
  const std::string more = GetParam().more;
  const ApiError error =
      Refused(more.starts_with("[") ? R"({"model": "m", "max_tokens": 9, "messages": )" + more + "}"
                                    : Body(more));
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.param, GetParam().param) << error.message;
  EXPECT_THAT(error.message, HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadMessages,
    testing::Values(
        BadCase{R"("temperature": 1.5)", "temperature", "a number from 0 to 1"},
        BadCase{R"("top_k": -1)", "top_k", "from 0"},
        BadCase{R"("stop_sequences": [""])", "stop_sequences", "non-empty"},
        BadCase{R"("container": "c")", "container", "'container' (Anthropic)"},
        BadCase{R"("frequency_penalty": 1)", "frequency_penalty", "docs/anthropic.md"},
        BadCase{R"("service_tier": "flex")", "service_tier", "standard_only"},
        BadCase{R"("thinking": {"type": "enabled"})", "thinking.budget_tokens", "missing"},
        BadCase{R"("thinking": {"type": "between_tools"})", "thinking", "adaptive"},
        BadCase{R"("thinking": 5)", "thinking", "expected an object"},
        BadCase{R"("output_config": {"effort": "huge"})", "output_config.effort", "xhigh"},
        BadCase{R"("output_config": {"task_budget": 5})", "output_config.task_budget",
                "max_tokens"},
        BadCase{R"("output_config": {"format": {"type": "text"}})", "output_config.format",
                "json_schema"},
        BadCase{R"("context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]})",
                "context_management.edits", "clear_thinking"},
        BadCase{R"("tools": [{"type": "web_search_20250305", "name": "web_search"}])", "tools[0]",
                "'web_search_20250305'"},
        BadCase{R"("tools": [{"name": "f"}])", "tools[0]", "input_schema"},
        BadCase{R"("tools": [{"name": "f", "input_schema": {}, "defer_loading": true}])",
                "tools[0].defer_loading", "shown every tool"},
        BadCase{R"("tools": {})", "tools", "an array of tools"},
        BadCase{R"("tool_choice": "auto")", "tool_choice", "an object"},
        BadCase{R"("tool_choice": {"type": "any"})", "tool_choice", "no function"},
        BadCase{R"("tool_choice": {"type": "tool"})", "tool_choice.name", "missing"},
        BadCase{R"("tool_choice": {"type": "tool", "name": "g"},
                   "tools": [{"name": "f", "input_schema": {}}])",
                "tool_choice", "expected one of 'tools': f"},
        BadCase{R"("system": [{"type": "image"}])", "system[0]", "'image'"},
        BadCase{"[]", "messages", "non-empty"},
        BadCase{R"([{"role": "tool", "content": "x"}])", "messages[0].role", "user, assistant"},
        BadCase{R"([{"role": "user"}])", "messages[0].content", "missing"},
        BadCase{R"([{"role": "user", "content": [{"type": "image", "source": {}}]}])",
                "messages[0].content[0]", "'image'"},
        BadCase{R"([{"role": "user", "content": [{"type": "text"}]}])",
                "messages[0].content[0].text", "missing"},
        BadCase{R"([{"role": "user", "content": ["x"]}])", "messages[0].content[0]", "'type'"},
        BadCase{R"([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}])",
                "messages[0].content[0].tool_use_id", "\"a\""},
        BadCase{R"([{"role": "user", "content": [{"type": "tool_use", "id": "a"}]}])",
                "messages[0].content[0]", "'tool_use'"},
        BadCase{R"([{"role": "user", "content": "x"}, {"role": "assistant", "content": "Well,"}])",
                "messages", "ends with one of the assistant"}));

TEST(AnthropicFields, AreNeverPassedOverAndThoseOfTheDocument) {
  ExpectNeverPassedOver(AnthropicFields(), [](const json::object& more) {
    std::string text = json::serialize(more);
    return ParseAnthropicRequest(AsBytes(Body(text.substr(1, text.size() - 2))));
  });
  ExpectDocumented(AnthropicFields());
}

using chat::Event;
using chat::EventKind;

const std::vector<Event> kEvents = {{EventKind::kReasoning, "Who "},
                                    {EventKind::kReasoning, "asks"},
                                    {EventKind::kContent, "So "},
                                    {EventKind::kContent, "be it."},
                                    {EventKind::kCallBegins, "f", 0, "id0"},
                                    {EventKind::kArguments, R"({"city": )", 0},
                                    {EventKind::kArguments, R"("Bern"})", 0},
                                    {EventKind::kCallEnds, "", 0}};

AnswerEnd EndOf(EndReason reason, const std::string& stop = "") {
  AnswerEnd end;
  end.reason = reason;
  end.stop_string = stop;
  end.usage = {10, 4, 7};
  end.usage.thinking_tokens = 3;
  return end;
}

TEST(AnthropicResponse, WholeMessages) {
  AnthropicMessage message("msg_1", "m", false);
  message.Take(kEvents);
  EXPECT_EQ(json::parse(message.Whole(EndOf(EndReason::kCalls))), json::parse(R"({
      "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
      "content": [{"type": "thinking", "thinking": "Who asks", "signature": "weft"},
                  {"type": "text", "text": "So be it."},
                  {"type": "tool_use", "id": "id0", "name": "f", "input": {"city": "Bern"}}],
      "stop_reason": "tool_use", "stop_sequence": null,
      "usage": {"input_tokens": 6, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 4,
                "output_tokens": 7, "output_tokens_details": {"thinking_tokens": 3}}})"));
}

TEST(AnthropicResponse, SaysWhyItEnded) {
  const auto ends = [](const AnswerEnd& end) {
    const json::value message = json::parse(AnthropicMessage("i", "m", false).Whole(end));
    return json::serialize(message.at("stop_reason")) +
           json::serialize(message.at("stop_sequence"));
  };
  EXPECT_EQ(ends(EndOf(EndReason::kStop)), R"("end_turn"null)");
  EXPECT_EQ(ends(EndOf(EndReason::kStop, "END")), R"("stop_sequence""END")");
  EXPECT_EQ(ends(EndOf(EndReason::kLength)), R"("max_tokens"null)");
}

// Names and data of a stream's events.
std::vector<std::pair<std::string, json::object>> EventsOf(const std::string& stream) {
  std::vector<std::pair<std::string, json::object>> events;
  for (size_t at = 0; at < stream.size();) {
    const size_t end = stream.find("\n\n", at), line = stream.find('\n', at);
    const std::string name = stream.substr(at + 7, line - at - 7);
    const json::object data = json::parse(stream.substr(line + 7, end - line - 7)).as_object();
    EXPECT_EQ(stream.substr(at, 7), "event: ");
    EXPECT_EQ(stream.substr(line, 7), "\ndata: ");
    EXPECT_EQ(data.at("type"), json::value(name));
    events.emplace_back(name, data);
    at = end + 2;
  }
  return events;
}

// What Anthropic's client makes of them.
TEST(AnthropicResponse, AStreamComesToTheWholeMessage) {
  AnthropicMessage message("msg_1", "m", false);
  std::string stream = message.Begin(10);
  for (const Event& event : kEvents) stream += message.Take({event});
  stream += message.End(EndOf(EndReason::kCalls));
  json::object built;
  std::string input;
  std::vector<std::string> names;
  for (const auto& [name, data] : EventsOf(stream)) {
    if (names.empty() || names.back() != name) names.push_back(name);
    if (name == "message_start") built = data.at("message").as_object();
    if (name == "content_block_start") {
      EXPECT_EQ(data.at("index"), built["content"].as_array().size());
      built["content"].as_array().push_back(data.at("content_block"));
      input.clear();
    }
    if (name == "content_block_delta") {
      EXPECT_EQ(data.at("index"), built["content"].as_array().size() - 1);
      json::object& block = built["content"].as_array().back().as_object();
      const json::object& delta = data.at("delta").as_object();
      for (const char* field : {"text", "thinking", "signature"})
        if (delta.contains(field)) block[field].as_string() += delta.at(field).as_string();
      if (delta.contains("partial_json")) input += delta.at("partial_json").as_string();
    }
    if (name == "content_block_stop" && !input.empty())
      built["content"].as_array().back().as_object()["input"] = json::parse(input);
    if (name == "message_delta") {
      for (const auto& [key, value] : data.at("delta").as_object()) built[key] = value;
      built["usage"] = data.at("usage");
    }
  }
  EXPECT_EQ(json::value(built), json::parse(message.Whole(EndOf(EndReason::kCalls))));
  EXPECT_EQ(names.front(), "message_start");
  EXPECT_EQ(names.back(), "message_stop");
  EXPECT_EQ(EventsOf(stream).front().second.at("message").at("usage").at("input_tokens"), 10);
}

TEST(AnthropicResponse, ListsTheModelThatIsServed) {
  const ServedModel model{"m", 1'795'707'860, 4096, {"completion"}};
  const json::value list = json::parse(AnthropicModelsJson({&model, 1}));
  EXPECT_EQ(list.at("data").at(0), json::parse(AnthropicModelJson(model)));
  EXPECT_EQ(list.at("has_more"), false);
  EXPECT_EQ(json::parse(AnthropicModelJson(model)), json::parse(R"({"type": "model", "id": "m",
      "display_name": "m", "created_at": "2026-11-26T15:44:20.000000Z", "max_input_tokens": 4096,
      "max_tokens": 4096, "capabilities": null})"));
}

// Its client then sends the whole conversation by itself.
TEST(AnthropicResponse, ThreadsAreRefusedAsItsClientKnows) {
  const ApiError error = Refused(Body(R"("thread": {"type": "create"})"));
  const json::value body = json::parse(AnthropicErrorJson(error));
  EXPECT_EQ(json::serialize(body.at("error").at("details")),
            R"({"error_code":"thread_unsupported_request","unsupported":["thread"]})");
  const json::value other = json::parse(AnthropicErrorJson(Refused(Body(R"("container": "c")"))));
  EXPECT_FALSE(other.at("error").as_object().contains("details"));
}

TEST(AnthropicResponse, ErrorsHaveTheTypeOfTheirStatus) {
  const auto type = [](int status) {
    return json::value_to<std::string>(
        json::parse(AnthropicErrorJson({status, "No\xff"})).at("error").at("type"));
  };
  EXPECT_EQ(type(400), "invalid_request_error");
  EXPECT_EQ(type(401), "authentication_error");
  EXPECT_EQ(type(403), "permission_error");
  EXPECT_EQ(type(404), "not_found_error");
  EXPECT_EQ(type(413), "request_too_large");
  EXPECT_EQ(type(429), "rate_limit_error");
  EXPECT_EQ(type(500), "api_error");
  EXPECT_EQ(type(503), "overloaded_error");
  EXPECT_EQ(AnthropicStatus(503), 529);
  EXPECT_EQ(AnthropicStatus(404), 404);
  EXPECT_EQ(utf8::FindInvalid(AnthropicErrorJson({400, "No\xff"})), std::string::npos);
  EXPECT_EQ(EventsOf(AnthropicErrorEvent({503, "full"})).front().second.at("error").at("type"),
            "overloaded_error");
}

}  // namespace
}  // namespace weft::api
