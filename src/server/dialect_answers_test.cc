// The forms of Anthropic's answers and of Ollama's, as a Completion drives them: what goes out
// when, and how it is told that something went wrong. What the texts are, api/ tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "server/anthropic_answers.h"
#include "server/ollama_answers.h"
#include "server/responses.h"
#include "server/server_testing.h"

namespace weft::server {
namespace {

namespace json = boost::json;
using chat::EventKind;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kMessages = R"("messages": [{"role": "user", "content": "Hi"}])";

// One answer of a dialect.
struct Asked {
  std::shared_ptr<const api::ModelText> text = TinyText();
  std::shared_ptr<RecordingResponder> client = std::make_shared<RecordingResponder>();
  Question question;
  Writers writers;

  AnswerWriter& writer() { return *writers.front(); }
};

Asked Ask(const Dialect& dialect, const std::string& fields) {
  Asked asked;
  auto read = dialect.Read("{" + fields + "}", "", {});
  const auto* error = std::get_if<api::ApiError>(&read);
  EXPECT_EQ(error, nullptr) << error->message;
  asked.question = std::get<Question>(std::move(read));
  if (asked.question.count) return asked;
  asked.writers = asked.question.write({1'795'707'860, "m", *asked.text, 10}, asked.client);
  EXPECT_EQ(asked.writers.size(), 1u);
  return asked;
}

Asked AskAnthropic(const std::string& more = "") {
  return Ask(AnthropicDialect(),
             std::string(R"("model": "m", "max_tokens": 9, )") + kMessages + more);
}

Asked AskOllama(const std::string& more = "") {
  return Ask(OllamaDialect(OllamaDialect::Kind::kChat),
             std::string(R"("model": "m", )") + kMessages + more);
}

json::value LastLineOf(const std::string& body) {
  const size_t end = body.size() - 1;
  return json::parse(body.substr(body.rfind('\n', end - 1) + 1, end));
}

TEST(AnthropicAnswers, AStreamBeginsLivesAndBreaksOff) {
  Asked asked = AskAnthropic(R"(, "stream": true)");
  EXPECT_TRUE(asked.writer().is_stream());
  EXPECT_EQ(asked.client->answers, 0) << "no byte before it is under way";
  asked.writer().Begin();
  EXPECT_THAT(asked.client->Header("Content-Type"), StartsWith("text/event-stream"));
  EXPECT_THAT(asked.client->body, HasSubstr("\"input_tokens\":10"));
  asked.writer().Write({{EventKind::kContent, "Once"}}, {});
  asked.client->body.clear();
  asked.writer().SayAlive();
  EXPECT_EQ(asked.client->body, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
  asked.writer().Fail(Overloaded("The swarm is gone."));
  EXPECT_THAT(asked.client->body, EndsWith("event: error\ndata: {\"type\":\"error\",\"error\":{"
                                           "\"type\":\"overloaded_error\",\"message\":"
                                           "\"The swarm is gone.\"}}\n\n"));
  EXPECT_TRUE(asked.client->has_ended);
}

TEST(AnthropicAnswers, WhatFailsBeforeHasAStatus) {
  for (const char* stream : {"", R"(, "stream": true)"}) {
    Asked asked = AskAnthropic(stream);
    asked.writer().Fail(Overloaded("No."));
    EXPECT_EQ(asked.client->status, 529);
    EXPECT_EQ(asked.client->Header("Retry-After"), "5");
    EXPECT_THAT(asked.client->body, StartsWith(R"({"type":"error")"));
  }
  Asked whole = AskAnthropic();
  whole.writer().Begin();
  EXPECT_EQ(whole.client->answers, 0);
  whole.writer().Fail({500, "No."});
  EXPECT_EQ(whole.client->status, 500);
  EXPECT_THAT(whole.client->body, HasSubstr("api_error"));
}

TEST(AnthropicAnswers, CountsAreOfThePrompt) {
  Asked asked = Ask(AnthropicCountDialect(), std::string(R"("model": "m", )") + kMessages);
  ASSERT_TRUE(asked.question.count);
  const net::HttpResponse response = asked.question.count(12);
  EXPECT_EQ(AsText(response.body.front().bytes()), R"({"input_tokens":12})");
}

// Comments are in server-sent events alone, and whole answers have nothing before their end.
TEST(Loading, IsToldWhereEveryClientSkipsIt) {
  Asked stream = AskAnthropic(R"(, "stream": true)");
  ASSERT_TRUE(stream.writer().tells_loading());
  stream.writer().Begin();
  stream.writer().SayLoading("m", 40);
  EXPECT_THAT(stream.client->body, HasSubstr(": progress {\"loading\":\"m\",\"percent\":40}\n\n"));
  stream.writer().Fail({503, "It did not come up.", "overloaded_error", "", "unavailable"});
  EXPECT_THAT(stream.client->body, HasSubstr("event: error\n"));
  EXPECT_TRUE(stream.client->has_ended);
  EXPECT_FALSE(AskAnthropic().writer().tells_loading());
  EXPECT_FALSE(AskOllama().writer().tells_loading());
}

TEST(OllamaAnswers, LinesBeginLiveAndBreakOff) {
  Asked asked = AskOllama();
  EXPECT_TRUE(asked.writer().is_stream()) << "unless it is said otherwise";
  asked.writer().Begin();
  EXPECT_EQ(asked.client->Header("Content-Type"), "application/x-ndjson");
  asked.writer().SayProgress({});
  EXPECT_EQ(asked.client->body, "") << "lines have no comments";
  asked.writer().SayAlive();
  EXPECT_EQ(LastLineOf(asked.client->body).at("message").at("content"), "");
  asked.writer().Write({{EventKind::kContent, "Once"}}, {});
  EXPECT_EQ(LastLineOf(asked.client->body).at("message").at("content"), "Once");
  asked.writer().Fail(Overloaded("The swarm is gone."));
  EXPECT_EQ(json::serialize(LastLineOf(asked.client->body)), R"({"error":"The swarm is gone."})");
  EXPECT_TRUE(asked.client->has_ended);
}

TEST(OllamaAnswers, AnEndHasCountsAndTimes) {
  for (const bool stream : {false, true}) {
    Asked asked = AskOllama(stream ? "" : R"(, "stream": false)");
    asked.writer().Begin();
    asked.writer().Write({{EventKind::kContent, "Once"}}, {});
    api::AnswerEnd end;
    end.usage = {10, 0, 1};
    asked.writer().Finish(end);
    const json::value last =
        stream ? LastLineOf(asked.client->body) : json::parse(asked.client->body);
    EXPECT_EQ(last.at("done"), true);
    EXPECT_EQ(last.at("eval_count"), 1);
    EXPECT_EQ(last.at("total_duration").as_int64(), last.at("load_duration").as_int64() +
                                                        last.at("prompt_eval_duration").as_int64() +
                                                        last.at("eval_duration").as_int64());
    EXPECT_EQ(asked.client->is_stream, stream);
  }
}

TEST(OllamaAnswers, WhatFailsBeforeHasAStatusAndLoadingNeedsNoModel) {
  Asked asked = AskOllama();
  asked.writer().Fail(Overloaded("No."));
  EXPECT_EQ(asked.client->status, 503);
  EXPECT_EQ(asked.client->body, R"({"error":"No."})");
  Asked load = Ask(OllamaDialect(OllamaDialect::Kind::kGenerate), R"("model": "m")");
  ASSERT_TRUE(load.question.count);
  const net::HttpResponse response = load.question.count(0);
  EXPECT_THAT(std::string(AsText(response.body.front().bytes())),
              HasSubstr(R"("done":true,"done_reason":"load")"));
}

}  // namespace
}  // namespace weft::server
