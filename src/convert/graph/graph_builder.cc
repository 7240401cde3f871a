#include "convert/graph/graph_builder.h"

#include <algorithm>
#include <cmath>

#include "convert/graph/expert_nodes.h"
#include "convert/graph/graph_nodes.h"
#include "convert/graph/latent_nodes.h"
#include "convert/graph/recurrent_nodes.h"
#include "convert/weights/weight_specs.h"

namespace weft::convert {
namespace {

using onnx::Attribute;
using onnx::Dim;
using onnx::ElementType;

// The names of a rotation's tables.
struct RotaryTables {
  std::string cos, sin;
  uint32_t columns = 0;  // that turn
};

class DecoderBuilder {
 public:
  DecoderBuilder(const ModelConfig& config, const StoredWeights& weights,
                 const std::vector<float>& layer_scalars)
      : config_(config), layer_scalars_(layer_scalars), nodes_(weights) {}

  BuiltModel Build() {
    BuiltModel built;
    nodes_.graph().name = config_.architecture;
    DeclareInputs();
    std::string hidden = Embedding(&built.embedding);
    BuildSides();
    const auto add_boundary = [&](uint32_t layer) {
      built.boundaries.push_back({hidden, ElementType::kFloat, config_.BoundaryColumns(layer)});
    };
    add_boundary(0);
    for (uint32_t layer = 1; layer <= config_.layer_count(); ++layer) {
      hidden = Layer(layer, hidden);
      add_boundary(layer);
    }
    Head(hidden);
    built.model.graph = std::move(nodes_.graph());
    return built;
  }

 private:
  std::string Node(const std::string& name, const std::string& op, std::vector<std::string> inputs,
                   std::vector<Attribute> attributes = {}, const std::string& domain = "") {
    return nodes_.Node(name, op, std::move(inputs), std::move(attributes), domain);
  }
  std::string Norm(const std::string& node, const std::string& x, const std::string& weight) {
    return config_.mean_norms ? nodes_.LayerNorm(node, x, weight, config_.rms_epsilon)
                              : nodes_.RmsNorm(node, x, weight, config_.rms_epsilon);
  }
  // x times a number that the model has; x itself where that is 1.
  std::string Times(const std::string& node, const std::string& x, float factor) {
    return factor == 1 ? x : Node(node, "Mul", {x, nodes_.Scalar("constants" + node, factor)});
  }

  void DeclareInputs() {
    onnx::Graph& graph = nodes_.graph();
    graph.AddInput("input_ids", ElementType::kInt64, {Dim::Of(1), Dim::Of("sequence_length")});
    graph.AddInput("attention_mask", ElementType::kInt64,
                   {Dim::Of(1), Dim::Of("total_sequence_length")});
    graph.AddInput("position_ids", ElementType::kInt64, {Dim::Of(1), Dim::Of("sequence_length")});
    graph.AddOutput("logits", ElementType::kFloat,
                    {Dim::Of(1), Dim::Of("sequence_length"),
                     Dim::Of(config_.embeds ? config_.hidden_columns : config_.vocabulary)});
    for (uint32_t i = 0; i < config_.layer_count(); ++i) {
      const LayerConfig& layer = config_.layers[i];
      if (layer.mixer != Mixer::kAttention) {
        DeclareState(config_, i, &graph);
        continue;
      }
      if (layer.kv_from) continue;
      for (const char* kind : {".key", ".value"}) {
        if (config_.latent && kind == std::string_view(".value")) continue;
        const std::string suffix = std::to_string(i) + kind;
        const auto shape = [&](const char* positions) {
          return std::vector<Dim>{Dim::Of(1), Dim::Of(layer.kv_heads), Dim::Of(positions),
                                  Dim::Of(layer.head_columns)};
        };
        graph.AddInput("past_key_values." + suffix, ElementType::kFloat,
                       shape("past_sequence_length"));
        graph.AddOutput("present." + suffix, ElementType::kFloat, shape("total_sequence_length"));
      }
    }
  }

