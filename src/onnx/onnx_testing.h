// Tests only: small decoders built by hand.
#pragma once

#include <string>
#include <vector>

#include "base/file_testing.h"
#include "onnx/graph.h"

namespace weft::onnx::testing {

inline Tensor Zeros(std::vector<int64_t> dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return Tensor::FromFloats(std::move(dims), std::vector<float>(static_cast<size_t>(count), 0.f));
}

struct DecoderForm {
  int layers = 3;
  bool fused_skip_norm =
      false;  // builder form: the add that ends a layer sits in the next layer's norm
  bool mask_from_shapes =
      false;  // a mask made from Shape(embedding) and Shape(past_key_values.0.key)
  bool cross_layer_leak =
      false;  // layer 2's product reads layer 1's attention output: two tensors cross
};

// Builds a decoder with 4 columns whose ops are simplified but whose wiring is real: embedding,
// norm, key and value with a cache, residual adds, final norm, head. Node names are deliberately
// useless.
class DecoderBuilder {
 public:
  explicit DecoderBuilder(const DecoderForm& form) : form_(form) {}

  Model Build() {
    model_.opset_imports = {{"", 17}, {"com.microsoft", 1}};
    graph_.AddInput("input_ids", ElementType::kInt64,
                    {Dim::Of("batch_size"), Dim::Of("sequence_length")});
    graph_.AddInput("attention_mask", ElementType::kInt64,
                    {Dim::Of("batch_size"), Dim::Of("total_sequence_length")});
    graph_.AddInitializer("table", Zeros({16, 4}));
    graph_.AddInitializer("axis", Tensor::FromInt64s({1}, {1}));
    graph_.AddNode("Gather", {"table", "input_ids"}, {"embedded"});
    if (form_.mask_from_shapes) AddMask();
    for (int i = 0; i < form_.layers; ++i) AddLayer(i, std::to_string(i));
    AddHead();
    return std::move(model_);
  }

 private:
  void AddMask() {
    for (const int64_t value : {1, 2}) {
      graph_.AddNode("Constant", {}, {"c" + std::to_string(value)},
                     {Attribute::Of("value", Tensor::FromInt64s({1}, {value}))});
    }
    graph_.AddNode("Shape", {"embedded"}, {"embedded_shape"});
    graph_.AddNode("Gather", {"embedded_shape", "c1"}, {"length"});
    graph_.AddNode("Shape", {"past_key_values.0.key"}, {"past_shape"});
    graph_.AddNode("Gather", {"past_shape", "c2"}, {"past_length"});
    graph_.AddNode("Add", {"length", "past_length"}, {"total_length"});
    graph_.AddNode("Concat", {"c1", "c1", "length", "total_length"}, {"mask_shape"},
                   {Attribute::Of("axis", 0)});
    graph_.AddNode("ConstantOfShape", {"mask_shape"}, {"mask"});
  }

  void AddNorm(const std::string& weight, const std::string& sum, const std::string& out) {
    graph_.AddInitializer(weight, Zeros({4}));
    if (block_.empty() || !form_.fused_skip_norm) {
      graph_.AddNode("SimplifiedLayerNormalization", {stream_, weight}, {out},
                     {Attribute::Of("epsilon", 1e-6f)});
      return;
    }
    std::vector<std::string> outputs = {out};
    if (!sum.empty()) outputs = {out, "", "", sum};
    graph_.AddNode("SkipSimplifiedLayerNormalization", {stream_, block_, weight}, outputs,
                   {Attribute::Of("epsilon", 1e-6f)}, "com.microsoft");
    stream_ = sum;
  }

  void AddResidual(const std::string& value, const std::string& sum) {
    block_ = value;
    if (form_.fused_skip_norm) return;
    graph_.AddNode("Add", {stream_, value}, {sum});
    stream_ = sum;
  }

  void AddProduct(const std::string& x, const std::string& weight, const std::string& y) {
    graph_.AddInitializer(weight, Zeros({4, 4}));
    graph_.AddNode("MatMul", {x, weight}, {y});
  }

