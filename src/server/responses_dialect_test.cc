// Responses as they go out and are kept: for whom, when, and what becomes of those that fail.
#include "server/responses_dialect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <ctime>

#include "server/server_testing.h"

namespace weft::server {
namespace {

namespace json = boost::json;
using testing::HasSubstr;

class Responses : public testing::Test {
 protected:
  api::ApiResult<Question> Read(const std::string& fields, const std::string& salt = "a key") {
    return ResponsesDialect(store_, false).Read("{" + fields + "}", salt, {});
  }
  std::unique_ptr<AnswerWriter> Ask(const std::string& fields) {
    auto read = Read(fields);
    EXPECT_TRUE(std::holds_alternative<Question>(read)) << fields;
    client_ = std::make_shared<RecordingResponder>();
    return std::move(std::get<Question>(read).write({7, "tiny", *text_}, client_).front());
  }
  // The id of the response.
  std::string Answer(const std::string& fields, const std::string& text) {
    const auto writer = Ask(fields);
    writer->Begin();
    writer->Write({{chat::EventKind::kContent, text}}, {});
    writer->Finish({api::EndReason::kStop, "", {3, 0, 2}});
    return std::string(json::parse(client_->body).at("id").as_string());
  }
  bool IsKept(const std::string& id, const std::string& salt = "a key") const {
    return store_->Find(salt, id, std::time(nullptr)).has_value();
  }

  const std::shared_ptr<ResponseStore> store_ = std::make_shared<ResponseStore>();
  const std::shared_ptr<const api::ModelText> text_ = TinyText();
  std::shared_ptr<RecordingResponder> client_;
};

TEST_F(Responses, AreKeptUnlessToldOtherwise) {
  const std::string kept = Answer(R"("input":"Hi")", "Hello");
  EXPECT_TRUE(IsKept(kept));
  EXPECT_FALSE(IsKept(kept, "another"));
  EXPECT_EQ(json::parse(client_->body),
            json::value(store_->Find("a key", kept, std::time(nullptr))->response));
  EXPECT_FALSE(IsKept(Answer(R"("input":"Hi","store":false)", "Hello")));
}

TEST_F(Responses, GoOnFromThoseOfTheSameKey) {
  const std::string first = Answer(R"("input":"Hi","instructions":"Be brief.")", "Hello");
  const std::string previous = R"("previous_response_id":")" + first + "\"";
  const auto read = Read(R"("input":"And?",)" + previous);
  const auto& messages = std::get<Question>(read).chat.messages;
  EXPECT_EQ(messages, json::parse(R"([{"role":"user","content":"Hi"},
      {"role":"assistant","content":"Hello"},{"role":"user","content":"And?"}])"))
      << "without its instructions";
  const auto stranger = Read(R"("input":"And?",)" + previous, "another");
  ASSERT_TRUE(std::holds_alternative<api::ApiError>(stranger));
  EXPECT_EQ(std::get<api::ApiError>(stranger).status, 400);
  EXPECT_EQ(std::get<api::ApiError>(stranger).code, "previous_response_not_found");
  EXPECT_THAT(std::get<api::ApiError>(stranger).message, HasSubstr(first));
  // The second one has the whole conversation.
  const std::string second = Answer(R"("input":"And?",)" + previous, "Bye");
  EXPECT_EQ(store_->Find("a key", second, std::time(nullptr))->items.size(), 4u);
  EXPECT_EQ(store_->Find("a key", second, std::time(nullptr))->input.size(), 1u);
}

TEST_F(Responses, ItemsAreFoundByTheirId) {
  const std::string first = Answer(R"("input":"Hi")", "Hello");
  const auto stored = store_->Find("a key", first, std::time(nullptr));
  const std::string id(stored->items.back().at("id").as_string());
  const std::string reference = R"("input":[{"type":"item_reference","id":")" + id + "\"}]";
  const auto read = Read(reference);
  EXPECT_EQ(std::get<Question>(read).chat.messages.at(0).at("content"), "Hello");
  const auto stranger = Read(reference, "another");
  EXPECT_EQ(std::get<api::ApiError>(stranger).status, 404);
  EXPECT_EQ(std::get<api::ApiError>(stranger).param, "input[0]");
}

TEST_F(Responses, FailuresHaveAStatusUntilAStreamBegins) {
  const api::ApiError error{503, "No.", "overloaded_error", "", ""};
  Ask(R"("input":"Hi","stream":true)")->Fail(error);
  EXPECT_EQ(client_->status, 503);
  const auto writer = Ask(R"("input":"Hi","stream":true)");
  writer->Begin();
  const std::string created = client_->body;
  writer->Fail(error);
  EXPECT_EQ(client_->status, 200);
  EXPECT_THAT(client_->body, HasSubstr("event: response.failed\n"));
  EXPECT_TRUE(client_->has_ended);
  const json::value begun =
      json::parse(created.substr(created.find('{'), created.find("\n\n") - created.find('{')));
  EXPECT_FALSE(IsKept(std::string(begun.at("response").at("id").as_string())));
}

TEST_F(Responses, WhatSaysNothingIsRefused) {
  const auto read = Read(R"("input":[{"type":"reasoning","summary":[]}])");
  ASSERT_TRUE(std::holds_alternative<api::ApiError>(read));
  EXPECT_EQ(std::get<api::ApiError>(read).param, "input");
}

TEST_F(Responses, TokensAreCounted) {
  auto read = ResponsesDialect(store_, true).Read(R"({"input":"Hi"})", "", {});
  net::HttpResponse counted = std::get<Question>(read).count(12);
  EXPECT_EQ(AsText(counted.body.front().bytes()),
            R"({"object":"response.input_tokens","input_tokens":12})");
}

}  // namespace
}  // namespace weft::server
