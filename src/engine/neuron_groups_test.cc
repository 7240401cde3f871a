// Dense models whose MLPs are computed in neuron groups (program/neuron_groups.h): near the model
// as it was, and the same bits for any division of the groups.
#include "program/neuron_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/test_cut_model.h"
#include "engine/test_shards.h"
#include "program/codec.h"

namespace weft::engine {
namespace {

using ::testing::HasSubstr;
constexpr program::SumGrid kGrid = {0x1p-18f, 0x1p21f};

ModelSpec Spec(DType dtype, bool gemma = false) {
  ModelSpec spec;
  spec.width = dtype == DType::kQ4S ? 2048 : 256;
  spec.gemma = gemma;
  spec.matrix_dtype = dtype;
  return spec;
}

struct Model : CutModel {
  explicit Model(DType dtype, bool gemma = false) : Model(Spec(dtype, gemma)) {}
  explicit Model(const ModelSpec& spec) : CutModel(spec) {}
  std::vector<program::Program> Grouped(uint32_t group_columns, program::SumGrid grid) const {
    return With([&](const program::Program& layer) {
      return program::GroupedProgram(layer, group_columns, grid);
    });
  }
};

TEST(NeuronGroups, ComputeWhatTheDenseLayerDoes) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kQ8, DType::kQ4, DType::kQ4S}) {
    for (const bool gemma : {false, true}) {
      for (const uint32_t group_columns : {32u, 64u, 256u}) {
        if (group_columns % static_cast<uint32_t>(CutColumns(dtype)) != 0) continue;
        Model model(dtype, gemma);
        const std::vector<float> dense = Logits(model, model.programs, true);
        EXPECT_LT(LargestDifference(dense, Logits(model, model.Grouped(group_columns, {}), true)),
                  1e-4)
            << DTypeName(dtype) << ", groups of " << group_columns;
        EXPECT_LT(
            LargestDifference(dense, Logits(model, model.Grouped(group_columns, kGrid), true)),
            1e-3);
      }
    }
  }
}

TEST(NeuronGroups, HoldTheRowsOfMlpsWithoutAGateOnce) {
  for (const DType dtype : {DType::kF32, DType::kQ8, DType::kQ4}) {
    ModelSpec spec = Spec(dtype);
    spec.activation = program::Activation::kRelu;
    spec.gates = false;
    Model model(spec);
    const std::vector<program::Program> grouped = model.Grouped(64, {});
    uint32_t found = 0;
    for (const program::Weight& weight : grouped[1].weights) {
      if (weight.name != "layers.0.gate_up.groups") continue;
      ++found;
      EXPECT_THAT(weight.shape, ::testing::ElementsAre(4, 64, 64));
    }
    EXPECT_EQ(found, 1u);
    EXPECT_LT(LargestDifference(Logits(model, model.programs, true), Logits(model, grouped, true)),
              1e-4);
  }
}

// Slots are groups, in order: their sums, row by row, added in a random order.
std::vector<float> SumsOf(const std::vector<float>& slots, const SlotRequest& request,
                          SeededRandom& random) {
  std::vector<float> sums(request.row_count * request.columns);
  for (size_t row = 0; row < request.row_count; ++row) {
    std::vector<size_t> order(request.top_k);
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random.Below(i + 1)]);
    for (const size_t slot : order)
      for (size_t i = 0; i < request.columns; ++i)
        sums[row * request.columns + i] +=
            slots[(row * request.top_k + slot) * request.columns + i];
  }
  return sums;
}

std::vector<float> SplitLogits(Model& model, std::span<const program::Program> programs,
                               uint32_t holders, SeededRandom& random, bool is_on_grid = true) {
  SplitModel split(programs, model.source, TwoThreads(), holders);
  auto progress = split.hub->Begin(model.Prompt());
  while (auto* pending = std::get_if<std::unique_ptr<PendingStep>>(&*progress)) {
    const SlotRequest& request = (*pending)->request();
    EXPECT_EQ(request.top_k, 8u);
    EXPECT_EQ(request.kind == SlotKind::kSums, is_on_grid);
    std::vector<float> slots = split.Slots(request);
    EXPECT_EQ(request.largest_slot > 0, is_on_grid);
    if (is_on_grid) {
      for (const float value : slots) EXPECT_LE(std::abs(value), request.largest_slot);
    }
    const std::vector<float> sums = SumsOf(slots, request, random);
    if (request.kind == SlotKind::kSums) {
      slots = sums;
    } else {  // the first slot of a row has the sum, the others nothing
      std::fill(slots.begin(), slots.end(), 0.0f);
      for (size_t row = 0; row < request.row_count; ++row)
        std::copy_n(sums.data() + row * request.columns, request.columns,
                    slots.data() + row * request.top_k * request.columns);
    }
    progress = split.hub->Resume(std::move(*pending), slots);
    EXPECT_TRUE(progress.ok());
  }
  return std::get<StepOutput>(*progress).logits;
}

