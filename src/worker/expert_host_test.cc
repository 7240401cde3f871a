// Experts of a small random model in an engine of their own: the rows are those of the layer, what
// changes is read once, and what cannot be computed is said.
#include "worker/expert_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "engine/test_model.h"
#include "program/product_ranges.h"
#include "program/shards.h"

namespace weft::worker {
namespace {

using testing::HasSubstr;

engine::ModelSpec Spec() {
  engine::ModelSpec spec;
  spec.experts = 4;
  spec.top_k = 2;
  return spec;
}

class ExpertHostTest : public testing::Test {
 protected:
  ExpertHostTest() { Make(0); }
  void Make(uint64_t limit) {
    engine::NativeEngineOptions options;
    options.memory = std::make_shared<engine::MemoryLimit>(limit);
    host_ = std::make_unique<ExpertHost>(engine::MakeNativeEngine(options));
  }

  Result<uint64_t> Hold(const std::vector<wire::LayerExperts>& sets) {
    std::vector<program::Program> layers;
    for (const wire::LayerExperts& set : sets) layers.push_back(programs_[set.layer]);
    ASSIGN_OR_RETURN(auto read, host_->Read(sets, layers, weights_));
    return host_->Install(std::move(read));
  }

  static wire::ExpertFrame Dispatch(uint16_t layer, uint16_t expert,
                                    const std::vector<float>& rows) {
    wire::ExpertFrame frame;
    frame.sequence = 5;
    frame.layer = layer;
    frame.expert = expert;
    frame.hidden = 64;
    frame.tokens = static_cast<uint32_t>(rows.size() / 64);
    const ByteSpan bytes = AsBytes(std::span<const float>(rows));
    frame.rows = Slice(std::vector<uint8_t>(bytes.begin(), bytes.end()));
    return frame;
  }
  static std::vector<float> Rows(size_t count, float seed) {
    std::vector<float> rows(count * 64);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = std::sin(seed + static_cast<float>(i));
    return rows;
  }
  static std::vector<float> Floats(const wire::ExpertFrame& result) {
    EXPECT_FALSE(result.failed) << AsText(result.body.bytes());
    std::vector<float> values(result.rows.byte_count() / 4);
    ToF32(DType::kF32, result.rows.bytes().data(), values);
    return values;
  }
  // The same rows by a shard of that one expert.
  std::vector<float> Alone(uint32_t layer, uint32_t expert, const std::vector<float>& rows) {
    const auto shard =
        program::ExpertProgram(programs_[layer], std::vector<uint32_t>{expert}).value();
    const auto engine = engine::MakeNativeEngine({.reference_kernels = false});
    EXPECT_TRUE(engine->Load({&shard, 1}, weights_).ok());
    std::vector<float> input;
    for (size_t row = 0; row < rows.size() / 64; ++row) {
      const auto at = rows.begin() + static_cast<ptrdiff_t>(row * 64);
      input.insert(input.end(), at, at + 64);
      input.insert(input.end(), {0, 1});
    }
    const engine::Run run = {
        1, 0, 0, static_cast<uint32_t>(rows.size() / 64), {engine::OutputKind::kHidden}};
    return engine->Step({{layer, layer + 1}, {&run, 1}, {}, input})->hidden;
  }

