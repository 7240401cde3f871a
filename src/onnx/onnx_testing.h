// Tests only: small decoders built by hand, and where the test data lies.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "onnx/graph.h"

namespace weft::onnx::testing {

// The folder with ONNX models, or an empty path when this machine has none.
inline std::filesystem::path DataFolder() {
  const char* given = std::getenv("WEFT_DATA");
  const std::filesystem::path root =
      given != nullptr ? std::filesystem::path(given)
                       : std::filesystem::path(WEFT_SOURCE_DIR) / ".." / "shared" / "data";
  std::error_code error;
  return std::filesystem::is_directory(root / "onnx", error) ? root / "onnx"
                                                             : std::filesystem::path();
}

// A folder that is removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "weft-onnx-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

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

// A decoder with 4 columns whose ops are simplified but whose wiring is real: embedding, norm, key
// and value with a cache, residual adds, final norm, head. Node names are deliberately useless.
inline Model MakeDecoder(const DecoderForm& form) {
  Model model;
  model.opset_imports = {{"", 17}, {"com.microsoft", 1}};
  Graph& g = model.graph;
  const std::vector<Dim> tokens = {Dim::Of("batch_size"), Dim::Of("sequence_length")};
  g.AddInput("input_ids", ElementType::kInt64, tokens);
  g.AddInput("attention_mask", ElementType::kInt64,
             {Dim::Of("batch_size"), Dim::Of("total_sequence_length")});
  g.AddInitializer("table", Zeros({16, 4}));
  g.AddNode("Gather", {"table", "input_ids"}, {"embedded"});
  std::string mask;
  if (form.mask_from_shapes) {
    g.AddNode("Constant", {}, {"one"}, {Attribute::Of("value", Tensor::FromInt64s({1}, {1}))});
    g.AddNode("Constant", {}, {"two"}, {Attribute::Of("value", Tensor::FromInt64s({1}, {2}))});
    g.AddNode("Shape", {"embedded"}, {"embedded_shape"});
    g.AddNode("Gather", {"embedded_shape", "one"}, {"length"});
    g.AddNode("Shape", {"past_key_values.0.key"}, {"past_shape"});
    g.AddNode("Gather", {"past_shape", "two"}, {"past_length"});
    g.AddNode("Add", {"length", "past_length"}, {"total_length"});
    g.AddNode("Concat", {"one", "one", "length", "total_length"}, {"mask_shape"},
              {Attribute::Of("axis", 0)});
    g.AddNode("ConstantOfShape", {"mask_shape"}, {"mask"});
    mask = "mask";
  }
  std::string stream = "embedded";
  std::string block;  // fused form: what is still to be added
  for (int i = 0; i < form.layers; ++i) {
    const std::string n = std::to_string(i);
    const std::vector<Dim> past = {Dim::Of("batch_size"), Dim::Of(1),
                                   Dim::Of("past_sequence_length"), Dim::Of(4)};
    const std::vector<Dim> present = {Dim::Of("batch_size"), Dim::Of(1),
                                      Dim::Of("total_sequence_length"), Dim::Of(4)};
    for (const char* kind : {".key", ".value"}) {
      g.AddInput("past_key_values." + n + kind, ElementType::kFloat, past);
      g.AddOutput("present." + n + kind, ElementType::kFloat, present);
    }
    for (const char* weight : {"norm", "norm2"}) g.AddInitializer(weight + n, Zeros({4}));
    for (const char* weight : {"k", "v", "o", "mlp"}) g.AddInitializer(weight + n, Zeros({4, 4}));
    g.AddInitializer("axis", Tensor::FromInt64s({1}, {1}));
    const auto norm = [&](const std::string& sum, const std::string& weight,
                          const std::string& out) {
      if (block.empty() || !form.fused_skip_norm) {
        g.AddNode("SimplifiedLayerNormalization", {stream, weight}, {out},
                  {Attribute::Of("epsilon", 1e-6f)});
        return;
      }
      g.AddNode("SkipSimplifiedLayerNormalization", {stream, block, weight}, {out, "", "", sum},
                {Attribute::Of("epsilon", 1e-6f)}, "com.microsoft");
      stream = sum;
    };
    const auto add = [&](const std::string& value, const std::string& sum) {
      block = value;
      if (form.fused_skip_norm) return;
      g.AddNode("Add", {stream, value}, {sum});
      stream = sum;
    };
    norm("s" + n, "norm" + n, "a" + n);
    g.AddNode("MatMul", {"a" + n, "k" + n}, {"kx" + n});
    g.AddNode("MatMul", {"a" + n, "v" + n}, {"vx" + n});
    for (const std::string kind : {"k", "v"}) {
      g.AddNode("Unsqueeze", {kind + "x" + n, "axis"}, {kind + "u" + n});
      const std::string slot = n + (kind == "k" ? ".key" : ".value");
      g.AddNode("Concat", {"past_key_values." + slot, kind + "u" + n}, {"present." + slot},
                {Attribute::Of("axis", 2)});
    }
    g.AddNode("Transpose", {"present." + n + ".key"}, {"kt" + n},
              {Attribute::Of("perm", std::vector<int64_t>{0, 1, 3, 2})});
    g.AddNode("MatMul", {"ku" + n, "kt" + n}, {"scores" + n});
    std::string scores = "scores" + n;
    if (!mask.empty()) {
      g.AddNode("Add", {scores, mask}, {"masked" + n});
      scores = "masked" + n;
    }
    g.AddNode("Softmax", {scores}, {"p" + n});
    g.AddNode("MatMul", {"p" + n, "present." + n + ".value"}, {"heads" + n});
    g.AddNode("Squeeze", {"heads" + n, "axis"}, {"attention" + n});
    g.AddNode("MatMul", {"attention" + n, "o" + n}, {"attended" + n});
    add("attended" + n, "mid" + n);
    norm("t" + n, "norm2" + n, "b" + n);
    g.AddNode("MatMul", {"b" + n, "mlp" + n}, {"product" + n});
    std::string product = "product" + n;
    if (form.cross_layer_leak && i == 2) {
      g.AddNode("Mul", {product, "attended1"}, {"leak"});
      product = "leak";
    }
    add(product, "out" + n);
  }
  g.AddInitializer("final_norm", Zeros({4}));
  g.AddInitializer("head", Zeros({4, 16}));
  if (form.fused_skip_norm) {
    g.AddNode("SkipSimplifiedLayerNormalization", {stream, block, "final_norm"}, {"normed"}, {},
              "com.microsoft");
  } else {
    g.AddNode("SimplifiedLayerNormalization", {stream, "final_norm"}, {"normed"});
  }
  g.AddNode("MatMul", {"normed", "head"}, {"logits"});
  g.AddOutput("logits", ElementType::kFloat,
              {Dim::Of("batch_size"), Dim::Of("sequence_length"), Dim::Of(16)});
  return model;
}

}  // namespace weft::onnx::testing
