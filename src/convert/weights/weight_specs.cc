#include "convert/weights/weight_specs.h"

#include <algorithm>
#include <cmath>

#include "convert/source/json_reader.h"
#include "convert/weights/expert_specs.h"
#include "convert/weights/latent_specs.h"
#include "convert/weights/recurrent_specs.h"

namespace weft::convert {
namespace {

// Collects the weights of one layer.
class LayerSpecs {
 public:
  LayerSpecs(const ModelConfig& config, std::string prefix)
      : config_(config), prefix_(std::move(prefix)) {}

  void Vector(const std::string& name, uint64_t columns) {
    const std::string tensor = prefix_ + name;
    weights_.push_back(
        {tensor, WeightRole::kVector, {columns}, {{tensor, {columns}, 1, columns}}, 0, {}});
  }
  void Norm(const std::string& name, uint64_t columns) {
    Vector(name, columns);
    if (config_.norms_add_one) weights_.back().offset = 1;
  }
  void Matrix(const std::string& name, uint64_t rows, uint64_t columns,
              WeightRole role = WeightRole::kMatrix) {
    const std::string tensor = prefix_ + name;
    weights_.push_back(
        {tensor, role, {rows, columns}, {{tensor, {rows, columns}, rows, columns}}, 0, {}});
  }
  // Consecutive row ranges of the matrix `source` become the matrices `parts`.
  void Packed(const std::string& source, std::vector<std::pair<std::string, uint64_t>> parts,
              uint64_t columns) {
    uint64_t all_rows = 0;
    for (const auto& [name, rows] : parts) all_rows += rows;
    uint64_t first_row = 0;
    for (const auto& [name, rows] : parts) {
      weights_.push_back({prefix_ + name,
                          WeightRole::kMatrix,
                          {rows, columns},
                          {{prefix_ + source, {all_rows, columns}, rows, columns, first_row}},
                          0,
                          {}});
      first_row += rows;
    }
  }
  // A projection whose rows are [first | second] of every head: the two as matrices of their own,
  // and their biases.
  void Halves(const std::string& source, const std::string& first, const std::string& second,
              bool has_bias, uint64_t columns) {
    const uint64_t rows = config_.head_columns, heads = config_.heads;
    for (uint64_t half = 0; half < 2; ++half) {
      const std::string name = prefix_ + (half == 0 ? first : second);
      std::vector<SourcePiece> pieces;
      for (uint64_t head = 0; head < heads; ++head) {
        pieces.push_back({prefix_ + source + ".weight",
                          {2 * heads * rows, columns},
                          rows,
                          columns,
                          (2 * head + half) * rows});
      }
      weights_.push_back(
          {name + ".weight", WeightRole::kMatrix, {heads * rows, columns}, pieces, 0, {}});
      if (!has_bias) continue;
      weights_.push_back({name + ".bias",
                          WeightRole::kVector,
                          {heads * rows},
                          {{prefix_ + source + ".bias", {2 * heads * rows}, heads, rows, half, 2}},
                          0,
                          {}});
    }
  }
  std::vector<WeightSpec>& weights() { return weights_; }

