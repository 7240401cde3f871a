// What the last stage is told of sampling, and what it refuses.
#include "worker/sampling_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace weft::worker {
namespace {

using testing::HasSubstr;

constexpr uint32_t kVocabulary = 100;

wire::pb::Sampling Begin(uint32_t session, uint32_t generation, std::vector<uint32_t> tokens = {}) {
  wire::pb::Sampling message;
  message.set_session(session);
  message.set_generation(generation);
  wire::pb::SamplingParams& params = *message.mutable_params();
  params.set_temperature(1.5f);
  params.set_top_k(7);
  params.set_top_p(0.9f);
  params.set_min_p(0.1f);
  params.set_repetition_penalty(1.25f);
  params.set_presence_penalty(0.5f);
  params.set_frequency_penalty(-0.5f);
  params.add_bias_tokens(3);
  params.add_biases(-100);
  params.set_seed(99);
  message.mutable_tokens()->Add(tokens.begin(), tokens.end());
  return message;
}

wire::pb::Sampling Continue(uint32_t session, uint32_t generation, std::vector<uint32_t> tokens) {
  wire::pb::Sampling message = Begin(session, generation, std::move(tokens));
  message.clear_params();
  return message;
}

std::string Problem(const Status& status) {
  return status.ok() ? "" : status.error().message();
}

TEST(SamplingTable, GivesWhatWasToldForExactlyThatPosition) {
  SamplingTable table;
  ASSERT_TRUE(table.OnMessage(Begin(1, 4, {5, 6, 5}), kVocabulary).ok());
  const auto found = table.Find(1, 4, 3);
  ASSERT_TRUE(found.ok()) << found.error().message();
  EXPECT_EQ(found->uniform, CounterDouble(99, 3, 0));
  const engine::Sampling& sampling = *found->sampling;
  EXPECT_EQ(sampling.parameters.temperature, 1.5f);
  EXPECT_EQ(sampling.parameters.top_k, 7);
  EXPECT_EQ(sampling.parameters.top_p, 0.9f);
  EXPECT_EQ(sampling.parameters.min_p, 0.1f);
  EXPECT_EQ(sampling.parameters.repetition_penalty, 1.25f);
  EXPECT_EQ(sampling.parameters.presence_penalty, 0.5f);
  EXPECT_EQ(sampling.parameters.frequency_penalty, -0.5f);
  ASSERT_EQ(sampling.parameters.logit_bias.size(), 1u);
  EXPECT_EQ(sampling.parameters.logit_bias[0].bias, -100);
  ASSERT_EQ(sampling.counts.size(), 2u);
  EXPECT_EQ(sampling.counts[0].token_id, 5);
  EXPECT_EQ(sampling.counts[0].count, 2u);

  EXPECT_FALSE(table.Find(1, 4, 4).ok());
  ASSERT_TRUE(table.OnMessage(Continue(1, 4, {6}), kVocabulary).ok());
  EXPECT_TRUE(table.Find(1, 4, 4).ok());
  EXPECT_EQ(table.Find(1, 4, 4)->sampling->counts[1].count, 2u);
  EXPECT_FALSE(table.Find(1, 4, 3).ok());
}

TEST(SamplingTable, AGenerationBeginsAnew) {
  SamplingTable table;
  ASSERT_TRUE(table.OnMessage(Begin(1, 4, {5, 6}), kVocabulary).ok());
  EXPECT_FALSE(table.Find(1, 5, 2).ok());
  EXPECT_FALSE(table.Find(2, 4, 2).ok());
  ASSERT_TRUE(table.OnMessage(Begin(1, 5, {9}), kVocabulary).ok());
  EXPECT_FALSE(table.Find(1, 4, 2).ok());
  EXPECT_EQ(table.Find(1, 5, 1)->sampling->counts.size(), 1u);
  table.Release(1);
  EXPECT_FALSE(table.Find(1, 5, 1).ok());
  ASSERT_TRUE(table.OnMessage(Begin(1, 6), kVocabulary).ok());
  table.Clear();
  EXPECT_FALSE(table.Find(1, 6, 0).ok());
}

TEST(SamplingTable, WithoutPenaltiesTokensNeedNotBeTold) {
  SamplingTable table;
  wire::pb::Sampling message = Begin(1, 0);
  message.mutable_params()->set_repetition_penalty(1);
  message.mutable_params()->set_presence_penalty(0);
  message.mutable_params()->set_frequency_penalty(0);
  ASSERT_TRUE(table.OnMessage(message, kVocabulary).ok());
  EXPECT_TRUE(table.Find(1, 0, 1).ok());
  EXPECT_TRUE(table.Find(1, 0, 1000).ok());
}

TEST(SamplingTable, RefusesWhatCannotBe) {
  SamplingTable table;
  EXPECT_THAT(Problem(table.OnMessage(Continue(1, 0, {1}), kVocabulary)),
              HasSubstr("session 1 continues generation 0, which was not begun"));
  EXPECT_THAT(Problem(table.OnMessage(Begin(1, 0, {1, 100}), kVocabulary)),
              HasSubstr("names token 100, expected less than 100"));
  const auto problem = [&](auto change) {
    wire::pb::Sampling message = Begin(2, 0);
    change(*message.mutable_params());
    return Problem(table.OnMessage(message, kVocabulary));
  };
  using P = wire::pb::SamplingParams;
  EXPECT_THAT(problem([](P& p) { p.set_temperature(-1); }), HasSubstr("temperature is -1"));
  EXPECT_THAT(problem([](P& p) { p.set_temperature(NAN); }), HasSubstr("temperature"));
  EXPECT_THAT(problem([](P& p) { p.set_repetition_penalty(0); }), HasSubstr("repetition"));
  EXPECT_THAT(problem([](P& p) { p.set_top_p(1.5f); }), HasSubstr("top_p"));
  EXPECT_THAT(problem([](P& p) { p.set_biases(0, INFINITY); }), HasSubstr("bias"));
  EXPECT_THAT(problem([](P& p) { p.add_biases(1); }), HasSubstr("2 biases for 1 tokens"));
  EXPECT_EQ(problem([](P& p) { p.set_bias_tokens(0, 0xffffffff); }), "");
}

}  // namespace
}  // namespace weft::worker
