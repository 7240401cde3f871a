// What a client gets of an answer whose tokens are given: content, thoughts, calls, the end.
#include "server/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "api/openai_request.h"
#include "server/chat_answers.h"
#include "server/server_testing.h"
#include "server/swarm_host.h"

namespace weft::server {
namespace {

namespace json = boost::json;
using testing::HasSubstr;

// Qwen's form: thoughts between <think>, calls as JSON between <tool_call>.
constexpr const char* kTemplate = R"({%- for m in messages %}<|im_start|>{{ m.role }}
{% if m.tool_calls %}{% for c in m.tool_calls %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}{% else %}{{ m.content }}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking %}<think>
{% endif %}{% endif %})";

constexpr const char* kTools =
    R"(,"tools":[{"type":"function","function":{"name":"get_weather","parameters":{}}}])";

class CompletionTest : public testing::Test {
 protected:
  CompletionTest() {
    swarm::CoreOptions core;
    core.model.name = "tiny";
    core.model.layers.resize(3);
    core.model.hidden_columns = 8;
    core.model.vocabulary = 1 << 20;
    host_ = std::make_unique<SwarmHost>(loop_, planning_, core);
  }

  // A request with these further fields, of which what is generated is up to the test.
  void Ask(const std::string& fields, bool opens_thinking = false) {
    const std::string body =
        R"({"model":"tiny","messages":[{"role":"user","content":"Hi"}])" + fields + "}";
    auto parsed = api::ParseChatRequest(AsBytes(body));
    ASSERT_TRUE(std::holds_alternative<api::ChatRequest>(parsed)) << body;
    const auto& chat = std::get<api::ChatRequest>(parsed);
    client_ = std::make_shared<RecordingResponder>();
    const auto generate = [this](RequestCallbacks callbacks) {
      model_ = std::move(callbacks);
      return swarm::RequestId{1};
    };
    const auto go_on = [this](const std::vector<int32_t>& ids, RequestCallbacks callbacks) {
      went_on_behind_ = Text(ids);
      token_count_ = 0;
      model_ = std::move(callbacks);
      return swarm::RequestId{2};
    };
    Writers writers = WriteChat(FormOf(chat), {7, "tiny", *text_}, client_);
    Completion::Start({*host_, loop_, *text_, Seconds(600)}, chat,
                      {std::make_shared<const chat::Tools>(chat.tools), opens_thinking}, generate,
                      go_on, std::move(writers.front()));
  }

  // The model says this, token by token; the number of tokens.
  size_t Say(const std::string& text) {
    const auto ids = text_->tokenizer().Encode(text, false).value();
    for (const int32_t id : ids) {
      ++token_count_;
      model_.on_token({.token_id = id, .logprob = -0.5f});
    }
    return ids.size();
  }
  void End(swarm::FinishReason reason = swarm::FinishReason::kStop) {
    const auto end = std::exchange(model_.on_finish, {});
    swarm::FinishRequest finish;
    finish.reason = reason;
    finish.prompt_tokens = 5;
    finish.generated_tokens = token_count_;
    end(finish);
  }
  void RunLoop() {
    net::EventLoop::Timer stop(loop_);
    stop.FireAfter(Milliseconds(1), [this] { loop_.Stop(); });
    loop_.Run();
  }

  std::string Text(const std::vector<int32_t>& ids) const {
    return text_->tokenizer().Decode(ids, false);
  }
  json::value Answer() const { return json::parse(client_->body); }
  json::object Message() const { return Answer().at("choices").at(0).at("message").as_object(); }
  json::value Finish() const { return Answer().at("choices").at(0).at("finish_reason"); }
  // Of a stream, those that have something in them.
  std::vector<std::string> Deltas() const {
    std::vector<std::string> deltas;
    for (size_t at = client_->body.find("data: {"); at != std::string::npos;
         at = client_->body.find("data: {", at + 1)) {
      const size_t end = client_->body.find('\n', at);
      const auto chunk = json::parse(client_->body.substr(at + 6, end - at - 6));
      const auto& choice = chunk.at("choices").at(0);
      const auto& delta = choice.at("delta").as_object();
      if (!delta.empty() && !delta.contains("role")) deltas.push_back(json::serialize(delta));
      if (choice.at("finish_reason").is_string())
        deltas.emplace_back(choice.at("finish_reason").as_string());
    }
    return deltas;
  }

  net::EventLoop loop_;
  TaskQueue planning_{1};
  std::unique_ptr<SwarmHost> host_;
  const std::shared_ptr<const api::ModelText> text_ = TinyText(kTemplate);
  std::shared_ptr<RecordingResponder> client_;
  RequestCallbacks model_;
  uint32_t token_count_ = 0;
  std::string went_on_behind_;
};

constexpr const char* kCall =
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bern\"}}\n</tool_call>";

