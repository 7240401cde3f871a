// Hub programs and shards as programs (program/shards.h), of models made by hand. What they
// compute: slot_exchange_test.cc.
#include "program/shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/test_model.h"
#include "program/codec.h"

namespace weft::program {
namespace {

using testing::HasSubstr;

struct Model {
  explicit Model(DType dtype) {
    engine::ModelSpec spec;
    spec.experts = 4;
    spec.top_k = 2;
    spec.matrix_dtype = dtype;
    layer = engine::ModelBuilder(spec, engine::RandomTensors(1), source).Build()[1];
  }
  // What the parts hold, one after the other.
  std::vector<uint8_t> Bytes(const std::vector<Part>& parts) {
    std::vector<uint8_t> all;
    for (const Part& part : parts) {
      const weft::Slice slice = source.Read(part).value();
      all.insert(all.end(), slice.bytes().begin(), slice.bytes().end());
    }
    return all;
  }

  engine::MemorySource source;
  Program layer;
};

bool Uses(const Program& program, const std::string& name) {
  return std::any_of(program.weights.begin(), program.weights.end(),
                     [&](const Weight& weight) { return weight.name == name; });
}

TEST(Shards, AHubExchangesWhereItsExpertsWereAndLacksTheirWeights) {
  const Model model(DType::kF16);
  const Program hub = HubProgram(model.layer);
  ASSERT_TRUE(Validate(hub).ok()) << Validate(hub).error().ToString();
  ASSERT_EQ(hub.ops.size(), model.layer.ops.size());
  for (size_t i = 0; i < hub.ops.size(); ++i) {
    if (!std::holds_alternative<MoeExperts>(model.layer.ops[i])) {
      EXPECT_EQ(OpName(hub.ops[i]), OpName(model.layer.ops[i]));
      continue;
    }
    const auto& whole = std::get<MoeExperts>(model.layer.ops[i]);
    const auto& exchange = std::get<SlotExchange>(hub.ops[i]);
    EXPECT_EQ(exchange.in.buffer, whole.in.buffer);
    EXPECT_EQ(exchange.route.buffer, whole.route.buffer);
    EXPECT_EQ(exchange.out.buffer, whole.out.buffer);
    EXPECT_EQ(exchange.experts, 4u);
    EXPECT_EQ(exchange.top_k, 2u);
  }
  EXPECT_EQ(FindExperts(hub), nullptr);
  EXPECT_EQ(hub.weights.size(), model.layer.weights.size() - 2);
  EXPECT_FALSE(Uses(hub, "layers.0.experts.gate_up"));
  EXPECT_TRUE(Uses(hub, "layers.0.router"));
  const auto router = [](const Program& program) {
    for (size_t i = 0; i + 1 < program.ops.size(); ++i)
      if (std::holds_alternative<MoeRoute>(program.ops[i + 1]))
        return program.weights[std::get<MatMul>(program.ops[i]).weight.weight].name;
    return std::string();
  };
  EXPECT_EQ(router(hub), router(model.layer));
  const auto again = Decode(Encode(hub));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(Encode(*again), Encode(hub));
}

TEST(Shards, ALayerWithoutExpertsIsItsOwnHub) {
  engine::MemorySource source;
  const Program layer =
      engine::ModelBuilder(engine::ModelSpec{}, engine::RandomTensors(1), source).Build()[1];
  EXPECT_EQ(Encode(HubProgram(layer)), Encode(layer));
  EXPECT_THAT(ExpertProgram(layer, std::vector<uint32_t>{0}).error().message(),
              HasSubstr("Layer 1 has no experts"));
}

TEST(Shards, AShardHoldsTheBytesOfItsExpertsInTheirOrder) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kQ8, DType::kQ4, DType::kQ4S}) {
    Model model(dtype);
    const std::vector<uint32_t> experts = {3, 1};
    const auto shard = ExpertProgram(model.layer, experts);
    ASSERT_TRUE(shard.ok()) << shard.error().ToString();
    ASSERT_TRUE(Validate(*shard).ok()) << Validate(*shard).error().ToString();
    EXPECT_EQ(shard->buffers[0].columns, 64u + 2);
    EXPECT_EQ(shard->buffers[1].columns, 64u);
    ASSERT_EQ(shard->weights.size(), 2u);
    for (const Weight& weight : shard->weights) {
      const auto whole = std::find_if(model.layer.weights.begin(), model.layer.weights.end(),
                                      [&](const Weight& each) { return each.name == weight.name; });
      ASSERT_NE(whole, model.layer.weights.end());
      EXPECT_EQ(weight.shape[0], 2u);
      for (const auto parts : {&Weight::data, &Weight::scale, &Weight::zero}) {
        const std::vector<uint8_t> all = model.Bytes((*whole).*parts);
        const std::vector<uint8_t> some = model.Bytes(weight.*parts);
        const size_t each = all.size() / 4;
        ASSERT_EQ(some.size(), 2 * each);
        const auto at = [&](size_t i) { return all.begin() + static_cast<ptrdiff_t>(i * each); };
        EXPECT_TRUE(std::equal(at(3), at(4), some.begin()));
        EXPECT_TRUE(std::equal(at(1), at(2), some.begin() + static_cast<ptrdiff_t>(each)));
      }
    }
  }
}

