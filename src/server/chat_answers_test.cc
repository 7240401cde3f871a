// Several choices of one chat: who says what, when it ends, and what becomes of the others.
#include "server/chat_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "server/server_testing.h"

namespace weft::server {
namespace {

namespace json = boost::json;
using testing::HasSubstr;

std::vector<chat::Event> Said(const std::string& text) {
  return {{chat::EventKind::kContent, text}};
}

api::AnswerEnd EndOf(uint32_t prompt, uint32_t cached, uint32_t tokens) {
  api::AnswerEnd end;
  end.usage.prompt_tokens = prompt;
  end.usage.cached_prompt_tokens = cached;
  end.usage.completion_tokens = tokens;
  end.usage.thinking_tokens = 1;
  return end;
}

class Choices : public testing::Test {
 protected:
  void Ask(ChatForm form) {
    form.choices = 3;
    client_ = std::make_shared<RecordingResponder>();
    writers_ = WriteChat(form, {7, "tiny", *text_}, client_);
    for (size_t i = 0; i < writers_.size(); ++i)
      writers_[i]->OnClosed([this, i] { closed_.push_back(i); });
  }
  // The chunks of a stream.
  std::vector<json::value> Chunks() const {
    std::vector<json::value> chunks;
    for (size_t at = client_->body.find("data: {"); at != std::string::npos;
         at = client_->body.find("data: {", at + 1))
      chunks.push_back(
          json::parse(client_->body.substr(at + 6, client_->body.find('\n', at) - at - 6)));
    return chunks;
  }

  const std::shared_ptr<const api::ModelText> text_ = TinyText();
  std::shared_ptr<RecordingResponder> client_;
  Writers writers_;
  std::vector<size_t> closed_;
};

TEST_F(Choices, OfAWholeAnswerStandInTheirOrder) {
  Ask({});
  for (const auto& writer : writers_) writer->Begin();
  for (const size_t i : {2, 0, 1}) {
    writers_[i]->Write(Said("choice " + std::to_string(i)), {});
    EXPECT_EQ(client_->answers, 0);
    writers_[i]->Finish(EndOf(10, i == 0 ? 2 : 9, 3));
  }
  const json::value answer = json::parse(client_->body);
  ASSERT_EQ(answer.at("choices").as_array().size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const json::value& choice = answer.at("choices").at(static_cast<size_t>(i));
    EXPECT_EQ(choice.at("index"), i);
    EXPECT_EQ(choice.at("message").at("content"), json::value("choice " + std::to_string(i)));
  }
  EXPECT_EQ(answer.at("usage").at("prompt_tokens"), 10) << "it is one prompt";
  EXPECT_EQ(answer.at("usage").at("completion_tokens"), 9);
  EXPECT_EQ(answer.at("usage").at("total_tokens"), 19);
  EXPECT_EQ(answer.at_pointer("/usage/prompt_tokens_details/cached_tokens"), 2);
  EXPECT_EQ(answer.at_pointer("/usage/completion_tokens_details/reasoning_tokens"), 3);
  EXPECT_TRUE(closed_.empty());
}

TEST_F(Choices, OfAStreamHaveTheirIndexAndEndOnce) {
  Ask({.stream = true, .include_usage = true});
  for (const auto& writer : writers_) writer->Begin();
  ASSERT_TRUE(client_->is_stream);
  writers_[1]->Write(Said("one"), {});
  writers_[0]->Write(Said("zero"), {});
  writers_[1]->Finish(EndOf(5, 0, 1));
  EXPECT_FALSE(client_->has_ended);
  writers_[2]->Finish(EndOf(5, 0, 0));
  writers_[0]->Finish(EndOf(5, 0, 1));
  EXPECT_TRUE(client_->has_ended);
  std::vector<std::string> told;
  for (const json::value& chunk : Chunks())
    for (const json::value& choice : chunk.at("choices").as_array())
      told.push_back(json::serialize(choice.at("index")) + json::serialize(choice.at("delta")) +
                     json::serialize(choice.at("finish_reason")));
  const std::string role = R"({"role":"assistant","content":""}null)";
  EXPECT_THAT(told, testing::ElementsAre("0" + role, "1" + role, "2" + role,
                                         R"(1{"content":"one"}null)", R"(0{"content":"zero"}null)",
                                         R"(1{}"stop")", R"(2{}"stop")", R"(0{}"stop")"));
  EXPECT_EQ(Chunks().back().at("usage").at("completion_tokens"), 2);
  EXPECT_TRUE(client_->body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(client_->body.find("[DONE]"), client_->body.rfind("[DONE]"));
}

TEST_F(Choices, OneThatIsRefusedIsAStatusAndEndsTheOthers) {
  Ask({.stream = true});
  writers_[0]->Begin();
  writers_[1]->Begin();
  EXPECT_FALSE(client_->is_stream) << "the last one may still be refused";
  writers_[2]->Fail({503, "The queue is full.", "overloaded_error", "", "unavailable"});
  EXPECT_EQ(client_->status, 503);
  EXPECT_FALSE(client_->is_stream);
  EXPECT_THAT(closed_, testing::ElementsAre(0, 1, 2));
  writers_[0]->Write(Said("too late"), {});
  writers_[0]->Finish(EndOf(1, 0, 1));
  EXPECT_EQ(client_->answers, 1);
  EXPECT_THAT(client_->body, testing::Not(HasSubstr("late")));
  bool told = false;
  writers_[1]->OnClosed([&] { told = true; });
  EXPECT_TRUE(told) << "who comes later learns it at once";
}

TEST_F(Choices, OneThatBreaksBreaksTheStream) {
  Ask({.stream = true});
  for (const auto& writer : writers_) writer->Begin();
  writers_[0]->Finish(EndOf(1, 0, 1));
  writers_[1]->Fail({500, "It broke.", "server_error", "", ""});
  EXPECT_THAT(client_->body, HasSubstr("It broke."));
  EXPECT_TRUE(client_->has_ended);
  EXPECT_THAT(closed_, testing::ElementsAre(0, 1, 2));
}

TEST_F(Choices, ToldOnceThatTheirModelIsLoaded) {
  Ask({.stream = true});
  for (const auto& writer : writers_) {
    EXPECT_TRUE(writer->tells_loading());
    writer->Begin();
  }
  for (const auto& writer : writers_) writer->SayLoading("tiny", std::nullopt);
  const std::string comment = ": progress {\"loading\":\"tiny\"}\n\n";
  EXPECT_THAT(client_->body, testing::EndsWith(comment));
  EXPECT_EQ(client_->body.find(comment), client_->body.rfind(comment));
  Ask({});
  EXPECT_FALSE(writers_[0]->tells_loading());
}

TEST_F(Choices, AClientThatLeavesEndsAll) {
  Ask({.stream = true});
  for (const auto& writer : writers_) writer->Begin();
  client_->on_closed();
  EXPECT_THAT(closed_, testing::ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace weft::server