// The first group adds the biases of the down product, whoever has it.
TEST(NeuronGroups, HaveBiases) {
  SeededRandom random(16);
  for (const DType dtype : {DType::kF32, DType::kQ4, DType::kQ4S}) {
    for (const bool gates : {true, false}) {
      ModelSpec spec = Spec(dtype);
      spec.mlp_bias = true;
      spec.gates = gates;
      if (!gates) spec.activation = program::Activation::kRelu;
      Model model(spec);
      const uint32_t columns = dtype == DType::kQ4S ? 256 : 32;
      const std::vector<float> dense = Logits(model, model.programs, true);
      EXPECT_LT(LargestDifference(dense, Logits(model, model.Grouped(columns, {}), true)), 1e-4);
      const auto grouped = model.Grouped(columns, kGrid);
      const std::vector<float> alone = Logits(model, grouped);
      EXPECT_LT(LargestDifference(dense, Logits(model, grouped, true)), 1e-3);
      for (const uint32_t holders : {1u, 3u})
        EXPECT_EQ(SplitLogits(model, grouped, holders, random), alone);
      spec.mlp_bias = false;
      Model unbiased(spec);
      EXPECT_GT(LargestDifference(dense, Logits(unbiased, unbiased.programs, true)), 1e-2)
          << "biases change nothing: then this test says nothing";
    }
  }
}

TEST(NeuronGroups, AHubKnowsHowLargeAGroupsOutputIs) {
  const Model model(DType::kF32);
  size_t exchanges = 0;
  for (const program::Program& layer : model.Grouped(32, kGrid)) {
    const program::Program hub = program::HubProgram(layer);
    const auto again = program::Decode(program::Encode(hub));
    ASSERT_TRUE(again.ok());
    for (const program::Op& op : again->ops) {
      const auto* exchange = std::get_if<program::SlotExchange>(&op);
      if (exchange == nullptr) continue;
      EXPECT_EQ(exchange->grid.step * exchange->grid.limit, 8);
      ++exchanges;
    }
  }
  EXPECT_GT(exchanges, 0u);
}

TEST(NeuronGroups, GiveTheSameBitsWhoeverAddsWhat) {
  SeededRandom random(15);
  for (const DType dtype : {DType::kF32, DType::kQ4, DType::kQ4S}) {
    Model model(dtype);
    const uint32_t columns = dtype == DType::kQ4S ? 256 : 32;
    const auto grouped = model.Grouped(columns, kGrid);
    const std::vector<float> alone = Logits(model, grouped);
    for (const uint32_t holders : {1u, 2u, 3u, 8u}) {
      for (int trial = 0; trial < 5; ++trial)
        EXPECT_EQ(SplitLogits(model, grouped, holders, random), alone);
    }
    if (dtype == DType::kQ4S) continue;  // its rows are rounded to 16 bits: the order never shows
    const auto rounded_nowhere = model.Grouped(columns, {});
    EXPECT_NE(SplitLogits(model, rounded_nowhere, 3, random, false), Logits(model, rounded_nowhere))
        << "without a grid the order shows: else this test says nothing";
  }
}

TEST(NeuronGroups, AreOfAWidthThatDivides) {
  EXPECT_EQ(program::GroupColumns(14336, 256), 256u);
  EXPECT_EQ(program::GroupColumns(768, 256), 256u);
  EXPECT_EQ(program::GroupColumns(11008, 256), 256u);
  EXPECT_EQ(program::GroupColumns(960, 256), 192u);
  EXPECT_EQ(program::GroupColumns(172, 128), 86u);
  EXPECT_EQ(program::GroupColumns(172, 32), 4u);
}

TEST(NeuronGroups, AGridHoldsFourTimesWhatWasSeen) {
  for (const float largest : {0.003f, 1.0f, 700.0f}) {
    for (const uint32_t groups : {1u, 3u, 8u, 56u}) {
      const program::SumGrid grid = program::GridFor(largest, groups);
      EXPECT_GE(grid.step * grid.limit, 4 * largest);
      EXPECT_LT(grid.step * grid.limit, 8 * largest);
      EXPECT_LE(grid.limit * static_cast<float>(groups), 0x1p24f);
    }
  }
  EXPECT_EQ(program::GridFor(1, 4).step, 0x1p-20f);
}

TEST(NeuronGroups, WhatCannotBeCutIsRefusedByName) {
  Model model(DType::kQ4);
  const program::Program& layer = model.programs[1];
  EXPECT_EQ(program::MlpColumns(layer), 256u);
  EXPECT_EQ(program::MlpColumns(model.programs[0]), 0u);
  const auto refusal = [](const program::Program& program, uint32_t columns) {
    const auto made = program::GroupedProgram(program, columns, kGrid);
    return made.ok() ? std::string("none") : made.error().message();
  };
  EXPECT_THAT(refusal(layer, 48), HasSubstr("groups of 48 of 256 columns do not divide"));
  EXPECT_THAT(refusal(layer, 16), HasSubstr("do not divide")) << "half a block";
  EXPECT_THAT(refusal(layer, 0), HasSubstr("do not divide"));
  EXPECT_THAT(refusal(Model(DType::kQ4S).programs[1], 64),
              HasSubstr("groups of 64 of 2048 columns do not divide its weights, which are cut at "
                        "multiples of 256"));
  ModelSpec spec = Spec(DType::kQ4);
  spec.mlp_bias = true;
  program::Program half_biased = Model(spec).programs[1];
  for (program::Op& op : half_biased.ops)
    if (auto* product = std::get_if<program::MatMul>(&op)) product->bias.reset();
  for (size_t i = 0; i < half_biased.ops.size(); ++i)
    if (std::holds_alternative<program::GatedActivation>(half_biased.ops[i]))
      std::get<program::MatMul>(half_biased.ops[i - 1]).bias = 0;
  EXPECT_THAT(refusal(half_biased, 32),
              HasSubstr("The MLP of layer 1 cannot be cut into neuron groups: its gate and up "
                        "products differ in more than their weights."));
}

}  // namespace
}  // namespace weft::engine
