#include "convert/graph_builder.h"

#include <cmath>

#include "convert/weight_plan.h"

namespace weft::convert {
namespace {

using onnx::Attribute;
using onnx::Dim;
using onnx::ElementType;
using onnx::Tensor;

constexpr char kMicrosoft[] = "com.microsoft";

std::vector<int64_t> Dims(std::initializer_list<uint64_t> values) {
  std::vector<int64_t> dims;
  for (const uint64_t value : values) dims.push_back(static_cast<int64_t>(value));
  return dims;
}

// Emits nodes; every method returns the name of the value that it computes. A node called "/a/b"
// writes "/a/b/output_0".
class DecoderBuilder {
 public:
  DecoderBuilder(const ModelConfig& config, const StoredWeights& weights)
      : config_(config), weights_(weights) {}

  onnx::Graph Build() {
    graph_.name = config_.architecture;
    DeclareInputs();
    std::string hidden = Embedding();
    BuildSides();
    for (uint32_t layer = 1; layer <= config_.layer_count; ++layer) hidden = Layer(layer, hidden);
    Head(hidden);
    return std::move(graph_);
  }

 private:
  std::string Node(const std::string& name, const std::string& op, std::vector<std::string> inputs,
                   std::vector<Attribute> attributes = {}, const std::string& domain = "") {
    const std::string output = name + "/output_0";
    graph_.AddNode(op, std::move(inputs), {output}, std::move(attributes), domain, name);
    return output;
  }

  std::string Constant(const std::string& name, std::vector<int64_t> dims,
                       std::initializer_list<int64_t> values) {
    if (graph_.FindInitializer(name) == nullptr) {
      graph_.AddInitializer(name, Tensor::FromInt64s(std::move(dims), values));
    }
    return name;
  }

  const StoredWeight& Weight(const std::string& name) const {
    const auto found = weights_.find(name);
    CHECK(found != weights_.end(), "no weight " + name);
    return found->second;
  }

  std::string External(const std::string& name, ElementType type, std::vector<int64_t> dims,
                       const StoredArray& array) {
    if (graph_.FindInitializer(name) == nullptr) {
      Tensor tensor = Tensor::At(type, std::move(dims), array.blob.ToHex(), array.offset);
      CHECK(tensor.byte_count == array.byte_count, "bytes of " + name);
      graph_.AddInitializer(name, std::move(tensor));
    }
    return name;
  }

  // The weight in its plain dtype.
  std::string PlainInitializer(const std::string& name) {
    const StoredWeight& weight = Weight(name);
    std::vector<int64_t> dims(weight.shape.begin(), weight.shape.end());
    return External(name, onnx::FromDType(weight.dtype), std::move(dims), weight.data);
  }

  std::string ToFloat(const std::string& node, const std::string& value) {
    return Node(node, "Cast", {value},
                {Attribute::Of("to", static_cast<int>(ElementType::kFloat))});
  }

  // A plain weight as a float value; `node` names the Cast if one is needed.
  std::string FloatWeight(const std::string& name, const std::string& node) {
    const std::string value = PlainInitializer(name);
    return Weight(name).dtype == DType::kF32 ? value : ToFloat(node, value);
  }

  // The scales of a block-format weight, stored as f16 and cast: onnxruntime takes no f16 scales
  // with f32 activations.
  std::string Scales(const std::string& name, const std::string& node) {
    const StoredWeight& weight = Weight(name);
    const auto blocks = static_cast<uint64_t>(BlockCount(static_cast<int64_t>(weight.shape[1])));
    return ToFloat(node + "/scale", External(name + "_scale", ElementType::kFloat16,
                                             Dims({weight.shape[0], blocks}), weight.scale));
  }

  static int Bits(DType dtype) { return dtype == DType::kQ4 ? 4 : 8; }

  // x W^T (+ bias). `weight` is "<path>.weight", its bias "<path>.bias".
  std::string Linear(const std::string& node, const std::string& x, const std::string& path,
                     bool has_bias) {
    const std::string name = path + ".weight";
    const StoredWeight& weight = Weight(name);
    std::string y;
    if (IsBlockFormat(weight.dtype)) {
      const auto block_bytes = static_cast<uint64_t>(BlockDataBytes(weight.dtype));
      const auto blocks = static_cast<uint64_t>(BlockCount(static_cast<int64_t>(weight.shape[1])));
      const std::string data = External(name, ElementType::kUint8,
                                        Dims({weight.shape[0], blocks, block_bytes}), weight.data);
      y = Node(node + "/MatMul", "MatMulNBits", {x, data, Scales(name, node)},
               {Attribute::Of("K", static_cast<int64_t>(weight.shape[1])),
                Attribute::Of("N", static_cast<int64_t>(weight.shape[0])),
                Attribute::Of("bits", Bits(weight.dtype)),
                Attribute::Of("block_size", int64_t{kBlockValues})},
               kMicrosoft);
    } else {
      const std::string transposed =
          Node(node + "/Transpose", "Transpose", {FloatWeight(name, node + "/Cast")},
               {Attribute::Of("perm", std::vector<int64_t>{1, 0})});
      y = Node(node + "/MatMul", "MatMul", {x, transposed});
    }
    if (!has_bias) return y;
    return Node(node + "/Add", "Add", {y, PlainInitializer(path + ".bias")});
  }

