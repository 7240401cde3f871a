#include "convert/weight_plan.h"

#include "convert/json_reader.h"

namespace weft::convert {
namespace {

// Collects the weights of one layer.
class LayerPlanner {
 public:
  explicit LayerPlanner(std::string prefix) : prefix_(std::move(prefix)) {}

  void Vector(const std::string& name, uint64_t columns) {
    weights_.push_back(
        {prefix_ + name, prefix_ + name, WeightRole::kVector, {columns}, 0, {columns}});
  }
  void Matrix(const std::string& name, uint64_t rows, uint64_t columns,
              WeightRole role = WeightRole::kMatrix) {
    weights_.push_back({prefix_ + name, prefix_ + name, role, {rows, columns}, 0, {rows, columns}});
  }
  // Consecutive row ranges of the matrix `source` become the matrices `parts`.
  void Packed(const std::string& source, std::vector<std::pair<std::string, uint64_t>> parts,
              uint64_t columns) {
    uint64_t all_rows = 0;
    for (const auto& [name, rows] : parts) all_rows += rows;
    uint64_t first_row = 0;
    for (const auto& [name, rows] : parts) {
      weights_.push_back({prefix_ + name,
                          prefix_ + source,
                          WeightRole::kMatrix,
                          {rows, columns},
                          first_row,
                          {all_rows, columns}});
      first_row += rows;
    }
  }
  std::vector<PlannedWeight> Take() { return std::move(weights_); }

 private:
  std::string prefix_;
  std::vector<PlannedWeight> weights_;
};

std::vector<PlannedWeight> PlanTransformer(const ModelConfig& config, const std::string& prefix) {
  const uint64_t hidden = config.hidden_columns, mlp = config.mlp_columns;
  const uint64_t q = uint64_t{config.heads} * config.head_columns;
  const uint64_t kv = uint64_t{config.kv_heads} * config.head_columns;
  LayerPlanner plan(prefix);
  plan.Vector("input_layernorm.weight", hidden);
  if (config.packed_projections) {
    plan.Packed("self_attn.qkv_proj.weight",
                {{"self_attn.q_proj.weight", q},
                 {"self_attn.k_proj.weight", kv},
                 {"self_attn.v_proj.weight", kv}},
                hidden);
  } else {
    plan.Matrix("self_attn.q_proj.weight", q, hidden);
    plan.Matrix("self_attn.k_proj.weight", kv, hidden);
    plan.Matrix("self_attn.v_proj.weight", kv, hidden);
  }
  if (config.qkv_bias) {
    plan.Vector("self_attn.q_proj.bias", q);
    plan.Vector("self_attn.k_proj.bias", kv);
    plan.Vector("self_attn.v_proj.bias", kv);
  }
  if (config.qk_norm) {
    plan.Vector("self_attn.q_norm.weight", config.head_columns);
    plan.Vector("self_attn.k_norm.weight", config.head_columns);
  }
  plan.Matrix("self_attn.o_proj.weight", hidden, q);
  if (config.output_bias) plan.Vector("self_attn.o_proj.bias", hidden);
  plan.Vector("post_attention_layernorm.weight", hidden);
  if (config.packed_projections) {
    plan.Packed("mlp.gate_up_proj.weight",
                {{"mlp.gate_proj.weight", mlp}, {"mlp.up_proj.weight", mlp}}, hidden);
  } else {
    plan.Matrix("mlp.gate_proj.weight", mlp, hidden);
    plan.Matrix("mlp.up_proj.weight", mlp, hidden);
  }
  plan.Matrix("mlp.down_proj.weight", hidden, mlp);
  if (config.mlp_bias) {
    plan.Vector("mlp.gate_proj.bias", mlp);
    plan.Vector("mlp.up_proj.bias", mlp);
    plan.Vector("mlp.down_proj.bias", hidden);
  }
  return plan.Take();
}

}  // namespace

std::string LayerPrefix(uint32_t package_layer) {
  return "model.layers." + std::to_string(package_layer - 1) + ".";
}

std::vector<std::vector<PlannedWeight>> PlanWeights(const ModelConfig& config) {
  std::vector<std::vector<PlannedWeight>> layers;
  LayerPlanner embedding("model.");
  embedding.Matrix("embed_tokens.weight", config.vocabulary, config.hidden_columns,
                   WeightRole::kVocabulary);
  layers.push_back(embedding.Take());
  for (uint32_t layer = 1; layer <= config.layer_count; ++layer) {
    layers.push_back(PlanTransformer(config, LayerPrefix(layer)));
  }
  LayerPlanner head("");
  head.Vector("model.norm.weight", config.hidden_columns);
  head.Matrix("lm_head.weight", config.vocabulary, config.hidden_columns, WeightRole::kVocabulary);
  layers.push_back(head.Take());
  if (config.tied_embeddings) layers.back().back().source = layers.front().front().source;
  return layers;
}

Status CheckWeights(const std::vector<std::vector<PlannedWeight>>& plan, const TensorMap& tensors) {
  for (const auto& layer : plan) {
    for (const PlannedWeight& weight : layer) {
      const std::string expected =
          "expected shape " + ShapeText(weight.source_shape) + " in F32, F16 or BF16";
      const auto found = tensors.find(weight.source);
      if (found == tensors.end()) {
        return Error(ErrorCode::kInvalidData,
                     "The checkpoint lacks the tensor '" + weight.source + "' (" + expected + ").");
      }
      const SourceTensor& tensor = found->second;
      if (tensor.shape != weight.source_shape || !tensor.format) {
        return Error(ErrorCode::kInvalidData, "Tensor '" + weight.source + "' of '" + tensor.file +
                                                  "' has shape " + ShapeText(tensor.shape) +
                                                  " and dtype " + tensor.type_name + "; " +
                                                  expected + ".");
      }
    }
  }
  return OkStatus();
}

}  // namespace weft::convert