  // Values that every layer reads and that depend on the inputs alone: a part of the model computes
  // them again.
  void BuildSides() {
    const std::string axis = nodes_.Constant("constants/axis_1", {1}, {1});
    const std::string sum = Node("/mask/ReduceSum", "ReduceSum", {"attention_mask", axis},
                                 {Attribute::Of("keepdims", 0)});
    const std::string last =
        Node("/mask/Sub", "Sub", {sum, nodes_.Constant("constants/one", {1}, {1})});
    const Attribute to_int32 = Attribute::Of("to", static_cast<int>(ElementType::kInt32));
    last_position_ = Node("/mask/last/Cast", "Cast", {last}, {to_int32});
    const std::string shape = Node("/mask/Shape", "Shape", {"attention_mask"});
    const std::string total =
        Node("/mask/Gather", "Gather", {shape, nodes_.Constant("constants/index_1", {}, {1})},
             {Attribute::Of("axis", 0)});
    total_length_ = Node("/mask/total/Cast", "Cast", {total}, {to_int32});

    const std::string positions = nodes_.ToFloat("/rotary/Cast", "position_ids");
    positions_ = Node("/rotary/Reshape", "Reshape",
                      {positions, nodes_.Constant("constants/column", {2}, {-1, 1})});
    const std::vector<RopeConfig> rotations = config_.Rotations();
    for (size_t i = 0; i < rotations.size(); ++i) {
      const std::string node = i == 0 ? "/rotary" : "/rotary/" + std::to_string(i);
      tables_.push_back(Tables(node, FrequenciesName(i), rotations[i]));
    }
  }

  // The cosines and sines of position * frequency, [S, rotary_columns / 2].
  RotaryTables Tables(const std::string& node, const std::string& frequencies,
                      const RopeConfig& rope) {
    const std::string angles = Node(node + "/Mul", "Mul", {positions_, nodes_.Plain(frequencies)});
    RotaryTables tables{Node(node + "/Cos", "Cos", {angles}), Node(node + "/Sin", "Sin", {angles}),
                        rope.rotary_columns};
    if (rope.scale == 1) return tables;
    const std::string scale = nodes_.Scalar("constants" + node + "/scale", rope.scale);
    return {Node(node + "/Cos_scaled", "Mul", {tables.cos, scale}),
            Node(node + "/Sin_scaled", "Mul", {tables.sin, scale}), rope.rotary_columns};
  }

  std::string Embedding(std::string* looked_up) {
    const std::string node = "/model/embed_tokens";
    *looked_up = LookUp(node, "model.embed_tokens.weight");
    std::string embedded = Times(node + "/Mul", *looked_up, config_.embedding_scale);
    if (config_.layer_inputs.columns == 0) return embedded;
    return Node("/model/carried", "Join", {embedded, LayerInputs(embedded)}, {}, kWeft);
  }

  // The inputs of all layers side by side (LayerInputConfig).
  std::string LayerInputs(const std::string& embedded) {
    const LayerInputConfig& inputs = config_.layer_inputs;
    const std::string node = "/model/layer_inputs";
    std::vector<std::string> rows;
    for (uint32_t layer = 0; layer < config_.layer_count(); ++layer) {
      const std::string own = node + "/" + std::to_string(layer);
      rows.push_back(Times(own + "/Mul", LookUp(own, LayerTableName(layer)), inputs.scale));
    }
    const std::string of_tokens = Node(node + "/Join", "Join", std::move(rows), {}, kWeft);
    const std::string product =
        nodes_.Linear(node + "/projection", embedded, "model.per_layer_model_projection", false);
    const float hidden = static_cast<float>(config_.hidden_columns);
    const std::string normed =
        HeadNorm(node + "/norm", Times(node + "/projection/scaled", product, 1 / std::sqrt(hidden)),
                 config_.layer_count(), inputs.columns, "model.per_layer_projection_norm.weight");
    return Times(node + "/scaled", Node(node + "/Add", "Add", {normed, of_tokens}),
                 std::sqrt(0.5F));
  }

