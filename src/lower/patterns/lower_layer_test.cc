// Lowering: what a graph of one layer becomes, and that every form it does not know is refused by
// the node's name.
#include "lower/patterns/lower_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/random.h"
#include "program/codec.h"
#include "program/op_views.h"
#include "program/reuse_buffers.h"

namespace weft::lower {
namespace {

using onnx::Attribute;
using onnx::Dim;
using onnx::ElementType;
using onnx::Graph;
using onnx::Tensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kMicrosoft[] = "com.microsoft";

std::vector<std::string_view> OpNames(const Program& program) {
  std::vector<std::string_view> names;
  for (const Op& op : program.ops) names.push_back(OpName(op));
  return names;
}

void AddWeight(Graph* graph, const std::string& name, ElementType type, std::vector<int64_t> dims) {
  graph->AddInitializer(name, Tensor::At(type, std::move(dims), std::string(64, 'a'), 128));
}

// y = x W^T with W [rows, columns] in f16.
void AddLinear(Graph* graph, const std::string& name, const std::string& x, const std::string& y,
               int64_t rows, int64_t columns) {
  AddWeight(graph, name, ElementType::kFloat16, {rows, columns});
  graph->AddNode("Cast", {name}, {name + "_f32"}, {Attribute::Of("to", 1)});
  graph->AddNode("Transpose", {name + "_f32"}, {name + "_t"},
                 {Attribute::Of("perm", std::vector<int64_t>{1, 0})});
  graph->AddNode("MatMul", {x, name + "_t"}, {y}, {}, "", "/" + name);
}

void AddSides(Graph* graph) {
  graph->AddInput("attention_mask", ElementType::kInt64, {Dim::Of(1), Dim::Of("T")});
  graph->AddInput("position_ids", ElementType::kInt64, {Dim::Of(1), Dim::Of("S")});
  graph->AddInitializer("one", Tensor::FromInt64s({1}, {1}));
  graph->AddInitializer("index", Tensor::FromInt64s({}, {1}));
  graph->AddInitializer("column", Tensor::FromInt64s({2}, {-1, 1}));
  graph->AddInitializer("zero", Tensor::FromInt64s({1}, {0}));
  AddWeight(graph, "inv_freq", ElementType::kFloat, {8});
  graph->AddNode("ReduceSum", {"attention_mask", "one"}, {"sum"}, {Attribute::Of("keepdims", 0)});
  graph->AddNode("Sub", {"sum", "one"}, {"last64"});
  graph->AddNode("Cast", {"last64"}, {"last"}, {Attribute::Of("to", 6)});
  graph->AddNode("Shape", {"attention_mask"}, {"shape"});
  graph->AddNode("Gather", {"shape", "index"}, {"total64"}, {Attribute::Of("axis", 0)});
  graph->AddNode("Cast", {"total64"}, {"total"}, {Attribute::Of("to", 6)});
  graph->AddNode("Cast", {"position_ids"}, {"positions"}, {Attribute::Of("to", 1)});
  graph->AddNode("Reshape", {"positions", "column"}, {"rows"});
  graph->AddNode("Mul", {"rows", "inv_freq"}, {"angles"});
  graph->AddNode("Cos", {"angles"}, {"cos"});
  graph->AddNode("Sin", {"angles"}, {"sin"});
}

// Norm, attention with 4 heads of 16 and 2 kv heads, q norm, residual, gated mlp, residual.
onnx::Model Layer() {
  onnx::Model model;
  Graph& graph = model.graph;
  graph.AddInput("hidden_in", ElementType::kFloat, {Dim::Of(1), Dim::Of("S"), Dim::Of(64)});
  AddSides(&graph);
  AddWeight(&graph, "norm", ElementType::kFloat, {64});
  graph.AddNode("SimplifiedLayerNormalization", {"hidden_in", "norm"}, {"normed"},
                {Attribute::Of("axis", -1), Attribute::Of("epsilon", 1e-5f)}, "", "/norm");
  AddLinear(&graph, "q", "normed", "q_raw", 64, 64);
  AddLinear(&graph, "k", "normed", "k_raw", 32, 64);
  AddLinear(&graph, "v", "normed", "v_raw", 32, 64);
  AddWeight(&graph, "v_bias", ElementType::kFloat, {32});
  graph.AddNode("Add", {"v_raw", "v_bias"}, {"v_out"}, {}, "", "/v_bias");
  AddWeight(&graph, "q_norm", ElementType::kFloat, {16});
  graph.AddInitializer("to_heads", Tensor::FromInt64s({3}, {0, -1, 16}));
  graph.AddInitializer("to_rows", Tensor::FromInt64s({3}, {0, -1, 64}));
  graph.AddNode("Reshape", {"q_raw", "to_heads"}, {"q_heads"}, {}, "", "/q_heads");
  graph.AddNode("SimplifiedLayerNormalization", {"q_heads", "q_norm"}, {"q_normed"},
                {Attribute::Of("epsilon", 1e-6f)}, "", "/q_norm");
  graph.AddNode("Reshape", {"q_normed", "to_rows"}, {"q_rows"}, {}, "", "/q_rows");
  graph.AddNode("RotaryEmbedding", {"q_rows", "zero", "cos", "sin"}, {"q_turned"}, {}, kMicrosoft,
                "/q_rotary");
  graph.AddNode("RotaryEmbedding", {"k_raw", "zero", "cos", "sin"}, {"k_turned"}, {}, kMicrosoft,
                "/k_rotary");
  for (const char* name : {"past_key_values.0.key", "past_key_values.0.value"}) {
    graph.AddInput(name, ElementType::kFloat, {Dim::Of(1), Dim::Of(2), Dim::Of("P"), Dim::Of(16)});
  }
  graph.AddNode("GroupQueryAttention",
                {"q_turned", "k_turned", "v_out", "past_key_values.0.key",
                 "past_key_values.0.value", "last", "total"},
                {"attended", "present.0.key", "present.0.value"},
                {Attribute::Of("num_heads", 4), Attribute::Of("kv_num_heads", 2),
                 Attribute::Of("local_window_size", 7)},
                kMicrosoft, "/attention");
  AddLinear(&graph, "o", "attended", "o_out", 64, 64);
  graph.AddNode("Add", {"hidden_in", "o_out"}, {"middle"}, {}, "", "/residual");
  AddLinear(&graph, "gate", "middle", "gate_out", 96, 64);
  AddLinear(&graph, "up", "middle", "up_out", 96, 64);
  graph.AddNode("Sigmoid", {"gate_out"}, {"sigmoid"});
  graph.AddNode("Mul", {"sigmoid", "gate_out"}, {"silu"}, {}, "", "/silu");
  graph.AddNode("Mul", {"up_out", "silu"}, {"product"}, {}, "", "/gated");
  AddLinear(&graph, "down", "product", "down_out", 64, 96);
  graph.AddNode("Add", {"down_out", "middle"}, {"hidden_out"}, {}, "", "/end");
  graph.AddOutput("hidden_out", ElementType::kFloat, {Dim::Of(1), Dim::Of("S"), Dim::Of(64)});
  for (const char* name : {"present.0.key", "present.0.value"}) {
    graph.AddOutput(name, ElementType::kFloat, {Dim::Of(1), Dim::Of(2), Dim::Of("T"), Dim::Of(16)});
  }
  return model;
}

onnx::Node& NodeNamed(onnx::Model* model, const std::string& name) {
  for (onnx::Node& node : model->graph.nodes) {
    if (node.name == name) return node;
  }
  CHECK(false, "no node " + name);
}

TEST(Lowering, RecognisesALayer) {
  const auto program = LowerLayer(Layer(), 5);
  ASSERT_TRUE(program.ok()) << program.error().ToString();
  EXPECT_EQ(program->layer_index, 5u);
  EXPECT_THAT(
      OpNames(*program),
      ElementsAre("RmsNorm", "MatMul", "QkNormRope", "MatMul", "QkNormRope", "MatMul", "Attention",
                  "MatMul", "Add", "MatMul", "MatMul", "GatedActivation", "MatMul", "Add"));
  const auto& q = std::get<QkNormRope>(program->ops[2]);
  EXPECT_EQ(q.heads, 4u);
  EXPECT_EQ(program->weights[*q.norm_weight].name, "q_norm");
  EXPECT_FLOAT_EQ(q.epsilon, 1e-6f);
  EXPECT_EQ(program->weights[q.rope->inv_freq].name, "inv_freq");
  const auto& k = std::get<QkNormRope>(program->ops[4]);
  EXPECT_EQ(k.heads, 2u);
  EXPECT_FALSE(k.norm_weight.has_value());
  const auto& v = std::get<MatMul>(program->ops[5]);
  EXPECT_EQ(program->weights[*v.bias].name, "v_bias");
  const Attention& attention = *FindAttention(*program);
  EXPECT_EQ(attention.window, 7u);
  EXPECT_FLOAT_EQ(attention.scale, 0.25f);  // 1 / sqrt(16), as the operator's default says
  const auto& gated = std::get<GatedActivation>(program->ops[11]);
  EXPECT_EQ(gated.kind, Activation::kSilu);
  const Weight& weight = program->weights[std::get<MatMul>(program->ops[1]).weight.weight];
  EXPECT_EQ(weight.dtype, DType::kF16);
  EXPECT_EQ(weight.shape, (std::vector<uint64_t>{64, 64}));
  EXPECT_EQ(weight.data[0].offset, 128u);
  EXPECT_EQ(ToHex(weight.data[0].digest), std::string(64, 'a'));
}

TEST(Lowering, LooksAtTheGraphNotAtNames) {
  onnx::Model model = Layer();
  for (onnx::Node& node : model.graph.nodes) node.name.clear();
  EXPECT_TRUE(LowerLayer(model, 1).ok());
}

TEST(Lowering, RecognisesBlockFormats) {
  onnx::Model model = Layer();
  onnx::Node& node = NodeNamed(&model, "/up");
  AddWeight(&model.graph, "up_q4", ElementType::kUint8, {96, 2, 16});
  AddWeight(&model.graph, "up_scale", ElementType::kFloat16, {96, 2});
  model.graph.AddNode("Cast", {"up_scale"}, {"up_scale_f32"}, {Attribute::Of("to", 1)});
  node = {.op_type = "MatMulNBits",
          .domain = kMicrosoft,
          .name = "/up",
          .inputs = {"middle", "up_q4", "up_scale_f32"},
          .outputs = {"up_out"},
          .attributes = {Attribute::Of("N", 96), Attribute::Of("K", 64), Attribute::Of("bits", 4),
                         Attribute::Of("block_size", 32)}};
  const auto program = LowerLayer(model, 1);
  ASSERT_TRUE(program.ok()) << program.error().ToString();
  const auto& up = std::get<MatMul>(program->ops[10]);
  EXPECT_EQ(program->weights[up.weight.weight].dtype, DType::kQ4);
  EXPECT_EQ(program->weights[up.weight.weight].scale[0].byte_count, 96u * 2 * 2);
  EXPECT_TRUE(program->weights[up.weight.weight].zero.empty());

  AddWeight(&model.graph, "up_zero", ElementType::kUint8, {96, 1});
  NodeNamed(&model, "/up").inputs.push_back("up_zero");
  EXPECT_EQ(LowerLayer(model, 1)->weights[up.weight.weight].zero[0].byte_count, 96u);
  NodeNamed(&model, "/up").Set(Attribute::Of("block_size", 64));
  EXPECT_THAT(LowerLayer(model, 1).error().message(), HasSubstr("in blocks of 64"));
}

TEST(Lowering, RecognisesAnEmbedding) {
  onnx::Model model;
  Graph& graph = model.graph;
  graph.AddInput("input_ids", ElementType::kInt64, {Dim::Of(1), Dim::Of("S")});
  AddWeight(&graph, "table", ElementType::kBFloat16, {500, 64});
  graph.AddNode("Gather", {"table", "input_ids"}, {"rows"}, {Attribute::Of("axis", 0)}, "",
                "/gather");
  graph.AddNode("Cast", {"rows"}, {"hidden_out"}, {Attribute::Of("to", 1)});
  graph.AddOutput("hidden_out", ElementType::kFloat, {Dim::Of(1), Dim::Of("S"), Dim::Of(64)});
  const auto program = LowerLayer(model, 0);
  ASSERT_TRUE(program.ok()) << program.error().ToString();
  EXPECT_THAT(OpNames(*program), ElementsAre("Embed"));
  EXPECT_EQ(program->weights[0].dtype, DType::kBF16);
  EXPECT_FALSE(program->input.has_value());
  graph.nodes[0].Set(Attribute::Of("axis", 1));
  EXPECT_THAT(LowerLayer(model, 0).error().message(), HasSubstr("'/gather' (Gather)"));
}

// Records of a row of 512 columns tell the form.
TEST(Lowering, RecognisesLookupsInSuperblocks) {
  for (const DType dtype : {DType::kQ4K, DType::kQ5K, DType::kQ6K}) {
    onnx::Model model;
    Graph& graph = model.graph;
    const int64_t record_bytes = 2 * ScaleWords(dtype, 512);
    graph.AddInput("input_ids", ElementType::kInt64, {Dim::Of(1), Dim::Of("S")});
    AddWeight(&graph, "table", ElementType::kUint8, {500, 256});
    AddWeight(&graph, "records", ElementType::kUint8, {500, record_bytes});
    graph.AddNode("GatherBlockQuantized", {"table", "input_ids", "records"}, {"hidden_out"},
                  {Attribute::Of("bits", 4), Attribute::Of("block_size", 32),
                   Attribute::Of("gather_axis", 0), Attribute::Of("quantize_axis", 1)},
                  kMicrosoft, "/gather");
    graph.AddOutput("hidden_out", ElementType::kFloat, {Dim::Of(1), Dim::Of("S"), Dim::Of(512)});
    const auto program = LowerLayer(model, 0);
    ASSERT_TRUE(program.ok()) << program.error().ToString();
    EXPECT_THAT(OpNames(*program), ElementsAre("Embed"));
    EXPECT_EQ(program->weights[0].dtype, dtype);
    EXPECT_THAT(program->weights[0].shape, ElementsAre(500, 512));
    EXPECT_EQ(program->weights[0].scale[0].byte_count, static_cast<uint64_t>(500 * record_bytes));
    graph.initializers.at("records").dims[1] -= 2;
    EXPECT_THAT(LowerLayer(model, 0).error().message(),
                HasSubstr("has scales or records that do not fit its table"));
  }
}

struct Refusal {
  const char* message;
  std::function<void(onnx::Model*)> change;
};

void ExpectRefusals(const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    onnx::Model model = Layer();
    refusal.change(&model);
    const auto program = LowerLayer(model, 3);
    ASSERT_FALSE(program.ok()) << refusal.message;
    EXPECT_EQ(program.error().code(), ErrorCode::kUnsupported);
    EXPECT_THAT(program.error().ToString(), HasSubstr(refusal.message));
    EXPECT_THAT(program.error().ToString(), HasSubstr("While lowering layer 3"));
  }
}

TEST(Lowering, RefusesAttentionByName) {
  ExpectRefusals({
      {"'/residual' (Einsum) is an operator that no operation",
       [](onnx::Model* m) { NodeNamed(m, "/residual").op_type = "Einsum"; }},
      {"'/residual' (com.example.Add)",
       [](onnx::Model* m) { NodeNamed(m, "/residual").domain = "com.example"; }},
      {"'/attention' (com.microsoft.GroupQueryAttention) rotates q and k itself",
       [](onnx::Model* m) { NodeNamed(m, "/attention").Set(Attribute::Of("do_rotary", 1)); }},
      {"has a smooth softmax",
       [](onnx::Model* m) { NodeNamed(m, "/attention").Set(Attribute::Of("smooth_softmax", 1)); }},
      {"takes q, k and v packed",
       [](onnx::Model* m) { NodeNamed(m, "/attention").inputs[1] = ""; }},
      {"takes lengths that are not those of attention_mask",
       [](onnx::Model* m) { NodeNamed(m, "/attention").inputs[5] = "total"; }},
      {"takes lengths that are not those of attention_mask",
       [](onnx::Model* m) { NodeNamed(m, "/attention").inputs[6] = "last"; }},
      {"reads a cache that is not an input",
       [](onnx::Model* m) { NodeNamed(m, "/attention").inputs[3] = "v_out"; }},
      {"writes a cache that is not just an output",
       [](onnx::Model* m) { m->graph.outputs.pop_back(); }},
      {"has an input in slot 10",
       [](onnx::Model* m) {
         NodeNamed(m, "/attention").inputs.resize(11);
         NodeNamed(m, "/attention").inputs[10] = "v_bias";
       }},
      {"has 3 heads over 64 columns",
       [](onnx::Model* m) { NodeNamed(m, "/attention").Set(Attribute::Of("num_heads", 3)); }},
      {"'/q_rotary' (com.microsoft.RotaryEmbedding) rotates by tables",
       [](onnx::Model* m) { NodeNamed(m, "/q_rotary").inputs[3] = "cos"; }},
      {"'/k_rotary' (com.microsoft.RotaryEmbedding) rotates by tables",
       [](onnx::Model* m) { NodeNamed(m, "/k_rotary").inputs[1] = "one"; }},
      {"rotates heads of 16 columns in rows of 40",
       [](onnx::Model* m) {
         AddWeight(&m->graph, "k", ElementType::kFloat16, {40, 64});
       }},
  });
}

TEST(Lowering, RefusesOtherFormsByName) {
  ExpectRefusals({
      {"(Transpose) has a permutation",
       [](onnx::Model* m) {
         for (onnx::Node& node : m->graph.nodes) {
           if (node.op_type == "Transpose") {
             node.Set(Attribute::Of("perm", std::vector<int64_t>{0, 1}));
           }
         }
       }},
      {"'/down' (MatMul) multiplies with 'down', which is not the transpose",
       [](onnx::Model* m) { NodeNamed(m, "/down").inputs[1] = "down"; }},
      {"'/down' (MatMul) multiplies 64 columns with a weight of 96",
       [](onnx::Model* m) { NodeNamed(m, "/down").inputs[0] = "middle"; }},
      {"does not normalise whole rows",
       [](onnx::Model* m) { AddWeight(&m->graph, "norm", ElementType::kFloat, {32}); }},
      {"'/norm' (SimplifiedLayerNormalization) has 'hidden_in' where a constant",
       [](onnx::Model* m) { NodeNamed(m, "/norm").inputs[1] = "hidden_in"; }},
      {"'/gated' (Mul) multiplies 96 and 64 columns",
       [](onnx::Model* m) { NodeNamed(m, "/gated").inputs[1] = "hidden_in"; }},
      {"'/q_rows' (Reshape) does not end a norm over heads",
       [](onnx::Model* m) {
         m->graph.AddInitializer("to_heads", Tensor::FromInt64s({3}, {0, 16, -1}));
       }},
      {"which does not lie in a blob",
       [](onnx::Model* m) { m->graph.initializers.find("norm")->second.location = "../weights"; }},
      {"'/v_bias' (Add) adds a constant to what is not a product",
       [](onnx::Model* m) { NodeNamed(m, "/v_bias").inputs[0] = "hidden_in"; }},
      {"gives out 'extra'",
       [](onnx::Model* m) {
         m->graph.AddNode("Identity", {"middle"}, {"extra"});
         m->graph.AddOutput("extra", ElementType::kFloat, {});
       }},
      {"columns of 'hidden_in' are not declared",
       [](onnx::Model* m) { m->graph.inputs[0].shape.reset(); }},
      {"'hidden_in' has 300000 columns, expected 1 to 262144",
       [](onnx::Model* m) { m->graph.inputs[0].shape->back().value = 300'000; }},
      {"neither an output 'hidden_out' nor 'logits'",
       [](onnx::Model* m) { m->graph.outputs[0].name = "something"; }},
      {"is an input or a constant of the layer",
       [](onnx::Model* m) { NodeNamed(m, "/residual").inputs[0] = "attention_mask"; }},
  });
}

TEST(Lowering, RefusesChainsThatWouldExhaustTheStack) {
  onnx::Model model = Layer();
  std::string value = "hidden_in";
  for (int i = 0; i < 100000; ++i) {
    const std::string next = "chain" + std::to_string(i);
    model.graph.AddNode("Add", {value, value}, {next});
    value = next;
  }
  NodeNamed(&model, "/residual").inputs[0] = value;
  EXPECT_THAT(LowerLayer(model, 1).error().message(), HasSubstr("a chain of more than"));
}

// The value of every view as a text of what computed it: equal before and after buffers are shared.
std::string Trace(const Program& program) {
  std::vector<std::string> held(program.buffers.size());
  if (program.input) held[*program.input] = "x";
  std::vector<uint64_t> seen;
  for (const Op& op : program.ops) {
    std::string text(OpName(op));
    VisitViews(op, [&](const View& view, bool is_output) {
      if (is_output) {
        held[view.buffer] = std::to_string(std::hash<std::string>()(text));
      } else {
        text += "(" + held[view.buffer] + ")";
      }
    });
  }
  return held[program.output];
}

TEST(ReuseBuffers, ComputesTheSame) {
  SeededRandom random(9);
  size_t before = 0, after = 0;
  for (int round = 0; round < 500; ++round) {
    Program program;
    program.weights.push_back({"w", DType::kF32, {8, 8}, {{{}, 0, 256}}, {}, {}});
    const auto add_buffer = [&] {
      program.buffers.push_back({"b", 8});
      return View{static_cast<BufferId>(program.buffers.size() - 1), 0, 8};
    };
    std::vector<View> values = {add_buffer()};
    program.input = 0;
    for (int i = 0; i < 12; ++i) {
      // Mostly recent values, so that older ones die.
      const auto pick = [&] {
        return values[values.size() - 1 - random.Below(std::min<size_t>(values.size(), 4))];
      };
      const View a = pick(), b = pick(), out = add_buffer();
      if (random.Below(2) == 0) {
        program.ops.push_back(Add{a, b, out});
      } else {
        program.ops.push_back(MatMul{a, out, {0, 0, 8}, {}});
      }
      values.push_back(out);
    }
    program.output = values.back().buffer;
    const std::string expected = Trace(program);
    before += program.buffers.size();
    ReuseBuffers(&program);
    after += program.buffers.size();
    EXPECT_EQ(Trace(program), expected);
    EXPECT_TRUE(Validate(program).ok()) << Validate(program).error().ToString();
    EXPECT_NE(program.output, *program.input);
  }
  EXPECT_LT(after, before / 2);
}

}  // namespace
}  // namespace weft::lower