TEST_F(CompletionTest, ToolCallsOfAWholeAnswer) {
  Ask(kTools);
  Say(std::string("<think>\nlet me see\n</think>\n\n") + kCall + "\n" + kCall);
  End();
  const json::object message = Message();
  EXPECT_EQ(message.at("content"), nullptr);
  EXPECT_EQ(message.at("reasoning_content"), "let me see");
  const json::array& calls = message.at("tool_calls").as_array();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].at("type"), "function");
  EXPECT_EQ(calls[0].at("function").at("name"), "get_weather");
  EXPECT_EQ(calls[0].at("function").at("arguments"), R"({"city": "Bern"})");
  EXPECT_THAT(std::string(calls[0].at("id").as_string()), testing::StartsWith("call_"));
  EXPECT_NE(calls[0].at("id"), calls[1].at("id"));
  EXPECT_EQ(Finish(), "tool_calls");
}

TEST_F(CompletionTest, ToolCallsOfAStream) {
  Ask(std::string(kTools) + R"(,"stream":true)");
  Say(std::string("so be it. ") + kCall);
  End();
  const auto deltas = Deltas();
  std::string content;
  for (const std::string& delta : deltas)
    if (const auto* text =
            json::parse(delta == deltas.back() ? "{}" : delta).as_object().if_contains("content"))
      content += text->as_string();
  EXPECT_EQ(content, "so be it.");
  ASSERT_GE(deltas.size(), 3u);
  const json::value begin = json::parse(deltas[deltas.size() - 3]).at("tool_calls").at(0);
  EXPECT_EQ(begin.at("index"), 0);
  EXPECT_EQ(begin.at("type"), "function");
  EXPECT_TRUE(begin.as_object().contains("id"));
  EXPECT_EQ(begin.at("function"), json::parse(R"({"name":"get_weather","arguments":""})"));
  EXPECT_EQ(deltas[deltas.size() - 2],
            R"({"tool_calls":[{"index":0,"function":{"arguments":"{\"city\": \"Bern\"}"}}]})");
  EXPECT_EQ(deltas.back(), "tool_calls");
}

TEST_F(CompletionTest, WhatIsNoCallIsContent) {
  Ask(kTools);
  Say("<tool_call>\n{\"name\": \"get_wea");
  End(swarm::FinishReason::kLength);
  EXPECT_EQ(Message().at("content"), "<tool_call>\n{\"name\": \"get_wea");
  EXPECT_FALSE(Message().contains("tool_calls"));
  EXPECT_EQ(Finish(), "length");
}

TEST_F(CompletionTest, CallsStayTextWhereNoneAreWanted) {
  for (const std::string& fields :
       {std::string(kTools) + R"(,"tool_choice":"none")",
        std::string(kTools) + R"(,"parse_tool_calls":false)", std::string()}) {
    Ask(fields);
    Say(kCall);
    End();
    EXPECT_EQ(Message().at("content"), kCall);
    EXPECT_EQ(Finish(), "stop");
  }
}

TEST_F(CompletionTest, OneCallEndsTheAnswerWhereOneIsWanted) {
  Ask(std::string(kTools) + R"(,"parallel_tool_calls":false)");
  Say(std::string(kCall) + kCall + " and more");
  End(swarm::FinishReason::kLength);
  EXPECT_EQ(Message().at("tool_calls").as_array().size(), 1u);
  EXPECT_EQ(Message().at("content"), nullptr);
  EXPECT_EQ(Finish(), "tool_calls");
}

TEST_F(CompletionTest, ThoughtsAreWhereTheyWereAskedFor) {
  const auto said = [&](const std::string& fields, bool opens) {
    Ask(fields, opens);
    Say(opens ? "hm\n</think>\nyes" : "<think>hm</think>yes");
    End();
    return Message();
  };
  EXPECT_EQ(said("", false).at("reasoning_content"), "hm");
  EXPECT_EQ(said("", true).at("reasoning_content"), "hm");
  EXPECT_EQ(said("", true).at("content"), "yes");
  const json::object left_out = said(R"(,"include_reasoning":false)", false);
  EXPECT_EQ(left_out.at("content"), "yes");
  EXPECT_FALSE(left_out.contains("reasoning_content"));
  for (const char* fields : {R"(,"separate_reasoning":false)", R"(,"reasoning_format":"none")"})
    EXPECT_EQ(said(fields, false).at("content"), "<think>hm</think>yes");
}

TEST_F(CompletionTest, LogprobsAreOfAllTokens) {
  Ask(std::string(kTools) + R"(,"logprobs":true)");
  const size_t count = Say(std::string("<think>hm</think>yes ") + kCall);
  End();
  EXPECT_EQ(Answer().at("choices").at(0).at("logprobs").at("content").as_array().size(), count);
}