  std::string LookUp(const std::string& node, const std::string& name) {
    const StoredWeight& table = nodes_.Weight(name);
    if (IsBlockFormat(table.dtype)) {
      const auto block_bytes = static_cast<uint64_t>(BlockDataBytes(table.dtype));
      const std::string data = nodes_.External(
          name, ElementType::kUint8,
          Dims({table.shape[0], table.shape[1] / kBlockValues * block_bytes}), table.data);
      return Node(node + "/Gather", "GatherBlockQuantized",
                  {data, "input_ids", nodes_.Scales(name, node)},
                  {Attribute::Of("bits", BlockBits(table.dtype)),
                   Attribute::Of("block_size", int64_t{kBlockValues}),
                   Attribute::Of("gather_axis", 0), Attribute::Of("quantize_axis", 1)},
                  kMicrosoft);
    }
    const std::string rows = Node(node + "/Gather", "Gather", {nodes_.Plain(name), "input_ids"},
                                  {Attribute::Of("axis", 0)});
    return table.dtype == DType::kF32 ? rows : nodes_.ToFloat(node + "/Cast", rows);
  }

  // An RMS norm of each head of x [1, S, heads * head_columns].
  std::string HeadNorm(const std::string& node, const std::string& x, uint32_t heads,
                       uint32_t head_columns, const std::string& weight) {
    return nodes_.HeadNorm(node, x, weight, uint64_t{heads} * head_columns, head_columns,
                           config_.rms_epsilon);
  }

  std::string Rotate(const std::string& node, const std::string& x, uint32_t heads,
                     uint32_t layer) {
    const uint32_t rotation = config_.RotationOf(layer);
    if (rotation == kNoRotation) return x;
    const RotaryTables& tables = tables_[rotation];
    std::vector<Attribute> attributes = {
        Attribute::Of("interleaved", config_.interleaved_pairs ? 1 : 0)};
    if (tables.columns < config_.layers[layer].head_columns) {
      attributes.push_back(Attribute::Of("num_heads", static_cast<int64_t>(heads)));
      attributes.push_back(
          Attribute::Of("rotary_embedding_dim", static_cast<int64_t>(tables.columns)));
    }
    // The tables hold one row for each row of x, in order.
    const std::string first = nodes_.Constant("constants/first_row", {1}, {0});
    return Node(node + "_rotary/RotaryEmbedding", "RotaryEmbedding",
                {x, first, tables.cos, tables.sin}, std::move(attributes), kMicrosoft);
  }

  // q or k [1, S, heads * head_columns]: its norm where the model has one, and its rotation.
  std::string NormAndRotation(const std::string& node, std::string x, uint32_t heads,
                              const std::string& norm_weight, uint32_t layer) {
    const uint32_t head_columns = config_.layers[layer].head_columns;
    if (config_.qk_norm == QkNorm::kHead) {
      x = HeadNorm(node + "_norm", x, heads, head_columns, norm_weight);
    } else if (config_.qk_norm == QkNorm::kRow) {
      x = nodes_.RmsNorm(node + "_norm/LayerNorm", x, norm_weight, config_.rms_epsilon);
    }
    x = Rotate(node, x, heads, layer);
    if (config_.qk_norm != QkNorm::kHeadAfterRotation) return x;
    return HeadNorm(node + "_norm", x, heads, head_columns, norm_weight);
  }

  std::vector<Attribute> AttentionAttributes(uint32_t layer) const {
    const LayerConfig& own = config_.layers[layer];
    const auto head_columns = static_cast<float>(own.head_columns);
    std::vector<Attribute> attributes = {
        Attribute::Of("num_heads", static_cast<int64_t>(config_.heads)),
        Attribute::Of("kv_num_heads", static_cast<int64_t>(own.kv_heads)),
        Attribute::Of("scale", config_.attention_scale != 0 ? config_.attention_scale
                                                            : 1 / std::sqrt(head_columns)),
        Attribute::Of("do_rotary", 0),
    };
    if (own.window != 0) {
      attributes.push_back(Attribute::Of("local_window_size", static_cast<int64_t>(own.window)));
    }
    if (config_.attention_softcap != 0) {
      attributes.push_back(Attribute::Of("softcap", config_.attention_softcap));
    }
    return attributes;
  }