  engine::MemorySource weights_;
  const std::vector<program::Program> programs_ =
      engine::ModelBuilder(Spec(), engine::RandomTensors(1), weights_).Build();
  std::unique_ptr<ExpertHost> host_;
};

TEST_F(ExpertHostTest, SeveralExpertsAndLayersOfAMessageGiveEachItsRows) {
  ASSERT_TRUE(Hold({{1, {1, 3}}, {2, {0}}}).ok());
  const auto two = Rows(2, 0), three = Rows(3, 1), one = Rows(1, 2);
  const std::vector<wire::ExpertFrame> asked = {Dispatch(1, 3, two), Dispatch(2, 0, three),
                                                Dispatch(1, 1, one)};
  const auto results = host_->Run(asked);
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(Floats(results[0]), Alone(1, 3, two));
  EXPECT_EQ(Floats(results[1]), Alone(2, 0, three));
  EXPECT_EQ(Floats(results[2]), Alone(1, 1, one));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(results[i].type, wire::ExpertFrameType::kResult);
    EXPECT_EQ(results[i].sequence, 5u);
    EXPECT_EQ(results[i].layer, asked[i].layer);
    EXPECT_EQ(results[i].expert, asked[i].expert);
    EXPECT_EQ(results[i].tokens, asked[i].tokens);
  }
}

TEST_F(ExpertHostTest, HoldsWhatWasSaidLastAndReadsOnlyWhatChanged) {
  ASSERT_TRUE(Hold({{1, {1, 3}}, {2, {0}}}).ok());
  const int reads = weights_.reads;
  const uint64_t before = Hold({{1, {1, 3}}, {2, {0}}}).value();
  EXPECT_EQ(weights_.reads, reads);
  const uint64_t less = Hold({{1, {1}}}).value();
  EXPECT_LT(less, before);
  const auto rows = Rows(1, 0);
  const auto results =
      host_->Run(std::vector{Dispatch(1, 1, rows), Dispatch(1, 3, rows), Dispatch(2, 0, rows)});
  EXPECT_EQ(Floats(results[0]), Alone(1, 1, rows));
  EXPECT_TRUE(results[1].failed);
  EXPECT_THAT(std::string(AsText(results[2].body.bytes())),
              HasSubstr("Expert 0 of layer 2 is not held"));
  host_->Clear();
  EXPECT_TRUE(host_->Run(std::vector{Dispatch(1, 1, rows)})[0].failed);
}

TEST_F(ExpertHostTest, WhatCannotBeComputedIsSaidAndTheRestGoesOn) {
  ASSERT_TRUE(Hold({{1, {1}}, {2, {0}}}).ok());
  auto rows = Rows(1, 0);
  auto narrow = Dispatch(1, 1, rows);
  narrow.hidden = 32;
  auto broken = rows;
  broken[7] = std::numeric_limits<float>::infinity();
  const auto results =
      host_->Run(std::vector{narrow, Dispatch(1, 1, broken), Dispatch(2, 0, rows)});
  EXPECT_THAT(std::string(AsText(results[0].body.bytes())), HasSubstr("32 columns"));
  EXPECT_THAT(std::string(AsText(results[1].body.bytes())), HasSubstr("not finite"));
  EXPECT_EQ(Floats(results[2]), Alone(2, 0, rows));
}

TEST_F(ExpertHostTest, ExpertsThatALayerDoesNotHaveAreNotHeld) {
  EXPECT_EQ(Hold({{1, {4}}}).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Hold({{0, {0}}}).error().code(), ErrorCode::kInvalidArgument);
}

TEST_F(ExpertHostTest, NeverHoldsMoreThanTheEnginesMayTogether) {
  const uint64_t use = Hold({{1, {0, 1}}}).value();
  Make(use);
  EXPECT_TRUE(Hold({{1, {0, 1}}}).ok());
  EXPECT_EQ(Hold({{1, {0, 1, 2}}}).error().code(), ErrorCode::kOutOfMemory);
  // Of two engines with one limit each counts what the other holds.
  engine::NativeEngineOptions options;
  options.memory = std::make_shared<engine::MemoryLimit>(use * 3 / 2);
  const auto first = engine::MakeNativeEngine(options);
  auto second = engine::MakeNativeEngine(options);
  const auto shard = program::ExpertProgram(programs_[1], std::vector<uint32_t>{0, 1}).value();
  ASSERT_TRUE(first->Load({&shard, 1}, weights_).ok());
  EXPECT_EQ(second->Load({&shard, 1}, weights_).error().code(), ErrorCode::kOutOfMemory);
  first->Unload({1, 2});
  EXPECT_TRUE(second->Load({&shard, 1}, weights_).ok());
  second.reset();
  EXPECT_TRUE(first->Load({&shard, 1}, weights_).ok());
}

// An output head in two ranges of 32,768 columns each.
TEST(ExpertHostRanges, AnswersThatNoMessageHasRoomForAreRefusedAndTheBestFit) {
  engine::ModelSpec spec;
  spec.vocabulary = 65'536;
  engine::MemorySource weights;
  std::vector<program::Program> programs =
      engine::ModelBuilder(spec, engine::RandomTensors(3), weights).Build();
  program::Program& head = programs.back();
  for (program::Op& op : head.ops)
    if (auto* product = std::get_if<program::MatMul>(&op)) product->ranges = 2;
  ExpertHost host(engine::MakeNativeEngine({}));
  auto read = host.Read({{head.layer_index, {1}}}, {&head, 1}, weights);
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  host.Install(std::move(*read));
  const auto asked = [&](uint32_t rows) {
    wire::ExpertFrame frame;
    frame.layer = static_cast<uint16_t>(head.layer_index);
    frame.expert = 1;
    frame.hidden = 64;
    frame.tokens = rows;
    const std::vector<float> values(size_t{rows} * 64, 0.5f);
    const ByteSpan bytes = AsBytes(std::span<const float>(values));
    frame.rows = Slice(std::vector<uint8_t>(bytes.begin(), bytes.end()));
    return frame;
  };
  // 480 rows of 32,768 f32 are the 60 MiB of a message.
  wire::ExpertFrame many = asked(481);
  const wire::ExpertFrame refused = host.Run({&many, 1}).at(0);
  ASSERT_TRUE(refused.failed);
  EXPECT_EQ(AsText(refused.body.bytes()),
            "The answers to a message would have 63045632 bytes of rows, expected at most "
            "62914560.");
  wire::ExpertFrame one = asked(1);
  const wire::ExpertFrame logits = host.Run({&one, 1}).at(0);
  ASSERT_FALSE(logits.failed) << AsText(logits.body.bytes());
  ASSERT_EQ(logits.hidden, 32'768);
  std::vector<float> values(logits.hidden);
  ToF32(DType::kF32, logits.rows.bytes().data(), values);
  one.best = true;
  const wire::ExpertFrame best = host.Run({&one, 1}).at(0);
  ASSERT_FALSE(best.failed) << AsText(best.body.bytes());
  std::vector<float> two(kBestColumns);
  ToF32(DType::kF32, best.rows.bytes().data(), two);
  const auto first = std::max_element(values.begin(), values.end());
  EXPECT_EQ(two[0], *first);
  EXPECT_EQ(two[1], static_cast<float>(first - values.begin()));
  *first = -1e9f;
  EXPECT_EQ(two[2], *std::max_element(values.begin(), values.end()));
}

// A layer's products in ranges of 16 columns, and its experts, are held and computed beside each
// other.
TEST_F(ExpertHostTest, RangesOfProductsAreTheColumnsOfTheWholeProducts) {
  program::Program divided = programs_[1];
  for (program::Op& op : divided.ops)
    if (auto* product = std::get_if<program::MatMul>(&op))
      product->ranges = product->out.columns / 16;
  const std::vector<program::ProductRanges> products = program::FindRanges(divided);
  ASSERT_EQ(products.size(), 4u) << "q, k, v and o";
  const uint32_t first = products[0].first_part, end = products[3].first_part + products[3].count;
  std::vector<uint32_t> all = {1, 3};
  for (uint32_t part = first; part < end; ++part) all.push_back(part);
  const std::vector<wire::LayerExperts> sets = {{1, all}};
  EXPECT_GT(host_->Install(host_->Read(sets, {&divided, 1}, weights_).value()), 0u);

  const auto rows = Rows(2, 0);
  for (const program::ProductRanges& ranges : products) {
    const auto& product = std::get<program::MatMul>(divided.ops[ranges.product]);
    ASSERT_EQ(product.in.columns, 64u);
    program::Program whole;
    whole.layer_index = 1;
    whole.buffers = {{"row", 64}, {"out", ranges.total}};
    whole.input = 0;
    whole.output = 1;
    whole.weights = {divided.weights[product.weight.weight]};
    whole.ops = {program::MatMul{{0, 0, 64}, {1, 0, ranges.total}, {0, 0, ranges.total}, {}, 0}};
    const auto engine = engine::MakeNativeEngine({});
    ASSERT_TRUE(engine->Load({&whole, 1}, weights_).ok());
    const engine::Run run = {1, 0, 0, 2, {engine::OutputKind::kLogits}};
    const auto expected = engine->Step({{1, 2}, {&run, 1}, {}, rows});
    ASSERT_TRUE(expected.ok()) << expected.error().ToString();

    // All but the first, in one message with an expert.
    const Slice shared = Dispatch(1, 0, rows).rows;
    std::vector<wire::ExpertFrame> asked = {Dispatch(1, 3, rows)};
    for (uint32_t range = 1; range < ranges.count; ++range) {
      asked.push_back(Dispatch(1, static_cast<uint16_t>(ranges.first_part + range), rows));
      asked.back().rows = shared;
    }
    const auto results = host_->Run(asked);
    ASSERT_EQ(results.size(), asked.size());
    EXPECT_EQ(Floats(results[0]), Alone(1, 3, rows));
    for (uint32_t range = 1; range < ranges.count; ++range) {
      EXPECT_EQ(results[range].expert, ranges.first_part + range);
      EXPECT_EQ(results[range].hidden, 16u);
      const std::vector<float> got = Floats(results[range]);
      ASSERT_EQ(got.size(), 32u);
      for (size_t row = 0; row < 2; ++row)
        for (size_t c = 0; c < 16; ++c)
          EXPECT_EQ(got[row * 16 + c],
                    expected->logits[row * ranges.total + ranges.First(range) + c]);
    }
  }
  auto none = Dispatch(1, static_cast<uint16_t>(end), rows);
  const auto failed = host_->Run({&none, 1});
  ASSERT_TRUE(failed[0].failed);
  EXPECT_THAT(std::string(AsText(failed[0].body.bytes())), HasSubstr("is not held here"));
}

}  // namespace
}  // namespace weft::worker
