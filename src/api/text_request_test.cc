// POST /v1/completions: what is read of it, what is refused, and the older form of its answers.
#include "api/text_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "api/text_response.h"

namespace weft::api {
namespace {

namespace json = boost::json;
using testing::HasSubstr;

TextRequest AcceptedText(const std::string& body) {
  auto parsed = ParseTextRequest(AsBytes(body));
  const auto* error = std::get_if<ApiError>(&parsed);
  EXPECT_EQ(error, nullptr) << (error != nullptr ? error->message : "");
  return error != nullptr ? TextRequest() : std::get<TextRequest>(std::move(parsed));
}

ApiError RefusedText(const std::string& body) {
  auto parsed = ParseTextRequest(AsBytes(body));
  const auto* error = std::get_if<ApiError>(&parsed);
  EXPECT_NE(error, nullptr) << body;
  return error != nullptr ? *error : ApiError();
}

TEST(TextRequest, ReadsWhatClientsSend) {
  const TextRequest request = AcceptedText(R"({
    "model": "m", "prompt": "Once", "logprobs": 2, "stream": true, "stop": "END", "best_of": 1,
    "stream_options": {"include_usage": true}, "temperature": 0.5, "seed": 3, "suffix": "",
    "echo": false, "user": "x"})");
  EXPECT_EQ(std::get<std::string>(request.prompt), "Once");
  EXPECT_EQ(request.chat.model, "m");
  EXPECT_TRUE(request.chat.logprobs);
  EXPECT_EQ(request.chat.top_logprobs, 2u);
  EXPECT_TRUE(request.chat.stream && request.chat.include_usage);
  EXPECT_EQ(request.chat.stop, std::vector<std::string>{"END"});
  EXPECT_FLOAT_EQ(request.chat.sampling.temperature, 0.5f);
  EXPECT_EQ(request.chat.max_tokens, 16u) << "OpenAI's, where nothing is said";
  EXPECT_FALSE(request.chat.splits_thinking || request.chat.parses_calls);
  EXPECT_EQ(AcceptedText(R"({"prompt":"a","max_tokens":5})").chat.max_tokens, 5u);
  EXPECT_FALSE(AcceptedText(R"({"prompt":"a"})").chat.logprobs);
  EXPECT_TRUE(AcceptedText(R"({"prompt":"a","logprobs":0})").chat.logprobs);
}

TEST(TextRequest, APromptIsATextOrItsTokens) {
  const std::vector<int32_t> ids = {1, 2, 3};
  EXPECT_EQ(std::get<std::vector<int32_t>>(AcceptedText(R"({"prompt":[1,2,3]})").prompt), ids);
  EXPECT_EQ(std::get<std::vector<int32_t>>(AcceptedText(R"({"prompt":[[1,2,3]]})").prompt), ids);
  EXPECT_EQ(std::get<std::string>(AcceptedText(R"({"prompt":["a"]})").prompt), "a");
  for (const char* prompt : {"[]", "\"\"", "[[]]", "[\"\"]", "5", "{}", "[-1]", "[1.5]",
                             "[3000000000]", "[1,\"a\"]", "[true]", "[[1],[2]]", "[\"a\",\"b\"]"}) {
    SCOPED_TRACE(prompt);
    EXPECT_EQ(RefusedText("{\"prompt\":" + std::string(prompt) + "}").param, "prompt");
  }
  EXPECT_THAT(RefusedText(R"({"prompt":["a","b"]})").message, HasSubstr("has 2 entries"));
  EXPECT_THAT(RefusedText("{}").message, HasSubstr("'prompt' is missing"));
}

TEST(TextRequest, RefusesByName) {
  const auto param = [](const std::string& fields) {
    return RefusedText("{\"prompt\":\"a\"," + fields + "}").param;
  };
  EXPECT_EQ(param(R"("n":2)"), "n");
  EXPECT_EQ(param(R"("best_of":2)"), "best_of");
  EXPECT_EQ(param(R"("echo":true)"), "echo");
  EXPECT_EQ(param(R"("suffix":"x")"), "suffix");
  EXPECT_EQ(param(R"("logprobs":true)"), "logprobs");
  EXPECT_EQ(param(R"("logprobs":21)"), "logprobs");
  EXPECT_EQ(param(R"("typical_p":0.5)"), "typical_p") << "as in chats";
  EXPECT_EQ(param(R"("tempature":0.5)"), "tempature");
  EXPECT_THAT(RefusedText(R"({"prompt":"a","tools":[]})").message,
              HasSubstr("it is a field of chats: POST /v1/chat/completions"));
}

SaidToken SaidTokenOf(const std::string& text, const std::string& bytes, float logprob) {
  return {{text, bytes, logprob}, {{text, bytes, logprob}, {"x", "x", -2.0f}}};
}

TEST(TextResponse, LogprobsAreFourLists) {
  TextLogprobs logprobs;
  const json::object first = logprobs.Take(
      {SaidTokenOf("é", "\xc3\xa9", -0.5f), SaidTokenOf("\uFFFD", "\xe2\x80", -0.25f)});
  EXPECT_EQ(json::serialize(first.at("tokens")), R"(["é","bytes:\\xe2\\x80"])");
  EXPECT_EQ(first.at("token_logprobs").as_array().at(0).as_double(), -0.5);
  EXPECT_EQ(first.at("top_logprobs").at(1).at("bytes:\\xe2\\x80").as_double(), -0.25);
  EXPECT_EQ(first.at("top_logprobs").at(0).at("x").as_double(), -2.0);
  EXPECT_EQ(first.at("text_offset"), json::parse("[0,1]"));
  const json::object rest =
      logprobs.Take({SaidTokenOf("\uFFFD", "\x99", -1), {{"b", "b", -1}, {}}});
  EXPECT_EQ(rest.at("text_offset"), json::parse("[2,2]")) << "the character goes on, then a b";
  EXPECT_EQ(rest.at("top_logprobs").at(1), nullptr);
}

TEST(TextResponse, HasOpenAisForm) {
  const CompletionHead head = {"cmpl-1", 5, "m"};
  const json::value whole = json::parse(TextJson(head, "a\nb", "length", nullptr, {3, 1, 2}));
  EXPECT_EQ(whole.at("object"), "text_completion");
  EXPECT_EQ(whole.at("choices"),
            json::parse(R"([{"text":"a\nb","index":0,"logprobs":null,"finish_reason":"length"}])"));
  EXPECT_EQ(whole.at("usage").at("total_tokens"), 5);
  const std::string event = TextEvent(head, "a\nb", "", nullptr);
  EXPECT_EQ(event.find('\n'), event.size() - 2);
  EXPECT_EQ(json::parse(event.substr(6)).at_pointer("/choices/0/finish_reason"), nullptr);
}

}  // namespace
}  // namespace weft::api
