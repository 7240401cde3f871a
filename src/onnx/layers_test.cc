// Boundary detection, cuts and the set equations on hand-built decoders and on every model of the
// test data.
#include "onnx/layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/data_testing.h"
#include "onnx/extract.h"
#include "onnx/load.h"
#include "onnx/onnx_testing.h"
#include "onnx/simple_graph.h"
#include "onnx/validate.h"

namespace weft::onnx {
namespace {

using testing::DecoderForm;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MakeDecoder;
using ::testing::UnorderedElementsAre;

LayeredModel Layered(const DecoderForm& form) {
  Model model = MakeDecoder(form);
  CHECK(ValidateAndSort(model.graph).ok());
  auto layered = FindLayers(std::move(model));
  CHECK(layered.ok(), layered.ok() ? "" : layered.error().ToString());
  return std::move(layered).value();
}

std::vector<std::string> Names(const std::vector<ValueInfo>& values) {
  std::vector<std::string> names;
  for (const ValueInfo& value : values) names.push_back(value.name);
  return names;
}

std::vector<std::string> Boundaries(const LayeredModel& layered) {
  std::vector<std::string> names;
  for (const Boundary& boundary : layered.boundaries) names.push_back(boundary.value);
  return names;
}

int CountOps(const Graph& graph, std::string_view op) {
  int count = 0;
  for (const Node& node : graph.nodes) count += node.op_type == op ? 1 : 0;
  return count;
}

// --- the set equation of dynamic-graph-partitioning 6.2.3 ---

SimpleNode MakeNode(std::vector<std::string> inputs, std::vector<std::string> outputs) {
  return {std::move(inputs), std::move(outputs)};
}

TEST(SimpleGraph, WhatCrossesACutLeavesOutConstantsMadeTwice) {
  SimpleGraph before;
  before.nodes[0] = MakeNode({}, {"constant"});
  before.nodes[1] = MakeNode({"x", "constant"}, {"a"});
  SimpleGraph after;
  after.nodes[0] = MakeNode({}, {"constant"});
  after.nodes[2] = MakeNode({"a", "constant", "mask"}, {"y"});
  EXPECT_EQ(BoundaryTensors(before, after), NameSet{"a"});
}

// --- boundary detection ---

TEST(FindLayers, PlainDecoderCutsAtTheResidualAdds) {
  const LayeredModel layered = Layered({});
  EXPECT_EQ(layered.layer_count(), 5);  // embedding, 3 layers, head
  EXPECT_THAT(Boundaries(layered), ElementsAre("embedded", "out0", "out1", "out2"));
  EXPECT_EQ(layered.hidden_size, 4);
  EXPECT_TRUE(CheckCuts(layered).ok());
}

TEST(FindLayers, OfAMergedDecoderTheOneWithAPastIsTaken) {
  Model model = testing::Merged(MakeDecoder({}));
  ASSERT_TRUE(ValidateAndSort(model.graph).ok());
  const auto layered = FindLayers(std::move(model));
  ASSERT_TRUE(layered.ok()) << layered.error().ToString();
  EXPECT_TRUE(layered->was_merged);
  EXPECT_THAT(Boundaries(*layered), ElementsAre("embedded", "out0", "out1", "out2"));
  EXPECT_EQ(CountOps(layered->model.graph, "If"), 0);
  EXPECT_EQ(CountOps(layered->model.graph, "Sub"), 0);
  EXPECT_EQ(layered->model.graph.FindInput("use_cache_branch"), nullptr);
  EXPECT_FALSE(Layered({}).was_merged);
}

TEST(FindLayers, FusedSkipNormsAreTakenApartAtCutsOnly) {
  const LayeredModel layered = Layered({.fused_skip_norm = true});
  EXPECT_THAT(Boundaries(layered), ElementsAre("embedded", "s1", "s2", "normed/residual_sum"));
  // The skip norms in the middle of each layer stay fused.
  EXPECT_EQ(CountOps(layered.model.graph, "SkipSimplifiedLayerNormalization"), 3);
  EXPECT_TRUE(CheckCuts(layered).ok());
  const auto part = ExtractLayers(layered, 1, 2);
  ASSERT_TRUE(part.ok()) << part.error().ToString();
  // The layer ends with a plain Add that writes the stream, and the norm is the next layer's.
  const Node* last = GraphIndex(part->graph).ProducerNode(kHiddenOut);
  ASSERT_NE(last, nullptr);
  EXPECT_TRUE(last->Is("Add"));
  const auto next = ExtractLayers(layered, 2, 3);
  ASSERT_TRUE(next.ok());
  const GraphIndex index(next->graph);
  ASSERT_EQ(index.Consumers(kHiddenIn).size(), 2u);
  EXPECT_TRUE(next->graph.nodes[index.Consumers(kHiddenIn)[0]].Is("SimplifiedLayerNormalization"));
}

TEST(FindLayers, SumsThatABiasJoinsAreAddedBeforeTheCut) {
  Model model = MakeDecoder({.fused_skip_norm = true});
  model.graph.AddInitializer("bias", testing::Zeros({4}));
  for (Node& node : model.graph.nodes) {
    if (node.Output(0) == "a1") node.inputs.push_back("bias");
  }
  const auto layered = FindLayers(std::move(model));
  ASSERT_TRUE(layered.ok()) << layered.error().ToString();
  const auto part = ExtractLayers(*layered, 1, 2);
  ASSERT_TRUE(part.ok());
  const Node* last = GraphIndex(part->graph).ProducerNode(kHiddenOut);
  ASSERT_NE(last, nullptr);
  const Node* biased = GraphIndex(part->graph).ProducerNode(last->Input(1));
  ASSERT_NE(biased, nullptr);
  EXPECT_EQ(biased->Input(1), "bias");
}

TEST(FindLayers, NamesThatLieAboutLayersChangeNothing) {
  Model model = MakeDecoder({});
  for (Node& node : model.graph.nodes) node.name = "/model/layers.7/Add";
  const auto layered = FindLayers(std::move(model));
  ASSERT_TRUE(layered.ok());
  EXPECT_THAT(Boundaries(*layered), ElementsAre("embedded", "out0", "out1", "out2"));
}

TEST(FindLayers, CastsBeforeANormBelongToTheLayerThatNorms) {
  Model model = MakeDecoder({.layers = 2});
  Graph& graph = model.graph;
  // out0 -> Cast -> everything of layer 1 that read out0.
  for (Node& node : graph.nodes) {
    for (std::string& input : node.inputs) input = input == "out0" ? "out0_wide" : input;
  }
  graph.AddNode("Cast", {"out0"}, {"out0_wide"}, {Attribute::Of("to", 1)});
  ASSERT_TRUE(ValidateAndSort(graph).ok());
  const auto layered = FindLayers(std::move(model));
  ASSERT_TRUE(layered.ok()) << layered.error().ToString();
  EXPECT_THAT(Boundaries(*layered), ElementsAre("embedded", "out0", "out1"));
}

TEST(FindLayers, SecondCrossingTensorIsNamed) {
  const LayeredModel layered = Layered({.mask_from_shapes = true});
  ASSERT_TRUE(CheckCuts(layered).ok());
  Model leaking = MakeDecoder({.cross_layer_leak = true});
  const auto result = FindLayers(std::move(leaking));
  // Either no single-tensor boundary is found, or the cut names what else crosses.
  const Status status = result.ok() ? CheckCuts(*result) : Status(result.error());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(status.error().ToString(), HasSubstr("cross"));
}

TEST(FindLayers, CastLikeDoesNotTieMasksToTheStream) {
  Model model = MakeDecoder({.mask_from_shapes = true});
  for (Node& node : model.graph.nodes) {
    for (std::string& input : node.inputs) input = input == "mask" ? "typed_mask" : input;
  }
  model.graph.AddNode("CastLike", {"mask", "embedded"}, {"typed_mask"});
  ASSERT_TRUE(ValidateAndSort(model.graph).ok());
  const auto layered = FindLayers(std::move(model));
  ASSERT_TRUE(layered.ok()) << layered.error().ToString();
  EXPECT_TRUE(CheckCuts(*layered).ok()) << CheckCuts(*layered).error().ToString();
}

TEST(FindLayers, RefusesGraphsThatAreNoDecoders) {
  Model no_cache = MakeDecoder({});
  std::erase_if(no_cache.graph.inputs,
                [](const ValueInfo& input) { return input.name.starts_with("past"); });
  EXPECT_EQ(FindLayers(std::move(no_cache)).error().code(), ErrorCode::kUnsupported);

  Model gap = MakeDecoder({});
  std::erase_if(gap.graph.inputs,
                [](const ValueInfo& input) { return input.name.starts_with("past_key_values.1"); });
  EXPECT_THAT(FindLayers(std::move(gap)).error().message(), HasSubstr("layer 1"));

  Model nothing;
  EXPECT_FALSE(FindLayers(std::move(nothing)).ok());
}

// --- extraction ---

TEST(ExtractLayers, InterfaceOfEachKindOfPart) {
  const LayeredModel layered = Layered({.mask_from_shapes = true});
  const auto embedding = ExtractLayers(layered, 0, 1);
  ASSERT_TRUE(embedding.ok());
  EXPECT_THAT(Names(embedding->graph.inputs), ElementsAre("input_ids"));
  EXPECT_THAT(Names(embedding->graph.outputs), ElementsAre("hidden_out"));

  const auto middle = ExtractLayers(layered, 2, 3);
  ASSERT_TRUE(middle.ok()) << middle.error().ToString();
  EXPECT_THAT(Names(middle->graph.inputs),
              ElementsAre("hidden_in", "past_key_values.1.key", "past_key_values.1.value"));
  EXPECT_THAT(Names(middle->graph.outputs),
              UnorderedElementsAre("hidden_out", "present.1.key", "present.1.value"));
  const ValueInfo& hidden = middle->graph.inputs[0];
  EXPECT_EQ(hidden.type, ElementType::kFloat);
  ASSERT_TRUE(hidden.shape.has_value());
  EXPECT_THAT(*hidden.shape,
              ElementsAre(Dim::Of("batch_size"), Dim::Of("sequence_length"), Dim::Of(int64_t{4})));

  const auto head = ExtractLayers(layered, 4, 5);
  ASSERT_TRUE(head.ok());
  EXPECT_THAT(Names(head->graph.inputs), ElementsAre("hidden_in"));
  EXPECT_THAT(Names(head->graph.outputs), ElementsAre("logits"));

  const auto whole = ExtractLayers(layered, 0, 5);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->graph.outputs.size(), 7u);
}

TEST(ExtractLayers, SideTensorsAreRecomputedFromThePartsOwnInputs) {
  const LayeredModel layered = Layered({.mask_from_shapes = true});
  const auto part = ExtractLayers(layered, 3, 4);
  ASSERT_TRUE(part.ok());
  const GraphIndex index(part->graph);
  // The mask is made here, from the shape of what comes in and of the layer's own cache.
  ASSERT_NE(index.ProducerNode("mask"), nullptr);
  std::set<std::string> shape_inputs;
  for (const Node& node : part->graph.nodes) {
    if (node.Is("Shape")) shape_inputs.insert(node.inputs[0]);
  }
  EXPECT_THAT(shape_inputs, UnorderedElementsAre("hidden_in", "past_key_values.2.key"));
  EXPECT_EQ(part->graph.FindInitializer("table"), nullptr);
}

TEST(ExtractLayers, EveryRangeIsAValidGraph) {
  for (const bool fused : {false, true}) {
    const LayeredModel layered = Layered({.fused_skip_norm = fused, .mask_from_shapes = true});
    for (int first = 0; first < layered.layer_count(); ++first) {
      for (int end = first + 1; end <= layered.layer_count(); ++end) {
        auto part = ExtractLayers(layered, first, end);
        ASSERT_TRUE(part.ok()) << first << " " << end << " " << part.error().ToString();
        EXPECT_TRUE(ValidateAndSort(part->graph).ok());
        EXPECT_EQ(part->graph.FindInput("hidden_in") != nullptr, first > 0);
        EXPECT_EQ(part->graph.FindOutput("hidden_out") != nullptr, end < layered.layer_count());
      }
    }
  }
}

TEST(ExtractLayers, PartsWithoutACacheTakeThePastFromTheMask) {
  Model model = MakeDecoder({});
  Graph& graph = model.graph;
  // Learned positions that start at the cache's length, as old exports without position_ids have
  // them.
  graph.AddInitializer("two", Tensor::FromInt64s({1}, {2}));
  graph.AddInitializer("positions", testing::Zeros({32, 4}));
  graph.AddNode("Shape", {"past_key_values.0.key"}, {"past_shape"});
  graph.AddNode("Gather", {"past_shape", "two"}, {"past_length"});
  graph.AddNode("Gather", {"positions", "past_length"}, {"position"});
  for (Node& node : graph.nodes) {
    for (std::string& input : node.inputs) input = input == "embedded" ? "placed" : input;
  }
  graph.AddNode("Add", {"embedded", "position"}, {"placed"});
  ASSERT_TRUE(ValidateAndSort(graph).ok());
  const auto layered = FindLayers(std::move(model));
  ASSERT_TRUE(layered.ok()) << layered.error().ToString();
  EXPECT_EQ(layered->boundaries[0].value, "placed");
  const auto part = ExtractLayers(*layered, 0, 1);
  ASSERT_TRUE(part.ok()) << part.error().ToString();
  EXPECT_THAT(Names(part->graph.inputs), UnorderedElementsAre("input_ids", "attention_mask"));
}

TEST(ExtractLayers, EmbeddingInputsMakeAnEmptyEmbeddingLayer) {
  Model model = MakeDecoder({});
  Graph& graph = model.graph;
  std::erase_if(graph.nodes, [](const Node& node) { return node.Output(0) == "embedded"; });
  for (Node& node : graph.nodes) {
    for (std::string& input : node.inputs) input = input == "embedded" ? "inputs_embeds" : input;
  }
  graph.inputs[0] = {"inputs_embeds",
                     ElementType::kFloat,
                     std::vector<Dim>{Dim::Of("batch"), Dim::Of("length"), Dim::Of(int64_t{4})},
                     {}};
  const auto layered = FindLayers(std::move(model));
  ASSERT_TRUE(layered.ok()) << layered.error().ToString();
  EXPECT_TRUE(CheckCuts(*layered).ok());
  const auto part = ExtractLayers(*layered, 0, 1);
  ASSERT_TRUE(part.ok());
  EXPECT_THAT(Names(part->graph.inputs), ElementsAre("inputs_embeds"));
}

// --- the test data ---

TEST(ExtractLayers, AllTestModelsAreCutWithOneTensor) {
  const std::filesystem::path data = TestDataFolder() / "onnx";
  WEFT_NEED_DATA(data);
  int models = 0;
  for (const auto& folder : std::filesystem::directory_iterator(data)) {
    if (!folder.is_directory()) continue;
    SCOPED_TRACE(folder.path().filename().string());
    auto model = LoadModel(folder.path() / "model.onnx");
    ASSERT_TRUE(model.ok()) << model.error().ToString();
    size_t states = 0;
    for (const ValueInfo& input : model->graph.inputs) {
      states += input.name.starts_with("past_key_values") ? 1 : 0;
    }
    const auto layered = FindLayers(std::move(model).value());
    ASSERT_TRUE(layered.ok()) << layered.error().ToString();
    EXPECT_EQ(static_cast<size_t>(layered->layer_count()), states / 2 + 2);
    EXPECT_EQ(layered->hidden_size, 64);
    const Status cuts = CheckCuts(*layered);
    EXPECT_TRUE(cuts.ok()) << cuts.error().ToString();
    for (int layer = 0; layer < layered->layer_count(); ++layer) {
      const auto part = ExtractLayers(*layered, layer, layer + 1);
      ASSERT_TRUE(part.ok()) << part.error().ToString();
      for (const ValueInfo& input : part->graph.inputs) {
        const bool known = input.name == "hidden_in" || input.name == "attention_mask" ||
                           input.name == "position_ids" || input.name.starts_with("past_key_") ||
                           (layer == 0 && input.name == "input_ids");
        EXPECT_TRUE(known) << "layer " << layer << " reads " << input.name;
      }
    }
    ++models;
  }
  EXPECT_GE(models, 1);
}

}  // namespace
}  // namespace weft::onnx
