// Mixtures whose experts are in parts of their width (program/expert_parts.h): near the model as it
// was, and the same bits for any division of the parts.
#include "program/expert_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/test_cut_model.h"
#include "engine/test_shards.h"
#include "program/codec.h"
#include "program/neuron_groups.h"
#include "program/program.pb.h"

namespace weft::engine {
namespace {

using ::testing::HasSubstr;

ModelSpec Spec(DType dtype, program::Activation activation = program::Activation::kSilu) {
  ModelSpec spec;
  spec.width = dtype == DType::kQ4S ? 1024 : 128;
  spec.experts = 6;
  spec.top_k = 2;
  spec.matrix_dtype = dtype;
  spec.activation = activation;
  spec.gates = activation != program::Activation::kRelu;
  return spec;
}

// With `has_biases` experts have those of both products.
struct Model : CutModel {
  explicit Model(const ModelSpec& spec, bool has_biases = false) : CutModel(spec) {
    for (program::Program& layer : programs)
      for (program::Op& op : layer.ops) {
        auto* experts = std::get_if<program::MoeExperts>(&op);
        if (experts == nullptr || !has_biases) continue;
        experts->gate_up_bias =
            AddBias(source, layer, "up_bias", {spec.experts, spec.gate_up_rows()});
        experts->down_bias = AddBias(source, layer, "down_bias", {spec.experts, spec.hidden});
      }
  }
  std::vector<program::Program> InParts(uint32_t columns) const {
    return With([columns](const program::Program& layer) {
      return program::PartedProgram(layer, columns);
    });
  }
};

TEST(ExpertParts, ComputeWhatWholeExpertsDo) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kQ8, DType::kQ4, DType::kQ4S}) {
    for (const bool has_biases : {false, true}) {
      for (const bool reference : {false, true}) {
        Model model(Spec(dtype), has_biases);
        const std::vector<float> whole = Logits(model, model.programs, reference);
        for (const uint32_t columns : {32u, 64u, 256u, 512u}) {
          const uint32_t width = program::ExpertColumns(model.programs[1]);
          if (columns % static_cast<uint32_t>(CutColumns(dtype)) != 0 || columns >= width) continue;
          const auto parted = model.InParts(columns);
          EXPECT_EQ(program::ExpertColumns(parted[1]), columns);
          EXPECT_LT(LargestDifference(whole, Logits(model, parted, reference)), 1e-4)
              << DTypeName(dtype) << ", parts of " << columns;
        }
      }
    }
  }
}

TEST(ExpertParts, HaveTheRowsOfExpertsWithoutAGateOnce) {
  for (const DType dtype : {DType::kF32, DType::kQ4}) {
    Model model(Spec(dtype, program::Activation::kRelu), true);
    const auto parted = model.InParts(32);
    const program::MoeExperts& experts = *program::FindExperts(parted[1]);
    EXPECT_THAT(parted[1].weights[experts.gate_up].shape, ::testing::ElementsAre(24, 32, 64));
    EXPECT_THAT(parted[1].weights[experts.down].shape, ::testing::ElementsAre(24, 64, 32));
    EXPECT_LT(LargestDifference(Logits(model, model.programs, true), Logits(model, parted, true)),
              1e-4);
  }
}

TEST(ExpertParts, HubAndHoldersGiveTheBitsOfOneDevice) {
  for (const DType dtype : {DType::kF32, DType::kQ4, DType::kQ4S}) {
    for (const uint32_t holders : {1u, 2u, 5u}) {
      Model model(Spec(dtype), true);
      const auto parted = model.InParts(dtype == DType::kQ4S ? 256 : 32);
      SplitModel split(parted, model.source, TwoThreads(), holders);
      const auto got = split.Step(model.Prompt());
      ASSERT_TRUE(got.ok()) << got.error().ToString();
      EXPECT_EQ(got->logits, Logits(model, parted, false));
    }
  }
}

// A row that chose expert e goes to all parts of it.
TEST(ExpertParts, ARouteNamesThePartsOfAnExpertTogether) {
  Model model(Spec(DType::kF32));
  const auto parted = model.InParts(32);
  std::vector<program::Program> hubs;
  for (const program::Program& layer : parted) hubs.push_back(program::HubProgram(layer));
  const auto hub = MakeNativeEngine(TwoThreads());
  ASSERT_TRUE(hub->Load(hubs, model.source).ok());
  const auto progress = hub->Begin(model.Prompt()).value();
  const SlotRequest& request = std::get<std::unique_ptr<PendingStep>>(progress)->request();
  ASSERT_EQ(request.top_k, 8u);
  ASSERT_EQ(request.experts, 24u);
  for (size_t row = 0; row < request.row_count; ++row) {
    const auto route = request.route.subspan(row * 16, 16);
    for (size_t slot = 0; slot < 8; ++slot) {
      EXPECT_EQ(static_cast<uint32_t>(route[slot]) % 4, slot % 4);
      EXPECT_EQ(static_cast<uint32_t>(route[slot]) / 4,
                static_cast<uint32_t>(route[slot / 4 * 4]) / 4);
      EXPECT_EQ(route[8 + slot], route[8 + slot / 4 * 4]);
    }
    EXPECT_NEAR(route[8] + route[12], 1, 1e-6);
  }
}

