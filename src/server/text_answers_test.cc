// Completions of a text: what a writer makes of what the model says.
#include "server/text_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "server/server_testing.h"

namespace weft::server {
namespace {

namespace json = boost::json;
using testing::HasSubstr;

class TextAnswers : public testing::Test {
 protected:
  std::unique_ptr<AnswerWriter> Ask(const std::string& fields) {
    auto read = TextDialect().Read("{\"prompt\":\"a\"" + fields + "}", "", {});
    EXPECT_TRUE(std::holds_alternative<Question>(read));
    client_ = std::make_shared<RecordingResponder>();
    return std::move(std::get<Question>(read).write({7, "tiny", *text_}, client_).front());
  }
  static void Say(AnswerWriter& writer, const std::string& text) {
    writer.Write({{chat::EventKind::kContent, text}}, {{{text, text, -1.0f}, {}}});
  }

  const std::shared_ptr<const api::ModelText> text_ = TinyText();
  std::shared_ptr<RecordingResponder> client_;
};

TEST_F(TextAnswers, WholeOnesHaveAllTextAndLogprobs) {
  const auto writer = Ask(R"(,"logprobs":0)");
  writer->Begin();
  Say(*writer, "one ");
  Say(*writer, "two");
  EXPECT_EQ(client_->answers, 0);
  writer->Finish({api::EndReason::kLength, "", {3, 0, 2}});
  const json::value choice = json::parse(client_->body).at("choices").at(0);
  EXPECT_EQ(choice.at("text"), "one two");
  EXPECT_EQ(choice.at("finish_reason"), "length");
  EXPECT_EQ(choice.at("logprobs").at("tokens"), json::parse(R"(["one ","two"])"));
  EXPECT_EQ(choice.at("logprobs").at("text_offset"), json::parse("[0,4]"));
}

TEST_F(TextAnswers, StreamsEndWithReasonUsageAndDone) {
  const auto writer = Ask(R"(,"stream":true,"stream_options":{"include_usage":true})");
  writer->Begin();
  Say(*writer, "one");
  EXPECT_TRUE(client_->is_stream);
  EXPECT_THAT(client_->body, HasSubstr(R"("text":"one","index":0,"logprobs":null)"));
  writer->Finish({api::EndReason::kStop, "", {3, 0, 1}});
  EXPECT_THAT(client_->body,
              HasSubstr(R"("text":"","index":0,"logprobs":null,"finish_reason":"stop")"));
  EXPECT_THAT(client_->body, HasSubstr(R"("choices":[],"usage":{"prompt_tokens":3)"));
  EXPECT_TRUE(client_->body.ends_with("data: [DONE]\n\n"));
  EXPECT_TRUE(client_->has_ended);
}

TEST_F(TextAnswers, OffsetsOfAStreamGoOn) {
  const auto writer = Ask(R"(,"stream":true,"logprobs":1)");
  writer->Begin();
  Say(*writer, "one ");
  Say(*writer, "two");
  EXPECT_THAT(client_->body, HasSubstr(R"("text_offset":[0])"));
  EXPECT_THAT(client_->body, HasSubstr(R"("text_offset":[4])"));
}

TEST_F(TextAnswers, ErrorsHaveAStatusUntilAStreamBegins) {
  const api::ApiError error{503, "No.", "overloaded_error", "", ""};
  Ask(R"(,"stream":true)")->Fail(error);
  EXPECT_EQ(client_->status, 503);
  const auto writer = Ask(R"(,"stream":true)");
  writer->Begin();
  writer->Fail(error);
  EXPECT_EQ(client_->status, 200);
  EXPECT_THAT(client_->body, HasSubstr(R"(data: {"error":{"message":"No.")"));
  EXPECT_TRUE(client_->has_ended);
}

}  // namespace
}  // namespace weft::server
