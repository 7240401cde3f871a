// Tracing hand-built layers: what is recognised, and that what only looks like it is refused. What
// the programs of real exports compute is compared in apps/onnx_import_test.cc.
#include "lower/trace/trace_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lower/trace/functions.h"
#include "onnx/extract.h"

namespace weft::lower {
namespace {

using onnx::Attribute;
using onnx::Dim;
using onnx::ElementType;
using onnx::Tensor;
using ::testing::HasSubstr;

constexpr int64_t kHidden = 8, kHeads = 2, kColumns = 4;

// A layer of attention as an exporter spells it out, with its oddities to choose.
struct Form {
  int64_t window = 0;           // of the mask; 0: causal
  bool sees_future = false;     // the mask lets every position through
  bool halved_after_8 = false;  // beyond position 8 angles grow half as fast
  bool swapped_heads = false;   // values of head 0 go to head 1 and back
  bool old_values = false;      // the step's own values are left out of the cache
};

class LayerBuilder {
 public:
  explicit LayerBuilder(Form form) : form_(form) {}

  onnx::Model Build() {
    g_.AddInput(onnx::kHiddenIn, ElementType::kFloat, {Dim::Of(1), Dim::Of("s"), Dim::Of(kHidden)});
    g_.AddInput("position_ids", ElementType::kInt64, {Dim::Of(1), Dim::Of("s")});
    for (const char* name : {"past.key", "past.value"}) {
      g_.AddInput(name, ElementType::kFloat,
                  {Dim::Of(1), Dim::Of(kHeads), Dim::Of("p"), Dim::Of(kColumns)});
    }
    Rotary();
    CausalMask();
    const std::string q = Rotated("q"), k = Rotated("k"), v = Heads("v");
    Op("Concat", {"past.key", k}, "present.key", {Attribute::Of("axis", 2)});
    Op("Concat", {"past.value", form_.old_values ? "past.value" : v}, "present.value",
       {Attribute::Of("axis", 2)});
    Op("Transpose", {"present.key"}, "kt", {Perm({0, 1, 3, 2})});
    Op("MatMul", {q, "kt"}, "scores");
    Op("Mul", {"scores", Float("half", 0.5f)}, "scaled");
    Op("Add", {"scaled", "mask"}, "masked");
    Op("Softmax", {"masked"}, "probabilities", {Attribute::Of("axis", -1)});
    Op("Gather",
       {"present.value", Ints("order", form_.swapped_heads ? std::vector<int64_t>{1, 0}
                                                           : std::vector<int64_t>{0, 1})},
       "values", {Attribute::Of("axis", 1)});
    Op("MatMul", {"probabilities", "values"}, "attended");
    Op("Transpose", {"attended"}, "joined", {Perm({0, 2, 1, 3})});
    Op("Reshape", {"joined", Ints("rows", {0, 0, -1})}, "flat");
    Op("MatMul", {"flat", Matrix("o")}, "projected");
    Op("Add", {onnx::kHiddenIn, "projected"}, onnx::kHiddenOut);
    for (const char* name : {onnx::kHiddenOut, "present.key", "present.value"}) {
      g_.AddOutput(name, ElementType::kFloat, {});
    }
    onnx::Model model;
    model.graph = std::move(g_);
    return model;
  }

