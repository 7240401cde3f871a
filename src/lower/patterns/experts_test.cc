// Experts, gelu, soft caps and products with numbers: what they lower to, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "lower/patterns/lower_layer.h"

namespace weft::lower {
namespace {

using onnx::Attribute;
using onnx::Dim;
using onnx::ElementType;
using onnx::Graph;
using onnx::Node;
using onnx::Tensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kMicrosoft[] = "com.microsoft";
constexpr int64_t kExperts = 3, kHidden = 64, kWidth = 32;

std::vector<std::string_view> OpNames(const Program& program) {
  std::vector<std::string_view> names;
  for (const Op& op : program.ops) names.push_back(OpName(op));
  return names;
}

void AddExternal(Graph* graph, const std::string& name, ElementType type, std::vector<int64_t> dims,
                 uint64_t offset, char blob = 'a') {
  graph->AddInitializer(name, Tensor::At(type, std::move(dims), std::string(64, blob), offset));
}

void AddShape(Graph* graph, const std::string& name, const std::vector<int64_t>& values) {
  graph->AddInitializer(name, Tensor::FromInt64s({static_cast<int64_t>(values.size())}, values));
}

// One initializer [1, dims] an expert, each in a blob of its own, stacked to `name`.
void AddStack(Graph* graph, const std::string& name, ElementType type, std::vector<int64_t> dims,
              uint64_t offset) {
  std::vector<std::string> parts;
  dims.insert(dims.begin(), 1);
  for (int64_t e = 0; e < kExperts; ++e) {
    parts.push_back(name + "." + std::to_string(e));
    AddExternal(graph, parts.back(), type, dims, offset, static_cast<char>('b' + e));
  }
  graph->AddNode("Concat", parts, {name}, {Attribute::Of("axis", 0)}, "", "/" + name);
}

// Gate rows, then up rows -> interleaved; the value is called `name` + "_interleaved".
void AddInterleaved(Graph* graph, const std::string& name, std::vector<int64_t> columns) {
  std::vector<int64_t> split_shape = {kExperts, 2, kWidth}, joined = {kExperts, 2 * kWidth};
  std::vector<int64_t> perm = {0, 2, 1};
  for (const int64_t c : columns) {
    split_shape.push_back(c);
    joined.push_back(c);
    perm.push_back(3);
  }
  AddShape(graph, name + "_split", split_shape);
  AddShape(graph, name + "_joined", joined);
  graph->AddNode("Reshape", {name, name + "_split"}, {name + "_4d"});
  graph->AddNode("Transpose", {name + "_4d"}, {name + "_turned"}, {Attribute::Of("perm", perm)}, "",
                 "/" + name + "_turn");
  graph->AddNode("Reshape", {name + "_turned", name + "_joined"}, {name + "_interleaved"});
}

std::vector<Attribute> MoeAttributes() {
  return {Attribute::Of("k", 2),
          Attribute::Of("activation_type", "swiglu"),
          Attribute::Of("swiglu_fusion", 1),
          Attribute::Of("activation_alpha", 1.0f),
          Attribute::Of("activation_beta", 0.0f),
          Attribute::Of("normalize_routing_weights", 1)};
}

void AddRouter(Graph* graph) {
  AddExternal(graph, "router", ElementType::kFloat, {kExperts, kHidden}, 0);
  graph->AddNode("Transpose", {"router"}, {"router_t"},
                 {Attribute::Of("perm", std::vector<int64_t>{1, 0})});
  graph->AddNode("MatMul", {"hidden_in", "router_t"}, {"logits_3d"}, {}, "", "/router");
  AddShape(graph, "rows", {-1, kExperts});
  graph->AddNode("Reshape", {"logits_3d", "rows"}, {"logits_2d"}, {}, "", "/rows");
}

onnx::Model Begin() {
  onnx::Model model;
  model.graph.AddInput("hidden_in", ElementType::kFloat,
                       {Dim::Of(1), Dim::Of("S"), Dim::Of(kHidden)});
  model.graph.AddOutput("hidden_out", ElementType::kFloat,
                        {Dim::Of(1), Dim::Of("S"), Dim::Of(kHidden)});
  return model;
}

// f16 experts with biases.
onnx::Model Plain() {
  onnx::Model model = Begin();
  Graph& graph = model.graph;
  AddRouter(&graph);
  AddStack(&graph, "gate_up", ElementType::kFloat16, {2 * kWidth, kHidden}, 0);
  AddStack(&graph, "down", ElementType::kFloat16, {kHidden, kWidth}, 8192);
  AddStack(&graph, "gate_up_bias", ElementType::kFloat, {2 * kWidth}, 12288);
  AddStack(&graph, "down_bias", ElementType::kFloat, {kHidden}, 12544);
  AddInterleaved(&graph, "gate_up", {kHidden});
  AddInterleaved(&graph, "gate_up_bias", {});
  graph.AddNode("Cast", {"gate_up_interleaved"}, {"gate_up_f32"}, {Attribute::Of("to", 1)});
  graph.AddNode("Cast", {"down"}, {"down_f32"}, {Attribute::Of("to", 1)});
  graph.AddNode("MoE",
                {"hidden_in", "logits_2d", "gate_up_f32", "gate_up_bias_interleaved", "down_f32",
                 "down_bias"},
                {"experts"}, MoeAttributes(), kMicrosoft, "/moe");
  graph.AddNode("Add", {"hidden_in", "experts"}, {"hidden_out"}, {}, "", "/end");
  return model;
}

onnx::Model Quantised(int64_t bits) {
  onnx::Model model = Begin();
  Graph& graph = model.graph;
  AddRouter(&graph);
  const int64_t pack = 8 / bits;
  AddStack(&graph, "gate_up", ElementType::kUint8, {2 * kWidth, kHidden / pack}, 0);
  AddStack(&graph, "down", ElementType::kUint8, {kHidden, kWidth / pack}, 8192);
  AddStack(&graph, "gate_up_scale", ElementType::kFloat16, {2 * kWidth, kHidden / 32}, 16384);
  AddStack(&graph, "down_scale", ElementType::kFloat16, {kHidden, kWidth / 32}, 20480);
  AddInterleaved(&graph, "gate_up", {kHidden / pack});
  graph.AddNode("Cast", {"gate_up_scale"}, {"gate_up_scale_f32"}, {Attribute::Of("to", 1)});
  graph.nodes.back().outputs = {"scale_f32"};
  AddShape(&graph, "scale_split", {kExperts, 2, kWidth, kHidden / 32});
  AddShape(&graph, "scale_joined", {kExperts, 2 * kWidth, kHidden / 32});
  graph.AddNode("Reshape", {"scale_f32", "scale_split"}, {"scale_4d"});
  graph.AddNode("Transpose", {"scale_4d"}, {"scale_turned"},
                {Attribute::Of("perm", std::vector<int64_t>{0, 2, 1, 3})});
  graph.AddNode("Reshape", {"scale_turned", "scale_joined"}, {"scale_interleaved"});
  graph.AddNode("Cast", {"down_scale"}, {"down_scale_f32"}, {Attribute::Of("to", 1)});
  std::vector<Attribute> attributes = MoeAttributes();
  attributes.push_back(Attribute::Of("expert_weight_bits", bits));
  attributes.push_back(Attribute::Of("block_size", 32));
  graph.AddNode("QMoE",
                {"hidden_in", "logits_2d", "gate_up_interleaved", "scale_interleaved", "", "down",
                 "down_scale_f32"},
                {"experts"}, attributes, kMicrosoft, "/moe");
  graph.AddNode("Add", {"hidden_in", "experts"}, {"hidden_out"}, {}, "", "/end");
  return model;
}

Node& NodeNamed(onnx::Model* model, const std::string& name) {
  for (Node& node : model->graph.nodes) {
    if (node.name == name) return node;
  }
  CHECK(false, "no node " + name);
}

TEST(LoweringExperts, PlainOnesWithBiases) {
  const auto program = LowerLayer(Plain(), 3);
  ASSERT_TRUE(program.ok()) << program.error().ToString();
  EXPECT_THAT(OpNames(*program), ElementsAre("MatMul", "MoeRoute", "MoeExperts", "Add"));
  const auto& route = std::get<MoeRoute>(program->ops[1]);
  EXPECT_EQ(route.experts, 3u);
  EXPECT_EQ(route.top_k, 2u);
  EXPECT_EQ(route.kind, RouteKind::kSoftmaxTopKNormalized);
  const auto& experts = std::get<MoeExperts>(program->ops[2]);
  EXPECT_EQ(experts.kind, Activation::kSilu);
  const Weight& gate_up = program->weights[experts.gate_up];
  EXPECT_EQ(gate_up.dtype, DType::kF16);
  EXPECT_THAT(gate_up.shape, ElementsAre(3u, 64u, 64u));
  // Each expert's part is in its own blob.
  ASSERT_EQ(gate_up.data.size(), 3u);
  EXPECT_EQ(ToHex(gate_up.data[0].digest), std::string(64, 'b'));
  EXPECT_EQ(ToHex(gate_up.data[2].digest), std::string(64, 'd'));
  EXPECT_EQ(gate_up.data[1].byte_count, 64u * 64 * 2);
  const Weight& down = program->weights[experts.down];
  EXPECT_THAT(down.shape, ElementsAre(3u, 64u, 32u));
  EXPECT_EQ(down.data[1].offset, 8192u);
  EXPECT_THAT(program->weights[*experts.gate_up_bias].shape, ElementsAre(3u, 64u));
  EXPECT_THAT(program->weights[*experts.down_bias].shape, ElementsAre(3u, 64u));
}

TEST(LoweringExperts, BlocksOf4And8Bits) {
  for (const int64_t bits : {4, 8}) {
    const auto program = LowerLayer(Quantised(bits), 3);
    ASSERT_TRUE(program.ok()) << program.error().ToString();
    const auto& experts = std::get<MoeExperts>(program->ops[2]);
    const Weight& gate_up = program->weights[experts.gate_up];
    EXPECT_EQ(gate_up.dtype, bits == 4 ? DType::kQ4 : DType::kQ8);
    EXPECT_THAT(gate_up.shape, ElementsAre(3u, 64u, 64u));
    ASSERT_EQ(gate_up.scale.size(), 3u);
    EXPECT_EQ(gate_up.scale[0].byte_count, 64u * 2 * 2);
    EXPECT_FALSE(experts.gate_up_bias.has_value());
  }
}

TEST(LoweringExperts, ActivationOfGptOssAndWeightsThatAreNotNormalised) {
  onnx::Model model = Plain();
  Node& moe = NodeNamed(&model, "/moe");
  moe.Set(Attribute::Of("activation_alpha", 1.702f));
  moe.Set(Attribute::Of("activation_beta", 1.0f));
  moe.Set(Attribute::Of("swiglu_limit", 7.0f));
  moe.Set(Attribute::Of("normalize_routing_weights", 0));
  const auto program = LowerLayer(model, 3);
  ASSERT_TRUE(program.ok()) << program.error().ToString();
  EXPECT_EQ(std::get<MoeRoute>(program->ops[1]).kind, RouteKind::kSoftmaxTopK);
  EXPECT_EQ(std::get<MoeExperts>(program->ops[2]).kind, Activation::kSwigluOai);
}

// What onnxruntime's QMoE divides by is multiplied again.
onnx::Model Scaled(int64_t chosen) {
  onnx::Model model = Quantised(8);
  Graph& graph = model.graph;
  AddShape(&graph, "chosen", {chosen});
  AddShape(&graph, "last_axis", {-1});
  graph.AddNode("Softmax", {"logits_3d"}, {"probabilities"}, {Attribute::Of("axis", -1)});
  graph.AddNode("TopK", {"probabilities", "chosen"}, {"best", "best_ids"});
  graph.AddNode("ReduceSum", {"best", "last_axis"}, {"share"});
  graph.AddNode("Mul", {"experts", "share"}, {"scaled"}, {}, "", "/scaled");
  NodeNamed(&model, "/end").inputs = {"hidden_in", "scaled"};
  return model;
}

TEST(LoweringExperts, WeightsThatAreMultipliedByTheirSumAgain) {
  const auto program = LowerLayer(Scaled(2), 3);
  ASSERT_TRUE(program.ok()) << program.error().ToString();
  EXPECT_THAT(OpNames(*program), ElementsAre("MatMul", "MoeRoute", "MoeExperts", "Add"));
  EXPECT_EQ(std::get<MoeRoute>(program->ops[1]).kind, RouteKind::kSoftmaxTopK);
  // The sum over another number of experts is something else.
  EXPECT_THAT(LowerLayer(Scaled(3), 3).error().message(), HasSubstr("(ReduceSum)"));
}

TEST(LoweringExperts, RefusesOtherForms) {
  using Change = std::function<void(onnx::Model*)>;
  const auto set = [](Attribute attribute) -> Change {
    return [attribute](onnx::Model* m) { NodeNamed(m, "/moe").Set(attribute); };
  };
  const auto shape = [](const std::string& name, std::vector<int64_t> values) -> Change {
    return [=](onnx::Model* m) { AddShape(&m->graph, name, values); };
  };
  const struct {
    bool quantised;
    Change change;
    std::string message;
  } cases[] = {
      {false, set(Attribute::Of("activation_type", "gelu")),
       "'/moe' (com.microsoft.MoE) has an activation"},
      {false, set(Attribute::Of("swiglu_fusion", 2)), "has an activation"},
      {false, set(Attribute::Of("activation_alpha", 1.5f)), "has an activation"},
      {false, set(Attribute::Of("swiglu_limit", 7.0f)), "has an activation"},
      {false, set(Attribute::Of("use_sparse_mixer", 1)), "sparse mixer"},
      {false, set(Attribute::Of("k", 4)), "chooses 4 of 3 experts"},
      {false, set(Attribute::Of("k", 0)), "has 0 columns"},
      {true, set(Attribute::Of("block_size", 64)), "blocks of 32"},
      {true, set(Attribute::Of("expert_weight_bits", 2)), "4 or 8 bits"},
      {false, shape("gate_up_split", {kExperts, kWidth, 2, kHidden}), "interleaved"},
      {false, shape("gate_up_joined", {kExperts, 2 * kWidth * kHidden}), "interleaved"},
      {false, shape("rows", {-1, kExperts + 1}), "logits that are not rows of 3 columns"},
      {false,
       [](onnx::Model* m) {
         NodeNamed(m, "/gate_up_turn").Set(Attribute::Of("perm", std::vector<int64_t>{0, 1, 2, 3}));
       },
       "interleaved"},
      {false, [](onnx::Model* m) { NodeNamed(m, "/down").Set(Attribute::Of("axis", 1)); },
       "does not stack one initializer for each expert"},
      {false,
       [](onnx::Model* m) {
         AddExternal(&m->graph, "down.1", ElementType::kFloat16, {1, kWidth, kHidden}, 0);
       },
       "stacks 'down.1', which is not of the others' shape"},
      {false, [](onnx::Model* m) { NodeNamed(m, "/moe").inputs.push_back("down"); }, "in slot 6"},
  };
  for (const auto& c : cases) {
    onnx::Model model = c.quantised ? Quantised(8) : Plain();
    c.change(&model);
    const auto program = LowerLayer(model, 3);
    ASSERT_FALSE(program.ok()) << c.message;
    EXPECT_THAT(program.error().message(), HasSubstr(c.message));
  }
}

TEST(LoweringScaling, GeluAndProductsWithNumbers) {
  for (const char* form : {"tanh", "none"}) {
    onnx::Model model = Begin();
    Graph& graph = model.graph;
    const float two = 2;
    graph.AddInitializer("two", Tensor::FromFloats({}, {&two, 1}));
    graph.AddNode("Gelu", {"hidden_in"}, {"gelu"}, {Attribute::Of("approximate", form)});
    graph.AddNode("Mul", {"gelu", "hidden_in"}, {"gated"}, {}, "", "/gated");
    graph.AddNode("Mul", {"two", "gated"}, {"doubled"}, {}, "", "/doubled");
    graph.AddNode("Add", {"hidden_in", "doubled"}, {"hidden_out"}, {}, "", "/end");
    const auto program = LowerLayer(model, 1);
    ASSERT_TRUE(program.ok()) << program.error().ToString();
    EXPECT_THAT(OpNames(*program), ElementsAre("GatedActivation", "Scale", "Add"));
    EXPECT_EQ(std::get<GatedActivation>(program->ops[0]).kind,
              std::string_view(form) == "tanh" ? Activation::kGeluTanh : Activation::kGelu);
    EXPECT_EQ(std::get<Scale>(program->ops[1]).factor, 2);
  }
}

TEST(LoweringScaling, SoftcapsAndScaledEmbeddings) {
  onnx::Model head = Begin();
  Graph& graph = head.graph;
  graph.outputs.clear();
  graph.AddOutput("logits", ElementType::kFloat, {Dim::Of(1), Dim::Of("S"), Dim::Of(kHidden)});
  const float cap = 30, other = 20;
  graph.AddInitializer("cap", Tensor::FromFloats({}, {&cap, 1}));
  graph.AddInitializer("other", Tensor::FromFloats({}, {&other, 1}));
  graph.AddNode("Div", {"hidden_in", "cap"}, {"ratio"});
  graph.AddNode("Tanh", {"ratio"}, {"tanh"}, {}, "", "/tanh");
  graph.AddNode("Mul", {"tanh", "cap"}, {"logits"}, {}, "", "/softcap");
  const auto capped = LowerLayer(head, 9);
  ASSERT_TRUE(capped.ok()) << capped.error().ToString();
  ASSERT_EQ(capped->ops.size(), 1u);
  EXPECT_EQ(std::get<Softcap>(capped->ops[0]).cap, 30);
  NodeNamed(&head, "/softcap").inputs = {"tanh", "other"};
  EXPECT_THAT(LowerLayer(head, 9).error().message(), HasSubstr("'/tanh' (Tanh)"));

  onnx::Model embedding;
  Graph& first = embedding.graph;
  first.AddInput("input_ids", ElementType::kInt64, {Dim::Of(1), Dim::Of("S")});
  AddExternal(&first, "table", ElementType::kFloat16, {100, kHidden}, 0);
  first.AddInitializer("scale", Tensor::FromFloats({}, {&cap, 1}));
  first.AddNode("Gather", {"table", "input_ids"}, {"rows"});
  first.AddNode("Cast", {"rows"}, {"rows_f32"}, {Attribute::Of("to", 1)});
  first.AddNode("Mul", {"rows_f32", "scale"}, {"hidden_out"});
  first.AddOutput("hidden_out", ElementType::kFloat, {Dim::Of(1), Dim::Of("S"), Dim::Of(kHidden)});
  const auto embedded = LowerLayer(embedding, 0);
  ASSERT_TRUE(embedded.ok()) << embedded.error().ToString();
  ASSERT_EQ(embedded->ops.size(), 1u);
  EXPECT_EQ(std::get<Embed>(embedded->ops[0]).scale, 30);
}

}  // namespace
}  // namespace weft::lower