  void AddCache(const std::string& layer, const std::string& kind) {
    const std::string past = "past_key_values." + layer + (kind == "k" ? ".key" : ".value");
    const std::string present = "present." + layer + (kind == "k" ? ".key" : ".value");
    const Dim batch = Dim::Of("batch_size");
    graph_.AddInput(past, ElementType::kFloat,
                    {batch, Dim::Of(1), Dim::Of("past_sequence_length"), Dim::Of(4)});
    graph_.AddOutput(present, ElementType::kFloat,
                     {batch, Dim::Of(1), Dim::Of("total_sequence_length"), Dim::Of(4)});
    AddProduct("a" + layer, kind + layer, kind + "x" + layer);
    graph_.AddNode("Unsqueeze", {kind + "x" + layer, "axis"}, {kind + "u" + layer});
    graph_.AddNode("Concat", {past, kind + "u" + layer}, {present}, {Attribute::Of("axis", 2)});
  }

  void AddLayer(int i, const std::string& n) {
    AddNorm("norm" + n, "s" + n, "a" + n);
    AddCache(n, "k");
    AddCache(n, "v");
    graph_.AddNode("Transpose", {"present." + n + ".key"}, {"kt" + n},
                   {Attribute::Of("perm", std::vector<int64_t>{0, 1, 3, 2})});
    graph_.AddNode("MatMul", {"ku" + n, "kt" + n}, {"scores" + n});
    std::string scores = "scores" + n;
    if (form_.mask_from_shapes) {
      graph_.AddNode("Add", {scores, "mask"}, {"masked" + n});
      scores = "masked" + n;
    }
    graph_.AddNode("Softmax", {scores}, {"p" + n});
    graph_.AddNode("MatMul", {"p" + n, "present." + n + ".value"}, {"heads" + n});
    graph_.AddNode("Squeeze", {"heads" + n, "axis"}, {"attention" + n});
    AddProduct("attention" + n, "o" + n, "attended" + n);
    AddResidual("attended" + n, "mid" + n);
    AddNorm("norm2" + n, "t" + n, "b" + n);
    AddProduct("b" + n, "mlp" + n, "product" + n);
    const bool leaks = form_.cross_layer_leak && i == 2;
    if (leaks) graph_.AddNode("Mul", {"product" + n, "attended1"}, {"leak"});
    AddResidual(leaks ? "leak" : "product" + n, "out" + n);
  }

  void AddHead() {
    AddNorm("final_norm", "", "normed");
    graph_.AddInitializer("head", Zeros({4, 16}));
    graph_.AddNode("MatMul", {"normed", "head"}, {"logits"});
    graph_.AddOutput("logits", ElementType::kFloat,
                     {Dim::Of("batch_size"), Dim::Of("sequence_length"), Dim::Of(16)});
  }

  DecoderForm form_;
  Model model_;
  Graph& graph_ = model_.graph;
  std::string stream_ = "embedded";
  std::string block_;  // fused form: what is still to be added to the stream
};

inline Model MakeDecoder(const DecoderForm& form) {
  return DecoderBuilder(form).Build();
}

// The decoder as one of two in a merged file (merged_decoder.h). The other gives logits that are
// wrong, and half of the weights lie in the branch.
inline Model Merged(Model model) {
  Graph with_past = std::move(model.graph);
  Graph outer;
  outer.inputs = std::move(with_past.inputs);
  outer.outputs = with_past.outputs;
  outer.AddInput("use_cache_branch", ElementType::kBool, {Dim::Of(1)});
  with_past.inputs.clear();
  size_t moved = 0;
  for (auto it = with_past.initializers.begin(); it != with_past.initializers.end(); ++moved) {
    if (moved % 2 == 0) {
      ++it;
    } else {
      outer.initializers.insert(with_past.initializers.extract(it++));
    }
  }
  Graph without_past = with_past;
  for (Node& node : without_past.nodes) {
    if (node.Is("Add")) node.op_type = "Sub";
  }
  std::vector<std::string> results;
  for (const ValueInfo& output : outer.outputs) results.push_back(output.name);
  outer.AddNode("If", {"use_cache_branch"}, results,
                {{"then_branch", std::make_shared<Graph>(std::move(with_past))},
                 {"else_branch", std::make_shared<Graph>(std::move(without_past))}},
                "", "choice");
  model.graph = std::move(outer);
  return model;
}

}  // namespace weft::onnx::testing