 private:
  static Attribute Perm(std::vector<int64_t> perm) {
    return Attribute::Of("perm", std::move(perm));
  }
  void Op(const std::string& op, std::vector<std::string> in, const std::string& out,
          std::vector<Attribute> attributes = {}) {
    g_.AddNode(op, std::move(in), {out}, std::move(attributes), "", "/layer/" + out);
  }
  std::string Float(const std::string& name, float value) {
    g_.AddInitializer(name, Tensor::FromFloats({}, std::span<const float>(&value, 1)));
    return name;
  }
  std::string Int(const std::string& name, int64_t value) {
    g_.AddInitializer(name, Tensor::FromInt64s({}, {value}));
    return name;
  }
  std::string Ints(const std::string& name, std::vector<int64_t> values) {
    const auto count = static_cast<int64_t>(values.size());
    g_.AddInitializer(name, Tensor::FromInt64s({count}, values));
    return name;
  }
  std::string Matrix(const std::string& name) {
    g_.AddInitializer(name + ".weight",
                      Tensor::FromFloats({kHidden, kHidden}, std::vector<float>(64, 0.5f)));
    return name + ".weight";
  }
  std::string Heads(const std::string& name) {
    Op("MatMul", {onnx::kHiddenIn, Matrix(name)}, name);
    Op("Reshape", {name, Ints("heads", {0, 0, kHeads, kColumns})}, name + ".split");
    Op("Transpose", {name + ".split"}, name + ".heads", {Perm({0, 2, 1, 3})});
    return name + ".heads";
  }
  // x * cos + concat(-x[half:], x[:half]) * sin
  std::string Rotated(const std::string& name) {
    const std::string x = Heads(name);
    g_.AddNode("Split", {x, Ints("halves", {2, 2})}, {name + ".low", name + ".high"},
               {Attribute::Of("axis", -1)}, "", "/layer/" + name + "/Split");
    Op("Neg", {name + ".high"}, name + ".negative");
    Op("Concat", {name + ".negative", name + ".low"}, name + ".turned",
       {Attribute::Of("axis", -1)});
    Op("Mul", {x, "cos"}, name + ".cos");
    Op("Mul", {name + ".turned", "sin"}, name + ".sin");
    Op("Add", {name + ".cos", name + ".sin"}, name + ".rotated");
    return name + ".rotated";
  }
  void Rotary() {
    const std::vector<float> frequencies = {1.0f, 0.01f, 1.0f, 0.01f};
    g_.AddInitializer("inv_freq", Tensor::FromFloats({4}, frequencies));
    Op("Unsqueeze", {"position_ids", Ints("axis_2", {2})}, "positions.column");
    Op("Cast", {"positions.column"}, "positions.float", {Attribute::Of("to", 1)});
    std::string positions = "positions.float";
    if (form_.halved_after_8) {
      Op("Mul", {positions, "half"}, "positions.half");
      Op("Greater", {positions, Float("eight", 8)}, "positions.far");
      Op("Where", {"positions.far", "positions.half", positions}, "positions.scaled");
      positions = "positions.scaled";
      Float("half", 0.5f);
    }
    Op("Mul", {positions, "inv_freq"}, "angles");
    Op("Cos", {"angles"}, "cos");
    Op("Sin", {"angles"}, "sin");
  }
  void CausalMask() {
    Op("Shape", {"past.key"}, "past.shape");
    Op("Gather", {"past.shape", Int("two", 2)}, "past.length", {Attribute::Of("axis", 0)});
    Op("Shape", {onnx::kHiddenIn}, "hidden.shape");
    Op("Gather", {"hidden.shape", Int("one", 1)}, "new.length", {Attribute::Of("axis", 0)});
    Op("Add", {"past.length", "new.length"}, "total.length");
    Op("Range", {"past.length", "total.length", "one"}, "query");
    Op("Range", {Int("zero", 0), "total.length", "one"}, "key");
    Op("Unsqueeze", {"query", Ints("axis_1", {1})}, "query.column");
    Op("LessOrEqual", {"key", "query.column"}, "visible");
    std::string visible = "visible";
    if (form_.window > 0) {
      Op("Sub", {"query.column", Int("window", form_.window)}, "window.start");
      Op("Greater", {"key", "window.start"}, "near");
      Op("And", {"visible", "near"}, "visible.near");
      visible = "visible.near";
    }
    if (form_.sees_future) {
      Op("GreaterOrEqual", {"key", "zero"}, "everything");
      visible = "everything";
    }
    Op("Where", {visible, "zero.float", Float("never", -INFINITY)}, "mask");
    Float("zero.float", 0);
  }