  std::string RmsNorm(const std::string& node, const std::string& x, const std::string& weight) {
    return Node(node, "SimplifiedLayerNormalization", {x, PlainInitializer(weight)},
                {Attribute::Of("axis", -1), Attribute::Of("epsilon", config_.rms_epsilon),
                 Attribute::Of("stash_type", 1)});
  }

  void DeclareInputs() {
    graph_.AddInput("input_ids", ElementType::kInt64, {Dim::Of(1), Dim::Of("sequence_length")});
    graph_.AddInput("attention_mask", ElementType::kInt64,
                    {Dim::Of(1), Dim::Of("total_sequence_length")});
    graph_.AddInput("position_ids", ElementType::kInt64, {Dim::Of(1), Dim::Of("sequence_length")});
    graph_.AddOutput("logits", ElementType::kFloat,
                     {Dim::Of(1), Dim::Of("sequence_length"), Dim::Of(config_.vocabulary)});
    for (uint32_t i = 0; i < config_.layer_count; ++i) {
      for (const char* kind : {".key", ".value"}) {
        const std::string suffix = std::to_string(i) + kind;
        const auto shape = [&](const char* positions) {
          return std::vector<Dim>{Dim::Of(1), Dim::Of(config_.kv_heads), Dim::Of(positions),
                                  Dim::Of(config_.head_columns)};
        };
        graph_.AddInput("past_key_values." + suffix, ElementType::kFloat,
                        shape("past_sequence_length"));
        graph_.AddOutput("present." + suffix, ElementType::kFloat, shape("total_sequence_length"));
      }
    }
  }

  // Values that every layer reads and that depend on the inputs alone: a part of the model computes
  // them again.
  void BuildSides() {
    const std::string axis = Constant("constants/axis_1", {1}, {1});
    const std::string sum = Node("/mask/ReduceSum", "ReduceSum", {"attention_mask", axis},
                                 {Attribute::Of("keepdims", 0)});
    const std::string last = Node("/mask/Sub", "Sub", {sum, Constant("constants/one", {1}, {1})});
    const Attribute to_int32 = Attribute::Of("to", static_cast<int>(ElementType::kInt32));
    last_position_ = Node("/mask/last/Cast", "Cast", {last}, {to_int32});
    const std::string shape = Node("/mask/Shape", "Shape", {"attention_mask"});
    const std::string total =
        Node("/mask/Gather", "Gather", {shape, Constant("constants/index_1", {}, {1})},
             {Attribute::Of("axis", 0)});
    total_length_ = Node("/mask/total/Cast", "Cast", {total}, {to_int32});

    const std::string positions = ToFloat("/rotary/Cast", "position_ids");
    const std::string column =
        Node("/rotary/Reshape", "Reshape", {positions, Constant("constants/column", {2}, {-1, 1})});
    const std::string angles =
        Node("/rotary/Mul", "Mul", {column, PlainInitializer(kInverseFrequencies)});
    cos_ = Node("/rotary/Cos", "Cos", {angles});
    sin_ = Node("/rotary/Sin", "Sin", {angles});
  }

  std::string Embedding() {
    const std::string name = "model.embed_tokens.weight", node = "/model/embed_tokens";
    const StoredWeight& table = Weight(name);
    if (IsBlockFormat(table.dtype)) {
      const auto block_bytes = static_cast<uint64_t>(BlockDataBytes(table.dtype));
      const std::string data =
          External(name, ElementType::kUint8,
                   Dims({table.shape[0], table.shape[1] / kBlockValues * block_bytes}), table.data);
      return Node(node + "/Gather", "GatherBlockQuantized", {data, "input_ids", Scales(name, node)},
                  {Attribute::Of("bits", Bits(table.dtype)),
                   Attribute::Of("block_size", int64_t{kBlockValues}),
                   Attribute::Of("gather_axis", 0), Attribute::Of("quantize_axis", 1)},
                  kMicrosoft);
    }
    const std::string rows = Node(node + "/Gather", "Gather", {PlainInitializer(name), "input_ids"},
                                  {Attribute::Of("axis", 0)});
    return table.dtype == DType::kF32 ? rows : ToFloat(node + "/Cast", rows);
  }