  std::string Attention(const std::string& node, const std::string& prefix, uint32_t index,
                        const std::string& x) {
    const std::string path = prefix + "self_attn.";
    if (config_.latent) {
      LatentNodes latent(config_, node, path, index, &nodes_);
      const std::string q = Rotate(node + "/q", latent.Query(x), config_.heads, index);
      const std::string k = Rotate(node + "/k", latent.Key(x), 1, index);
      return latent.Attend(q, k);
    }
    const std::string q = NormAndRotation(
        node + "/q", nodes_.Linear(node + "/q_proj", x, path + "q_proj", config_.qkv_bias),
        config_.heads, path + config_.q_norm + ".weight", index);
    const LayerConfig& own = config_.layers[index];
    if (own.kv_from) {
      std::vector<Attribute> attributes = AttentionAttributes(index);
      attributes.push_back(Attribute::Of("kv_layer", int64_t{*own.kv_from} + 1));
      const std::string out =
          Node(node + "/SharedAttention", "SharedAttention", {q}, std::move(attributes), kWeft);
      return nodes_.Linear(node + "/o_proj", out, path + "o_proj", config_.output_bias);
    }
    const std::string keys = nodes_.Linear(node + "/k_proj", x, path + "k_proj", config_.qkv_bias);
    const std::string k =
        NormAndRotation(node + "/k", keys, own.kv_heads, path + config_.k_norm + ".weight", index);
    std::string v = keys;
    if (!own.keys_are_values) {
      v = nodes_.Linear(node + "/v_proj", x, path + "v_proj", config_.qkv_bias);
    }
    if (config_.value_norm) {
      v = HeadNorm(node + "/v_norm", v, own.kv_heads, own.head_columns, OnesName(own.head_columns));
    }
    const std::string past = "past_key_values." + std::to_string(index);
    const std::string present = "present." + std::to_string(index);
    std::vector<std::string> inputs = {
        q, k, v, past + ".key", past + ".value", last_position_, total_length_};
    if (config_.sinks) {  // slot 11
      inputs.resize(11);
      inputs.push_back(nodes_.Plain(path + "sinks"));
    }
    std::string out = node + "/GroupQueryAttention/output_0";
    nodes_.graph().AddNode("GroupQueryAttention", std::move(inputs),
                           {out, present + ".key", present + ".value"}, AttentionAttributes(index),
                           kMicrosoft, node + "/GroupQueryAttention");
    if (config_.attention_gate) {
      const std::string gate =
          nodes_.Linear(node + "/gate_proj", x, path + "gate_proj", config_.qkv_bias);
      out = Node(node + "/gate/Mul", "Mul", {out, Node(node + "/gate/Sigmoid", "Sigmoid", {gate})});
    }
    return nodes_.Linear(node + "/o_proj", out, path + "o_proj", config_.output_bias);
  }

  std::string Mix(const std::string& node, const std::string& prefix, uint32_t index,
                  const std::string& x) {
    if (config_.layers[index].mixer == Mixer::kAttention) return Attention(node, prefix, index, x);
    return BuildRecurrent(config_, node, prefix, index, x, &nodes_);
  }

  // The experts that a row goes to, and the one that all rows go to.
  std::string Experts(const std::string& node, const std::string& prefix, uint32_t layer,
                      const std::string& x) {
    std::string routed = BuildExperts(config_, node, layer, x, x, &nodes_);
    if (config_.experts.shared_columns > 0) {
      const std::string shared = Mlp(node + "/shared_experts", prefix + "mlp.shared_experts.", x);
      return Node(node + "/shared_experts/Add", "Add", {routed, shared});
    }
    if (config_.experts.gated_shared_columns == 0) return routed;
    const std::string shared = Mlp(node + "/shared_expert", prefix + "mlp.shared_expert.", x);
    const std::string gate =
        nodes_.Linear(node + "/shared_expert_gate", x, prefix + "mlp.shared_expert_gate", false);
    const std::string scaled =
        Node(node + "/shared_expert_gate/Mul", "Mul",
             {shared, Node(node + "/shared_expert_gate/Sigmoid", "Sigmoid", {gate})});
    return Node(node + "/shared_expert/Add", "Add", {routed, scaled});
  }