TEST_F(CompletionTest, ThoughtsEndWithTheirTokens) {
  Ask(R"(,"max_thinking_tokens":4,"logprobs":true)", true);
  const auto ids = text_->tokenizer().Encode("one two three four five six seven", false).value();
  ASSERT_GT(ids.size(), 6u);
  // A device that is ahead makes more than is allowed.
  for (const int32_t id : ids) model_.on_token({.token_id = id});
  token_count_ = static_cast<uint32_t>(ids.size());
  End(swarm::FinishReason::kCancelled);
  RunLoop();
  const std::string kept = Text({ids.begin(), ids.begin() + 4});
  EXPECT_EQ(went_on_behind_, kept + "\n</think>\n\n");
  Say("done");
  End();
  EXPECT_EQ(Message().at("content"), "done");
  EXPECT_EQ(Message().at("reasoning_content"), json::value(kept));
  EXPECT_EQ(Finish(), "stop");
  const auto forced = text_->EndOfThinking().value().size();
  const auto thought =
      Answer().at_pointer("/usage/completion_tokens_details/reasoning_tokens").as_int64();
  EXPECT_GE(thought, 4);
  EXPECT_LE(thought, static_cast<int64_t>(4 + text_->EndOfThinking().value().size()));
  const json::value usage = Answer().at("usage");
  EXPECT_EQ(usage.at("completion_tokens").as_int64(),
            static_cast<int64_t>(4 + forced + token_count_));
  EXPECT_EQ(Answer().at("choices").at(0).at("logprobs").at("content").as_array().size(),
            4 + forced + token_count_);
}

TEST_F(CompletionTest, ThoughtsAreCounted) {
  const auto counted = [&](const char* said) {
    Ask("");
    Say(said);
    End();
    return Answer().at_pointer("/usage/completion_tokens_details/reasoning_tokens").as_int64();
  };
  EXPECT_EQ(counted("one two three"), 0);
  const int64_t few = counted("<think>one</think>yes");
  EXPECT_GT(few, 0);
  EXPECT_GT(counted("<think>one two three four</think>yes"), few);
}

TEST_F(CompletionTest, ThoughtsThatEndInTimeAreLeftAlone) {
  Ask(R"(,"max_thinking_tokens":40)");
  Say("<think>hm</think>yes");
  End();
  EXPECT_EQ(went_on_behind_, "");
  EXPECT_EQ(Message().at("content"), "yes");
}

TEST_F(CompletionTest, ThoughtsThatMayNotBeEndAtOnce) {
  Ask(R"(,"max_thinking_tokens":0)");
  Say("<think>");
  Say("hm hm");
  End(swarm::FinishReason::kCancelled);
  RunLoop();
  EXPECT_EQ(went_on_behind_, "<think>\n</think>\n\n");
  Say("yes");
  End();
  EXPECT_EQ(Message().at("content"), "yes");
  EXPECT_FALSE(Message().contains("reasoning_content"));
}

TEST_F(CompletionTest, AnAnswerWithoutRoomBehindItsThoughtsEndsWithThem) {
  Ask(R"(,"max_thinking_tokens":4,"max_tokens":6)", true);
  Say("one two three four five");
  End(swarm::FinishReason::kCancelled);
  RunLoop();
  EXPECT_EQ(went_on_behind_, "");
  EXPECT_EQ(Finish(), "length");
}

TEST_F(CompletionTest, AClientThatLeavesBetweenThePartsEndsIt) {
  Ask(R"(,"max_thinking_tokens":2)", true);
  Say("one two three four five");
  End(swarm::FinishReason::kCancelled);
  client_->on_closed();
  RunLoop();
  EXPECT_EQ(went_on_behind_, "");
}

TEST_F(CompletionTest, AnAnswerThatNobodyWaitsForIsNotFinished) {
  Ask("");
  Say("one two");
  client_->on_closed();
  End(swarm::FinishReason::kCancelled);
  EXPECT_EQ(client_->answers, 0);
}

TEST_F(CompletionTest, ErrorsAfterThoughtsAreTold) {
  Ask(R"(,"max_thinking_tokens":2)", true);
  Say("one two three four five");
  End(swarm::FinishReason::kCancelled);
  RunLoop();
  swarm::FinishRequest failed;
  failed.reason = swarm::FinishReason::kError;
  failed.error = Error(ErrorCode::kUnavailable, "The queue is full.");
  model_.on_finish(failed);
  EXPECT_EQ(client_->status, 503);
  EXPECT_THAT(client_->body, HasSubstr("The queue is full."));
}

TEST_F(CompletionTest, AStreamSaysThatItMovesAndGoesOn) {
  Ask(R"(,"stream":true)");
  model_.on_moving();
  EXPECT_EQ(client_->body, "") << "it has no status yet";
  Say("The cat");
  model_.on_moving();
  EXPECT_THAT(client_->body, HasSubstr("\n\n: progress {\"moving\":true}\n\n"));
  Say(" sat");
  End();
  EXPECT_THAT(Deltas().back(), "stop");
  Ask("");
  Say("The cat");
  model_.on_moving();
  End();
  EXPECT_EQ(Message().at("content"), "The cat");
}

}  // namespace
}  // namespace weft::server