  const Form form_;
  onnx::Graph g_;
};

Result<TracedLayer> Trace(Form form) {
  return TraceLayer(LayerBuilder(form).Build(), 1, 4096);
}

const Attention& AttentionOf(const TracedLayer& layer) {
  return *FindAttention(layer.program);
}

std::string Refusal(Form form) {
  const auto layer = Trace(form);
  return layer.ok() ? "it was lowered" : layer.error().ToString();
}

TEST(TraceLayer, SpeltOutAttentionBecomesOneOperation) {
  const auto layer = Trace({});
  ASSERT_TRUE(layer.ok()) << layer.error().ToString();
  const Attention& attention = AttentionOf(*layer);
  EXPECT_EQ(attention.heads, 2u);
  EXPECT_EQ(attention.kv_heads, 2u);
  EXPECT_EQ(attention.window, 0u);
  EXPECT_FLOAT_EQ(attention.scale, 0.5f);
  int rotations = 0;
  for (const Op& op : layer->program.ops) {
    const auto* turn = std::get_if<QkNormRope>(&op);
    if (turn == nullptr) continue;
    ++rotations;
    EXPECT_EQ(layer->recipes[turn->rope->inv_freq].values, (std::vector<float>{1.0f, 0.01f}));
    EXPECT_FALSE(turn->rope->interleaved);
  }
  EXPECT_EQ(rotations, 2);
}

TEST(TraceLayer, AWindowIsFoundInTheMaskHoweverLong) {
  for (const int64_t window : {3, 16, 1000}) {
    const auto layer = Trace({.window = window});
    ASSERT_TRUE(layer.ok()) << layer.error().ToString();
    EXPECT_EQ(AttentionOf(*layer).window, window);
  }
}

TEST(TraceLayer, WhatOnlyLooksAlikeIsRefusedWithTheNodesName) {
  EXPECT_THAT(Refusal({.sees_future = true}),
              AllOf(HasSubstr("/layer/attended"), HasSubstr("neither causal nor a sliding")));
  EXPECT_THAT(Refusal({.halved_after_8 = true}),
              AllOf(HasSubstr("/layer/"), HasSubstr("angles other than position")));
  EXPECT_THAT(Refusal({.swapped_heads = true}),
              AllOf(HasSubstr("/layer/attended"), HasSubstr("not a cache and the step's own")));
  EXPECT_THAT(Refusal({.old_values = true}), HasSubstr("/layer/"));
}

TEST(TraceLayer, UnknownOperatorsAndInputsAreNamed) {
  onnx::Model model = LayerBuilder({}).Build();
  model.graph.nodes.back().op_type = "Einsum";
  EXPECT_THAT(TraceLayer(model, 1, 64).error().ToString(),
              HasSubstr("'/layer/hidden_out' (Einsum)"));
  model = LayerBuilder({}).Build();
  model.graph.outputs.clear();
  EXPECT_THAT(TraceLayer(model, 1, 64).error().ToString(), HasSubstr("neither an output"));
  model = LayerBuilder({}).Build();
  model.graph.AddInput("speaker", ElementType::kFloat, {Dim::Of(1)});
  EXPECT_THAT(TraceLayer(model, 1, 64).error().ToString(), HasSubstr("'speaker'"));
}

// --- functions by their samples

std::vector<double> Sampled(double (*function)(double)) {
  std::vector<double> samples;
  for (const double x : trace::SampleInputs(trace::Kind::kForms)) samples.push_back(function(x));
  return samples;
}

TEST(Functions, ActivationsAreToldApart) {
  EXPECT_EQ(trace::AsActivation(Sampled([](double x) { return x / (1 + std::exp(-x)); })),
            Activation::kSilu);
  EXPECT_EQ(trace::AsActivation(
                Sampled([](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); })),
            Activation::kGelu);
  EXPECT_EQ(trace::AsActivation(Sampled([](double x) {
              return 0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
            })),
            Activation::kGeluTanh);
  EXPECT_EQ(trace::AsActivation(Sampled([](double x) { return x / (1 + std::exp(-1.702 * x)); })),
            std::nullopt);
  EXPECT_EQ(trace::AsActivation(Sampled([](double x) { return x > 0 ? x : 0; })), std::nullopt);
}

TEST(Functions, SoftcapsHaveACapAndAFactor) {
  const auto cap = trace::AsSoftcap(Sampled([](double x) { return 50 * std::tanh(x / 200); }));
  ASSERT_TRUE(cap);
  EXPECT_NEAR(cap->cap, 50, 1e-9);
  EXPECT_NEAR(cap->factor, 0.25, 1e-9);
  EXPECT_FALSE(trace::AsSoftcap(Sampled([](double x) { return std::atan(x); })));
}

TEST(Functions, FrequenciesComeBackExactlyFromFloat32Tables) {
  for (const float f : {1.0f, 0.7498942f, 0.0316227766f, 1.0e-5f}) {
    std::vector<trace::Turn> turns;
    for (const int p : {5, 6, 7, 8, 61, 244, 976, 3904, 8191}) {
      const float angle = static_cast<float>(p) * f;
      turns.push_back({static_cast<double>(p),
                       {static_cast<double>(std::cos(angle))},
                       {static_cast<double>(std::sin(angle))}});
    }
    EXPECT_EQ(trace::FitFrequencies(turns), std::vector<float>{f});
  }
}

}  // namespace
}  // namespace weft::lower