  // q or k [1, S, heads * head_columns]: norm per head if the model has it, then rotation.
  std::string HeadNormAndRotation(const std::string& node, std::string x, uint32_t heads,
                                  const std::string& norm_weight) {
    if (config_.qk_norm) {
      const auto head_columns = int64_t{config_.head_columns};
      const auto columns = head_columns * heads;
      const std::string split = Node(node + "_norm/Reshape_1", "Reshape",
                                     {x, Constant("constants/heads_" + std::to_string(head_columns),
                                                  {3}, {0, -1, head_columns})});
      const std::string normed = RmsNorm(node + "_norm/LayerNorm", split, norm_weight);
      x = Node(node + "_norm/Reshape_2", "Reshape",
               {normed,
                Constant("constants/columns_" + std::to_string(columns), {3}, {0, -1, columns})});
    }
    std::vector<Attribute> attributes = {Attribute::Of("interleaved", 0)};
    if (config_.rope.rotary_columns < config_.head_columns) {
      attributes.push_back(Attribute::Of("num_heads", static_cast<int64_t>(heads)));
      attributes.push_back(
          Attribute::Of("rotary_embedding_dim", static_cast<int64_t>(config_.rope.rotary_columns)));
    }
    // The tables hold one row for each row of x, in order.
    const std::string first = Constant("constants/first_row", {1}, {0});
    return Node(node + "_rotary/RotaryEmbedding", "RotaryEmbedding", {x, first, cos_, sin_},
                std::move(attributes), kMicrosoft);
  }

  std::string Attention(const std::string& node, const std::string& prefix, uint32_t index,
                        const std::string& x) {
    const std::string path = prefix + "self_attn.";
    const std::string q = HeadNormAndRotation(
        node + "/q", Linear(node + "/q_proj", x, path + "q_proj", config_.qkv_bias), config_.heads,
        path + "q_norm.weight");
    const std::string k = HeadNormAndRotation(
        node + "/k", Linear(node + "/k_proj", x, path + "k_proj", config_.qkv_bias),
        config_.kv_heads, path + "k_norm.weight");
    const std::string v = Linear(node + "/v_proj", x, path + "v_proj", config_.qkv_bias);
    const std::string past = "past_key_values." + std::to_string(index);
    const std::string present = "present." + std::to_string(index);
    std::vector<Attribute> attributes = {
        Attribute::Of("num_heads", static_cast<int64_t>(config_.heads)),
        Attribute::Of("kv_num_heads", static_cast<int64_t>(config_.kv_heads)),
        Attribute::Of("scale", 1 / std::sqrt(static_cast<float>(config_.head_columns))),
        Attribute::Of("do_rotary", 0),
    };
    if (config_.windows[index] != 0) {
      attributes.push_back(
          Attribute::Of("local_window_size", static_cast<int64_t>(config_.windows[index])));
    }
    const std::string out = node + "/GroupQueryAttention/output_0";
    graph_.AddNode("GroupQueryAttention",
                   {q, k, v, past + ".key", past + ".value", last_position_, total_length_},
                   {out, present + ".key", present + ".value"}, std::move(attributes), kMicrosoft,
                   node + "/GroupQueryAttention");
    return Linear(node + "/o_proj", out, path + "o_proj", config_.output_bias);
  }

  std::string Mlp(const std::string& node, const std::string& prefix, const std::string& x) {
    const std::string path = prefix + "mlp.";
    const std::string gate = Linear(node + "/gate_proj", x, path + "gate_proj", config_.mlp_bias);
    const std::string up = Linear(node + "/up_proj", x, path + "up_proj", config_.mlp_bias);
    const std::string sigmoid = Node(node + "/act/Sigmoid", "Sigmoid", {gate});
    const std::string silu = Node(node + "/act/Mul", "Mul", {gate, sigmoid});
    const std::string product = Node(node + "/Mul", "Mul", {silu, up});
    return Linear(node + "/down_proj", product, path + "down_proj", config_.mlp_bias);
  }

  std::string Layer(uint32_t layer, const std::string& hidden) {
    const std::string prefix = LayerPrefix(layer);
    const std::string node = "/model/layers." + std::to_string(layer - 1);
    const std::string normed =
        RmsNorm(node + "/input_layernorm/LayerNorm", hidden, prefix + "input_layernorm.weight");
    const std::string attended = Node(
        node + "/attn/Add", "Add", {hidden, Attention(node + "/attn", prefix, layer - 1, normed)});
    const std::string normed_again = RmsNorm(node + "/post_attention_layernorm/LayerNorm", attended,
                                             prefix + "post_attention_layernorm.weight");
    return Node(node + "/mlp/Add", "Add", {attended, Mlp(node + "/mlp", prefix, normed_again)});
  }

  void Head(const std::string& hidden) {
    const std::string normed = RmsNorm("/model/norm/LayerNorm", hidden, "model.norm.weight");
    const std::string logits = Linear("/lm_head", normed, "lm_head", false);
    graph_.nodes.back().outputs = {"logits"};
    CHECK(logits == "/lm_head/MatMul/output_0");
  }

  const ModelConfig& config_;
  const StoredWeights& weights_;
  onnx::Graph graph_;
  std::string last_position_, total_length_, cos_, sin_;
};

}  // namespace

onnx::Model BuildModel(const ModelConfig& config, const StoredWeights& weights) {
  onnx::Model model;
  model.opset_imports = {{"", 21}, {kMicrosoft, 1}};
  model.producer_name = "weft";
  model.graph = DecoderBuilder(config, weights).Build();
  return model;
}

}  // namespace weft::convert