 private:
  const ModelConfig& config_;
  std::string prefix_;
  std::vector<WeightSpec> weights_;
};

void SpecifyProjections(const ModelConfig& config, uint32_t index, LayerSpecs* specs) {
  const uint64_t hidden = config.hidden_columns, head_columns = config.layers[index].head_columns;
  const uint64_t q = config.heads * head_columns, kv = config.layers[index].kv_heads * head_columns;
  const bool makes_kv = !config.layers[index].kv_from;
  const bool has_values = makes_kv && !config.layers[index].keys_are_values;
  if (config.packed_qkv) {
    specs->Packed("self_attn.qkv_proj.weight",
                  {{"self_attn.q_proj.weight", q},
                   {"self_attn.k_proj.weight", kv},
                   {"self_attn.v_proj.weight", kv}},
                  hidden);
  } else {
    if (config.attention_gate) {
      specs->Halves("self_attn.q_proj", "self_attn.q_proj", "self_attn.gate_proj", config.qkv_bias,
                    hidden);
    } else {
      specs->Matrix("self_attn.q_proj.weight", q, hidden);
    }
    if (makes_kv) specs->Matrix("self_attn.k_proj.weight", kv, hidden);
    if (has_values) specs->Matrix("self_attn.v_proj.weight", kv, hidden);
  }
  if (!config.qkv_bias) return;
  if (!config.attention_gate) specs->Vector("self_attn.q_proj.bias", q);
  if (makes_kv) specs->Vector("self_attn.k_proj.bias", kv);
  if (has_values) specs->Vector("self_attn.v_proj.bias", kv);
}

void SpecifyAttention(const ModelConfig& config, uint32_t index, LayerSpecs* specs) {
  const uint64_t hidden = config.hidden_columns, head_columns = config.layers[index].head_columns;
  const uint64_t q = config.heads * head_columns, kv = config.layers[index].kv_heads * head_columns;
  SpecifyProjections(config, index, specs);
  if (config.qk_norm != QkNorm::kNone) {
    const bool whole = config.qk_norm == QkNorm::kRow;
    specs->Norm("self_attn." + config.q_norm + ".weight", whole ? q : head_columns);
    if (!config.layers[index].kv_from) {
      specs->Norm("self_attn." + config.k_norm + ".weight", whole ? kv : head_columns);
    }
  }
  if (config.sinks) specs->Vector("self_attn.sinks", config.heads);
  specs->Matrix("self_attn.o_proj.weight", hidden, q);
  if (config.output_bias) specs->Vector("self_attn.o_proj.bias", hidden);
}

// The matrices of an MLP, or of an expert that every row goes to.
void SpecifyMatrices(const ModelConfig& config, const std::string& path, uint64_t width,
                     LayerSpecs* specs) {
  const uint64_t hidden = config.hidden_columns;
  if (!config.has_gates()) {
    specs->Matrix(path + "up_proj.weight", width, hidden);
  } else if (config.packed_gate_up) {
    specs->Packed(path + "gate_up_proj.weight",
                  {{path + "gate_proj.weight", width}, {path + "up_proj.weight", width}}, hidden);
  } else {
    specs->Matrix(path + "gate_proj.weight", width, hidden);
    specs->Matrix(path + "up_proj.weight", width, hidden);
  }
  specs->Matrix(path + "down_proj.weight", hidden, width);
}

void SpecifyMlp(const ModelConfig& config, uint32_t index, LayerSpecs* specs) {
  const uint64_t hidden = config.hidden_columns, mlp = config.layers[index].mlp_columns;
  SpecifyMatrices(config, "mlp.", mlp, specs);
  if (config.mlp_bias) {
    if (config.has_gates()) specs->Vector("mlp.gate_proj.bias", mlp);
    specs->Vector("mlp.up_proj.bias", mlp);
    specs->Vector("mlp.down_proj.bias", hidden);
  }
}

void SpecifySharedExpert(const ModelConfig& config, LayerSpecs* specs) {
  const uint64_t hidden = config.hidden_columns, width = config.experts.gated_shared_columns;
  if (const uint64_t ungated = config.experts.shared_columns; ungated > 0) {
    SpecifyMatrices(config, "mlp.shared_experts.", ungated, specs);
  }
  if (width == 0) return;
  SpecifyMatrices(config, "mlp.shared_expert.", width, specs);
  specs->Matrix("mlp.shared_expert_gate.weight", 1, hidden, WeightRole::kRouter);
}

// The norms of experts beside an MLP, and what the row is multiplied with before the choice.
void SpecifyBesideMlp(const ModelConfig& config, LayerSpecs* specs) {
  for (const char* name : {"post_feedforward_layernorm_1", "pre_feedforward_layernorm_2",
                           "post_feedforward_layernorm_2"}) {
    specs->Norm(std::string(name) + ".weight", config.hidden_columns);
  }
  specs->Vector("router.scale", config.hidden_columns);
  specs->weights().back().factor = 1 / std::sqrt(static_cast<float>(config.hidden_columns));
}

// What the embedding layer makes the inputs of all layers of. Their table has one row of all layers
// for each token; the package has a table for each layer, which fits the buffers of small GPUs.
void SpecifyLayerInputs(const ModelConfig& config, LayerSpecs* specs) {
  const LayerInputConfig& inputs = config.layer_inputs;
  const uint64_t count = config.layer_count(), columns = inputs.columns;
  const std::string tensor = "model.embed_tokens_per_layer.weight";
  for (uint64_t layer = 0; layer < count; ++layer) {
    specs->weights().push_back(
        {LayerTableName(static_cast<uint32_t>(layer)),
         WeightRole::kTable,
         {inputs.vocabulary, columns},
         {{tensor, {inputs.vocabulary, count * columns}, inputs.vocabulary, columns, layer, count}},
         0,
         {}});
  }
  specs->Matrix("per_layer_model_projection.weight", count * columns, config.hidden_columns);
  specs->Norm("per_layer_projection_norm.weight", columns);
}

std::vector<WeightSpec> SpecifyTransformer(const ModelConfig& config, uint32_t layer,
                                           const TensorMap& tensors) {
  LayerSpecs specs(config, LayerPrefix(layer));
  if (config.layers[layer - 1].mixer != Mixer::kAttention) {
    SpecifyRecurrent(config, layer, tensors, &specs.weights());
  } else if (config.latent) {
    SpecifyLatent(config, layer, tensors, &specs.weights());
  } else {
    SpecifyAttention(config, layer - 1, &specs);
  }
  const LayerNorms& norms = config.norms;
  const bool mixes = config.layers[layer - 1].mixer != Mixer::kNone;
  const bool has_mlp = config.layers[layer - 1].has_mlp;
  for (const std::string* name :
       {&norms.attention_in, &norms.attention_out, &norms.mlp_in, &norms.mlp_out}) {
    const bool is_mlps = name == &norms.mlp_in || name == &norms.mlp_out;
    const bool is_used = !name->empty() && !(config.parallel_blocks && name == &norms.mlp_in) &&
                         (is_mlps ? has_mlp : mixes);
    if (is_used) specs.Norm(*name + ".weight", config.hidden_columns);
  }
  if (config.layer_scalars) specs.Vector("layer_scalar", 1);
  if (const uint64_t columns = config.layer_inputs.columns; columns > 0) {
    specs.Matrix("per_layer_input_gate.weight", columns, config.hidden_columns);
    specs.Matrix("per_layer_projection.weight", config.hidden_columns, columns);
    specs.Norm("post_per_layer_input_norm.weight", config.hidden_columns);
  }
  if (!has_mlp) return std::move(specs.weights());
  const bool has_experts = config.layers[layer - 1].has_experts;
  if (has_experts) {
    SpecifyExperts(config, layer, tensors, &specs.weights());
    SpecifySharedExpert(config, &specs);
  }
  if (has_experts && config.experts.beside_mlp) SpecifyBesideMlp(config, &specs);
  if (!has_experts || config.experts.beside_mlp) SpecifyMlp(config, layer - 1, &specs);
  return std::move(specs.weights());
}

Error WrongTensor(const std::string& name, const SourceTensor& tensor,
                  const std::string& expected) {
  return Error(ErrorCode::kInvalidData, "Tensor '" + NameInFile(name, tensor) + "' of '" +
                                            tensor.file + "' has shape " + ShapeText(tensor.shape) +
                                            " and dtype " + tensor.type_name + "; " + expected +
                                            ".");
}

Status CheckTensor(const std::string& name, const std::vector<uint64_t>& shape, bool is_bytes,
                   const TensorMap& tensors) {
  const std::string expected =
      "expected shape " + ShapeText(shape) + (is_bytes ? " in U8" : " in F32, F16 or BF16");
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    return Error(ErrorCode::kInvalidData,
                 "The checkpoint lacks the tensor '" + name + "' (" + expected + ").");
  }
  const SourceTensor& tensor = found->second;
  const bool fits = is_bytes ? tensor.type_name == "U8" : tensor.format.has_value();
  return tensor.shape == shape && fits ? OkStatus() : WrongTensor(name, tensor, expected);
}

// Rows of a coded matrix are read whole, or by value.
Status CheckCoded(const SourcePiece& piece, const SourceTensor& tensor) {
  if (piece.transposed || (tensor.shape.size() > 1 && piece.columns == tensor.shape.back())) {
    return OkStatus();
  }
  return WrongTensor(piece.tensor, tensor, "expected F32, F16 or BF16");
}

Status CheckPiece(const SourcePiece& piece, const TensorMap& tensors) {
  if (!piece.factors.empty()) TRY(CheckTensor(piece.factors, {piece.factor_count}, false, tensors));
  const bool is_mxfp4 = !piece.exponents.empty();
  TRY(CheckTensor(piece.tensor, piece.shape, is_mxfp4, tensors));
  if (!is_mxfp4) {
    // Single values are read out of the middle of a row.
    const SourceTensor& tensor = tensors.find(piece.tensor)->second;
    if (IsCoded(*tensor.format)) return CheckCoded(piece, tensor);
    const uint64_t block = BlockValues(*tensor.format);
    if (piece.columns % block != 0 && !piece.transposed && tensor.shape.size() > 1 &&
        piece.columns != tensor.shape.back()) {
      return WrongTensor(piece.tensor, tensor,
                         "expected blocks that lie in one of its parts of " +
                             std::to_string(piece.columns) + " columns");
    }
    const bool by_value = piece.transposed || (piece.columns == 1 && piece.rows > 1) ||
                          (piece.shape.size() == 1 && tensor.interleaved_rows > 0);
    if (!by_value || BlockValues(*tensor.format) == 1) return OkStatus();
    return WrongTensor(piece.tensor, tensor, "expected F32, F16 or BF16");
  }
  if (piece.columns % kBlockValues != 0) {
    return Error(ErrorCode::kUnsupported, "Tensor '" + piece.tensor + "' holds rows of " +
                                              std::to_string(piece.columns) +
                                              " values in mxfp4, which has blocks of 32.");
  }
  std::vector<uint64_t> shape = piece.shape;
  shape.pop_back();
  return CheckTensor(piece.exponents, shape, true, tensors);
}

}  // namespace