  // What a layer's second block adds to `attended`, of which it reads `x`, but for its last norm.
  std::string Block(const std::string& node, const std::string& prefix, uint32_t layer,
                    const std::string& attended, const std::string& x) {
    if (!config_.layers[layer - 1].has_experts) return Mlp(node, prefix + "mlp.", x);
    if (!config_.experts.beside_mlp) return Experts(node, prefix, layer, x);
    const auto norm = [&](const std::string& of, const std::string& name) {
      return Norm(node + "/" + name + "/LayerNorm", of, prefix + name + ".weight");
    };
    const std::string router_x = nodes_.RmsNorm(node + "/router/LayerNorm", attended,
                                                prefix + "router.scale", config_.rms_epsilon);
    const std::string experts = BuildExperts(
        config_, node, layer, norm(attended, "pre_feedforward_layernorm_2"), router_x, &nodes_);
    return Node(node + "/beside/Add", "Add",
                {norm(Mlp(node, prefix + "mlp.", x), "post_feedforward_layernorm_1"),
                 norm(experts, "post_feedforward_layernorm_2")});
  }

  std::string Mlp(const std::string& node, const std::string& path, const std::string& x) {
    const std::string up = nodes_.Linear(node + "/up_proj", x, path + "up_proj", config_.mlp_bias);
    std::string gate = up;
    if (config_.has_gates()) {
      gate = nodes_.Linear(node + "/gate_proj", x, path + "gate_proj", config_.mlp_bias);
    }
    const std::string product = Node(node + "/Mul", "Mul", {Activate(node + "/act", gate), up});
    return nodes_.Linear(node + "/down_proj", product, path + "down_proj", config_.mlp_bias);
  }

  std::string Activate(const std::string& node, const std::string& gate) {
    if (config_.activation == Activation::kSilu) {
      return Node(node + "/Mul", "Mul", {gate, Node(node + "/Sigmoid", "Sigmoid", {gate})});
    }
    if (config_.activation == Activation::kRelu2) return Node(node + "/Relu", "Relu", {gate});
    CHECK(config_.activation != Activation::kSwigluOai, "a dense MLP with gpt-oss' activation");
    const bool is_tanh = config_.activation == Activation::kGeluTanh;
    return Node(node + "/Gelu", "Gelu", {gate},
                {Attribute::Of("approximate", is_tanh ? "tanh" : "none")});
  }

  // A norm of a layer, where the model has it.
  std::string MaybeNorm(const std::string& node, const std::string& x, const std::string& prefix,
                        const std::string& name) {
    return name.empty() ? x : Norm(node + "/" + name + "/LayerNorm", x, prefix + name + ".weight");
  }

  // A layer whose boundaries carry the inputs of all layers behind the residual stream.
  std::string CarryingLayer(uint32_t layer, const std::string& carried) {
    const std::string prefix = LayerPrefix(layer);
    const std::string node = "/model/layers." + std::to_string(layer - 1);
    const uint32_t hidden = config_.hidden_columns, columns = config_.layer_inputs.columns;
    const std::string y = Blocks(layer, nodes_.Columns(node + "/stream", carried, 0, hidden));
    const std::string gate =
        nodes_.Linear(node + "/per_layer_input_gate", y, prefix + "per_layer_input_gate", false);
    const std::string input =
        nodes_.Columns(node + "/input", carried, hidden + (layer - 1) * columns, columns);
    const std::string mixed = Node(node + "/per_layer_input/Mul", "Mul",
                                   {Activate(node + "/per_layer_input/act", gate), input});
    const std::string out = nodes_.Linear(node + "/per_layer_projection", mixed,
                                          prefix + "per_layer_projection", false);
    const std::string added = Node(node + "/per_layer_input/Add", "Add",
                                   {y, MaybeNorm(node, out, prefix, "post_per_layer_input_norm")});
    std::string scaled = LayerScalar(node, layer, added);
    if (layer == config_.layer_count()) return scaled;
    return Node(node + "/carried", "Carry", {carried, scaled}, {}, kWeft);
  }