TEST(Shards, PartsAreCutWhereExpertsBegin) {
  Model model(DType::kF32);
  // The stack as three parts that do not end where experts do.
  const WeightId id = FindExperts(model.layer)->down;
  Weight& down = model.layer.weights[id];
  const Part whole = down.data[0];
  const std::vector<uint8_t> bytes = model.Bytes(down.data);
  const uint64_t a = bytes.size() / 8 + 4, b = bytes.size() / 2 + 12;
  down.data = {{whole.digest, 0, a}, {whole.digest, a, b - a}, {whole.digest, b, bytes.size() - b}};
  const auto shard = ExpertProgram(model.layer, std::vector<uint32_t>{0, 2});
  ASSERT_TRUE(shard.ok());
  const Weight& cut = shard->weights[FindExperts(*shard)->down];
  EXPECT_EQ(cut.data.size(), 4u);
  const size_t each = bytes.size() / 4;
  std::vector<uint8_t> expected(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(each));
  expected.insert(expected.end(), bytes.begin() + static_cast<ptrdiff_t>(2 * each),
                  bytes.begin() + static_cast<ptrdiff_t>(3 * each));
  EXPECT_EQ(model.Bytes(cut.data), expected);
}

TEST(Shards, WhatIsNotThereIsRefusedByName) {
  const Model model(DType::kF32);
  EXPECT_THAT(ExpertProgram(model.layer, std::vector<uint32_t>{1, 4}).error().message(),
              HasSubstr("Layer 1 has no expert 4, only 4"));
  EXPECT_THAT(ExpertProgram(model.layer, {}).error().message(), HasSubstr("none of its experts"));
}

TEST(Shards, ASlotExchangeIsCheckedLikeExperts) {
  const Model model(DType::kF32);
  const auto broken = [&](auto change) {
    Program hub = HubProgram(model.layer);
    for (Op& op : hub.ops)
      if (auto* exchange = std::get_if<SlotExchange>(&op)) change(*exchange);
    const Status status = Validate(hub);
    return status.ok() ? std::string() : status.error().message();
  };
  EXPECT_THAT(broken([](SlotExchange& op) { op.top_k = 5; }), HasSubstr("chooses 5 of 4"));
  EXPECT_THAT(broken([](SlotExchange& op) { op.route.columns = 3; }), HasSubstr("'route' has 3"));
  EXPECT_THAT(broken([](SlotExchange& op) { op.out.columns = 32; }), HasSubstr("'out' has 32"));
  EXPECT_THAT(broken([](SlotExchange& op) { op.out = op.in; }), HasSubstr("overlaps an input"));
}

}  // namespace
}  // namespace weft::program