std::vector<std::vector<WeightSpec>> SpecifyWeights(const ModelConfig& config,
                                                    const TensorMap& tensors) {
  std::vector<std::vector<WeightSpec>> layers;
  LayerSpecs embedding(config, "model.");
  embedding.Matrix("embed_tokens.weight", config.vocabulary, config.hidden_columns,
                   WeightRole::kVocabulary);
  if (config.layer_inputs.columns > 0) SpecifyLayerInputs(config, &embedding);
  layers.push_back(std::move(embedding.weights()));
  for (uint32_t layer = 1; layer <= config.layer_count(); ++layer) {
    layers.push_back(SpecifyTransformer(config, layer, tensors));
  }
  LayerSpecs head(config, "");
  head.Norm("model.norm.weight", config.hidden_columns);
  if (!config.embeds)
    head.Matrix("lm_head.weight", config.vocabulary, config.hidden_columns,
                WeightRole::kVocabulary);
  layers.push_back(std::move(head.weights()));
  if (config.tied_embeddings && !config.embeds)
    layers.back().back().pieces = layers.front().front().pieces;
  return layers;
}

Status CheckWeights(const std::vector<std::vector<WeightSpec>>& specs, const TensorMap& tensors) {
  for (const auto& layer : specs) {
    for (const WeightSpec& weight : layer) {
      for (const SourcePiece& piece : weight.pieces) TRY(CheckPiece(piece, tensors));
    }
  }
  return OkStatus();
}

RowFormat FormatOf(const SourcePiece& piece, const TensorMap& tensors) {
  if (!piece.exponents.empty()) return RowFormat::kMxfp4;
  return *tensors.find(piece.tensor)->second.format;
}

bool HasZeroPoints(const WeightSpec& weight, const TensorMap& tensors) {
  return std::any_of(weight.pieces.begin(), weight.pieces.end(), [&](const SourcePiece& piece) {
    return FormatOf(piece, tensors) == RowFormat::kGroups4Zero;
  });
}

uint64_t SourceByteCount(const SourcePiece& piece, const TensorMap& tensors) {
  return piece.rows * RowBytes(FormatOf(piece, tensors), piece.columns);
}

uint64_t SourceByteCount(const WeightSpec& weight, const TensorMap& tensors) {
  uint64_t byte_count = 0;
  for (const SourcePiece& piece : weight.pieces) byte_count += SourceByteCount(piece, tensors);
  return byte_count;
}

}  // namespace weft::convert