  std::string LayerScalar(const std::string& node, uint32_t layer, const std::string& x) {
    return config_.layer_scalars ? Times(node + "/layer_scalar", x, layer_scalars_[layer - 1]) : x;
  }

  std::string Layer(uint32_t layer, const std::string& hidden) {
    if (config_.layer_inputs.columns > 0) return CarryingLayer(layer, hidden);
    return LayerScalar("/model/layers." + std::to_string(layer - 1), layer, Blocks(layer, hidden));
  }

  // Attention and MLP, or one of them, and what they are added to.
  std::string Blocks(uint32_t layer, const std::string& hidden) {
    const std::string prefix = LayerPrefix(layer);
    const std::string node = "/model/layers." + std::to_string(layer - 1);
    const LayerNorms& norms = config_.norms;
    std::string normed, attended = hidden;
    if (config_.layers[layer - 1].mixer != Mixer::kNone) {
      normed = MaybeNorm(node, hidden, prefix, norms.attention_in);
      const std::string attention = MaybeNorm(node, Mix(node + "/attn", prefix, layer - 1, normed),
                                              prefix, norms.attention_out);
      attended = Node(node + "/attn/Add", "Add",
                      {hidden, Times(node + "/attn/scaled", attention, config_.residual_scale)});
    }
    if (!config_.layers[layer - 1].has_mlp) return attended;
    const std::string mlp_in =
        config_.parallel_blocks ? normed : MaybeNorm(node, attended, prefix, norms.mlp_in);
    const std::string mlp = MaybeNorm(node, Block(node + "/mlp", prefix, layer, attended, mlp_in),
                                      prefix, norms.mlp_out);
    return Node(node + "/mlp/Add", "Add",
                {attended, Times(node + "/mlp/scaled", mlp, config_.residual_scale)});
  }

  // Of a model that makes embeddings "logits" are the normed rows themselves.
  void Head(const std::string& hidden) {
    const std::string normed = Norm("/model/norm/LayerNorm", hidden, "model.norm.weight");
    if (config_.embeds) {
      nodes_.graph().nodes.back().outputs = {"logits"};
      return;
    }
    const std::string logits =
        Times("/lm_head/scaled", nodes_.Linear("/lm_head", normed, "lm_head", false),
              config_.logits_scale);
    if (config_.final_softcap != 0) {
      nodes_.Softcap("/lm_head/softcap", logits, config_.final_softcap);
    }
    nodes_.graph().nodes.back().outputs = {"logits"};
  }

  const ModelConfig& config_;
  const std::vector<float>& layer_scalars_;
  GraphNodes nodes_;
  std::string last_position_, total_length_, positions_;
  std::vector<RotaryTables> tables_;  // [rotation]
};

}  // namespace

std::string FrequenciesName(size_t index) {
  return index == 0 ? "rotary.inv_freq" : "rotary." + std::to_string(index) + ".inv_freq";
}

std::string OnesName(uint32_t columns) {
  return "ones." + std::to_string(columns);
}

bool HasOwnOperators(const ModelConfig& config) {
  const auto is_recurrent = [](Mixer mixer) { return mixer != Mixer::kAttention; };
  return std::ranges::any_of(config.layers, is_recurrent, &LayerConfig::mixer) ||
         HasOwnExperts(config) || config.latent.has_value() || !config.KeptTogether().empty();
}

BuiltModel BuildModel(const ModelConfig& config, const StoredWeights& weights,
                      const std::vector<float>& layer_scalars) {
  BuiltModel built = DecoderBuilder(config, weights, layer_scalars).Build();
  onnx::Model& model = built.model;
  model.opset_imports = {{"", 21}, {kMicrosoft, 1}};
  if (HasOwnOperators(config)) model.opset_imports[kWeft] = 1;
  model.producer_name = "weft";
  return built;
}

}  // namespace weft::convert
