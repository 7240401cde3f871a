// Nothing of a request is forgotten on its way to another server, nor of what comes back.
#include "server/request_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class Named : public sampling::Constraint {
 public:
  std::unique_ptr<sampling::AnswerState> Begin() const override { return nullptr; }
  std::string Source() const override { return "a form"; }
};

// No field is what it is without a word.
swarm::Request Everything() {
  swarm::Request request;
  request.client = "key 7";
  request.prompt_ids = {1, 2, 300'000};
  request.salt = std::string("\xff\0 salt", 7);
  request.keep = "a name";
  request.key = std::string("\x80key", 4);
  request.answer_ids = {4, 5};
  request.logprobs_are_known = true;
  request.resume = swarm::SessionTrace{swarm::SessionId(7), 11, 13};
  request.was_accepted = true;
  request.max_tokens = UINT32_MAX;
  request.sampling.temperature = 0.3f;
  request.sampling.top_k = 40;
  request.sampling.top_p = 0.9f;
  request.sampling.min_p = 0.05f;
  request.sampling.repetition_penalty = 1.1f;
  request.sampling.presence_penalty = -0.5f;
  request.sampling.frequency_penalty = 0.25f;
  request.sampling.logit_bias = {{7, -100}, {8, 2.5f}};
  request.sampling.seed = UINT64_MAX - 1;
  request.stop_ids = {0, 9};
  request.marks = {1, 2};
  request.constraint = std::make_shared<Named>();
  request.top_logprobs = 5;
  request.want_logprobs = true;
  request.want_logits = true;
  request.want_last_row = true;
  return request;
}

// Fields that are as if nobody had set them; FillSubmit does not compile without a new field of a
// request, and this finds what it does not send.
std::string Unset(const google::protobuf::Message& message) {
  std::string names;
  const auto& reflection = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const auto* field = message.GetDescriptor()->field(i);
    const bool is_set = field->is_repeated() ? reflection.FieldSize(message, field) > 0
                                             : reflection.HasField(message, field);
    if (!is_set) names += field->name() + " ";
    if (is_set && !field->is_repeated() && field->message_type() != nullptr)
      names += Unset(reflection.GetMessage(message, field));
  }
  return names;
}

TEST(RequestMessage, ARequestIsTheSameBehindIt) {
  const swarm::Request before = Everything();
  wire::pb::SubmitRequest message;
  FillSubmit(before, 12, message);
  EXPECT_EQ(Unset(message), "");
  auto read = ReadSubmit(message);
  ASSERT_TRUE(read.ok());
  swarm::Request& after = read->request;
  EXPECT_EQ(read->constraint_source, "a form");
  EXPECT_EQ(after.sampling, before.sampling);
  EXPECT_EQ(after.salt, before.salt);
  EXPECT_EQ(after.answer_ids, before.answer_ids);
  EXPECT_EQ(after.resume, before.resume);
  // And all the rest, field by field.
  after.constraint = before.constraint;
  wire::pb::SubmitRequest again;
  FillSubmit(after, 12, again);
  EXPECT_EQ(again.SerializeAsString(), message.SerializeAsString());
}

TEST(RequestMessage, WhatNobodyAskedForStaysUnsaid) {
  wire::pb::SubmitRequest message;
  FillSubmit({}, 1, message);
  const auto read = ReadSubmit(message);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->constraint_source, "");
  EXPECT_EQ(read->request.sampling, sampling::Parameters());
}

swarm::EmitToken Token(uint32_t index, float logprob, std::vector<swarm::TokenLogprob> top = {}) {
  swarm::EmitToken token;
  token.index = index;
  token.token_id = static_cast<int32_t>(10 * index);
  token.logprob = logprob;
  token.margin = logprob / 2;
  token.top = std::move(top);
  return token;
}

TEST(RequestMessage, TokensAreTheSameBehindIt) {
  wire::pb::RequestEvent event;
  // The first is certain: its logprob of 0 is no reason to leave those of the others out.
  const std::vector<swarm::EmitToken> tokens = {Token(3, 0), Token(4, -1, {{1, -1}, {2, -2}}),
                                                Token(5, 0), Token(6, -3, {{3, -3}})};
  for (const swarm::EmitToken& token : tokens) AddToken(token, event);
  const auto read = ReadTokens(event);
  ASSERT_TRUE(read.ok());
  ASSERT_THAT(*read, SizeIs(4));
  for (size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ((*read)[i].index, tokens[i].index);
    EXPECT_EQ((*read)[i].token_id, tokens[i].token_id);
    EXPECT_EQ((*read)[i].logprob, tokens[i].logprob);
    EXPECT_EQ((*read)[i].margin, tokens[i].margin);
    ASSERT_THAT((*read)[i].top, SizeIs(tokens[i].top.size()));
    for (size_t k = 0; k < tokens[i].top.size(); ++k) {
      EXPECT_EQ((*read)[i].top[k].token_id, tokens[i].top[k].token_id);
      EXPECT_EQ((*read)[i].top[k].logprob, tokens[i].top[k].logprob);
    }
  }
  event.add_logprobs(1);
  EXPECT_THAT(ReadTokens(event).error().message(), HasSubstr("5 logprobs, 4 margins"));
}

TEST(RequestMessage, PlainTokensAreSmall) {
  wire::pb::RequestEvent event;
  for (uint32_t i = 0; i < 100; ++i) AddToken(Token(i, 0), event);
  EXPECT_LT(event.ByteSizeLong(), 250u);
}

TEST(RequestMessage, RowsComeInPieces) {
  std::vector<uint8_t> values(5 * 8);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint8_t>(i);
  std::deque<wire::pb::RequestEvent::HeadRows> pieces;
  AddRows({1, 7, 5, Slice(values)}, 16, pieces);
  std::vector<uint32_t> firsts;
  std::vector<uint8_t> all;
  for (const auto& piece : pieces) {
    const auto read = ReadRows(piece);
    ASSERT_TRUE(read.ok());
    firsts.push_back(read->first_position);
    all.insert(all.end(), read->logits.bytes().begin(), read->logits.bytes().end());
  }
  EXPECT_THAT(firsts, ElementsAre(7, 9, 11));
  EXPECT_EQ(all, values);
  pieces[0].set_rows(3);
  EXPECT_THAT(ReadRows(pieces[0]).error().message(), HasSubstr("16 bytes for 3 rows"));
}

TEST(RequestMessage, EndsAreTheSameBehindIt) {
  swarm::FinishRequest end;
  end.reason = swarm::FinishReason::kError;
  end.error = Error(ErrorCode::kOutOfMemory, "There is no room.");
  end.prompt_tokens = 1;
  end.cached_prompt_tokens = 2;
  end.generated_tokens = 3;
  end.lost_groups = 4;
  end.has_no_room = true;
  end.over_share = true;
  wire::pb::RequestEnd message = ToMessage(end);
  EXPECT_EQ(Unset(message), "");
  const swarm::FinishRequest read = FromMessage(message);
  EXPECT_EQ(ToMessage(read).SerializeAsString(), message.SerializeAsString());
  EXPECT_EQ(read.error->code(), ErrorCode::kOutOfMemory);
  message.set_error_code("of a newer server");
  EXPECT_EQ(FromMessage(message).error->code(), ErrorCode::kUnavailable);
  for (const int reason : {-1, 17}) {
    message.set_reason(static_cast<wire::pb::RequestEnd::Reason>(reason));
    EXPECT_EQ(FromMessage(message).reason, swarm::FinishReason::kError);
  }
}

}  // namespace
}  // namespace weft::server