TEST(ExpertParts, AreAsWideAsFits) {
  const Model q4s(Spec(DType::kQ4S)), q4(Spec(DType::kQ4));
  EXPECT_EQ(program::PartColumns(q4s.programs[1], 5000), 1024u);
  EXPECT_EQ(program::PartColumns(q4s.programs[1], 1000), 512u);
  EXPECT_EQ(program::PartColumns(q4s.programs[1], 511), 256u);
  EXPECT_EQ(program::PartColumns(q4s.programs[1], 1), 256u);  // a superblock
  EXPECT_EQ(program::PartColumns(q4.programs[1], 40), 32u);
  EXPECT_EQ(program::ExpertColumns(q4.programs[0]), 0u);
  EXPECT_EQ(program::Encode(program::PartedProgram(q4.programs[0], 32).value()),
            program::Encode(q4.programs[0]));
}

TEST(ExpertParts, WhatCannotBeCutIsRefusedByName) {
  const Model model(Spec(DType::kQ4));
  const program::Program& layer = model.programs[1];
  EXPECT_THAT(program::PartedProgram(layer, 48).error().message(),
              HasSubstr("experts of layer 1 are 128 columns wide, which parts of 48"));
  EXPECT_THAT(program::PartedProgram(layer, 16).error().message(), HasSubstr("between blocks"));
  const program::Program parted = program::PartedProgram(layer, 64).value();
  EXPECT_THAT(program::PartedProgram(parted, 32).error().message(), HasSubstr("in parts already"));
  ModelSpec dense;
  MemorySource source;
  const program::Program mlp = ModelBuilder(dense, RandomTensors(1), source).Build()[1];
  const program::Program grouped = program::GroupedProgram(mlp, 32, {0x1p-18f, 0x1p21f}).value();
  EXPECT_THAT(program::PartedProgram(grouped, 16).error().message(), HasSubstr("neuron groups"));
}

// The versions of programs that a weft from before refuses by name.
TEST(ExpertParts, BeginWithVersion3OfPrograms) {
  const Model model(Spec(DType::kF32));
  const std::vector<uint8_t> whole = program::Encode(model.programs[1]);
  const program::Program parted = program::PartedProgram(model.programs[1], 64).value();
  EXPECT_EQ(program::VersionOf(model.programs[1]), 1u);
  EXPECT_EQ(program::VersionOf(parted), 3u);
  const std::vector<uint8_t> bytes = program::Encode(parted);
  const auto again = program::Decode(bytes);
  ASSERT_TRUE(again.ok()) << again.error().ToString();
  EXPECT_EQ(program::Encode(*again), bytes);
  program::pb::Program message;
  ASSERT_TRUE(message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  message.set_version(2);
  EXPECT_THAT(program::Decode(AsBytes(message.SerializeAsString())).error().message(),
              HasSubstr("in a program of version 2; these begin with version 3"));
}

TEST(ExpertParts, AreCheckedWithTheRoute) {
  const Model model(Spec(DType::kF32));
  const auto broken = [&](auto change) {
    program::Program parted = program::PartedProgram(model.programs[1], 64).value();
    for (program::Op& op : parted.ops)
      if (auto* route = std::get_if<program::MoeRoute>(&op)) change(*route);
    const Status status = program::Validate(parted);
    return status.ok() ? std::string() : status.error().message();
  };
  EXPECT_EQ(broken([](program::MoeRoute&) {}), "");
  EXPECT_THAT(broken([](program::MoeRoute& op) { op.parts = 3; }), HasSubstr("'out' has 8"));
  EXPECT_THAT(broken([](program::MoeRoute& op) { op.parts = 0; }), HasSubstr("in 0 parts each"));
  EXPECT_THAT(broken([](program::MoeRoute& op) { op.parts = 1 << 15; }),
              HasSubstr("at most 65536 parts in all"));
  // Experts that are not those of the route.
  MemorySource source;
  std::vector<program::Program> programs =
      ModelBuilder(Spec(DType::kF32), RandomTensors(1), source).Build();
  programs[1] = program::PartedProgram(programs[1], 64).value();
  for (program::Op& op : programs[1].ops)
    if (auto* route = std::get_if<program::MoeRoute>(&op)) {
      route->parts = 1;
      route->top_k = 4;
    }
  const Status loaded = MakeNativeEngine(TwoThreads())->Load(programs, source);
  EXPECT_THAT(loaded.error().message(), HasSubstr("no MoeRoute over the same experts wrote"));
}

}  // namespace
}  // namespace weft::engine
