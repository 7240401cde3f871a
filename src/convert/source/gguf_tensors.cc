#include "convert/source/gguf_tensors.h"

#include <algorithm>
#include <charconv>

#include "convert/source/json_reader.h"

namespace weft::convert {
namespace {

// "blk.3.attn_q.weight" -> layer 3, stem "attn_q", kind "weight".
struct TensorName {
  uint64_t layer = 0;
  std::string_view stem;
  std::string_view kind;  // "weight", "bias" or ""
};

std::optional<TensorName> ParseName(std::string_view name) {
  if (!name.starts_with("blk.")) return std::nullopt;
  name.remove_prefix(4);
  TensorName parsed;
  const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), parsed.layer);
  if (failure != std::errc() || end == name.data() + name.size() || *end != '.') return {};
  name.remove_prefix(static_cast<size_t>(end - name.data()) + 1);
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) {  // "blk.3.ssm_a"
    parsed.stem = name;
    return parsed;
  }
  parsed.stem = name.substr(0, dot);
  parsed.kind = name.substr(dot + 1);
  return parsed;
}

struct Pair {
  std::string_view gguf;
  std::string_view hugging_face;
};

std::string_view Lookup(std::span<const Pair> table, std::string_view gguf) {
  for (const Pair& pair : table) {
    if (pair.gguf == gguf) return pair.hugging_face;
  }
  return {};
}

constexpr Pair kOutside[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"token_embd_norm.weight", "model.norm.weight"},  // of LFM2: its final norm
    {"output.weight", "lm_head.weight"},
    {"per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight"},
    {"per_layer_model_proj.weight", "model.per_layer_model_projection.weight"},
    {"per_layer_proj_norm.weight", "model.per_layer_projection_norm.weight"}};
constexpr Pair kLayer[] = {{"attn_norm", "input_layernorm"},
                           {"attn_q", "self_attn.q_proj"},
                           {"attn_k", "self_attn.k_proj"},
                           {"attn_v", "self_attn.v_proj"},
                           {"attn_qkv", "self_attn.qkv_proj"},
                           {"attn_output", "self_attn.o_proj"},
                           {"attn_q_norm", "self_attn.q_norm"},
                           {"attn_k_norm", "self_attn.k_norm"},
                           {"ffn_norm", "post_attention_layernorm"},
                           {"ffn_gate_inp", "mlp.gate"},
                           {"ffn_gate", "mlp.gate_proj"},
                           {"ffn_up", "mlp.up_proj"},
                           {"ffn_down", "mlp.down_proj"}};
// What a family calls otherwise.
constexpr Pair kGemma[] = {{"post_attention_norm", "post_attention_layernorm"},
                           {"ffn_norm", "pre_feedforward_layernorm"},
                           {"post_ffw_norm", "post_feedforward_layernorm"}};
constexpr Pair kGemma4[] = {{"post_attention_norm", "post_attention_layernorm"},
                            {"ffn_norm", "pre_feedforward_layernorm"},
                            {"post_ffw_norm", "post_feedforward_layernorm"},
                            {"pre_ffw_norm_2", "pre_feedforward_layernorm_2"},
                            {"post_ffw_norm_1", "post_feedforward_layernorm_1"},
                            {"post_ffw_norm_2", "post_feedforward_layernorm_2"},
                            {"ffn_gate_inp", "router.proj"},
                            {"inp_gate", "per_layer_input_gate"},
                            {"proj", "per_layer_projection"},
                            {"post_norm", "post_per_layer_input_norm"}};
constexpr Pair kPhi3[] = {{"ffn_up", "mlp.gate_up_proj"}};
constexpr Pair kGptOss[] = {{"post_attention_norm", "post_attention_layernorm"},
                            {"ffn_gate_inp", "mlp.router"}};
constexpr Pair kSparse[] = {{"post_attention_norm", "post_attention_layernorm"},
                            {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
                            {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
                            {"ffn_down_shexp", "mlp.shared_experts.down_proj"},
                            {"attn_q_a", "self_attn.q_a_proj"},
                            {"attn_q_a_norm", "self_attn.q_a_layernorm"},
                            {"attn_q_b", "self_attn.q_b_proj"},
                            {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
                            {"attn_kv_a_norm", "self_attn.kv_a_layernorm"},
                            {"attn_kv_b", "self_attn.kv_b_proj"},
                            // The two parts of kv_b, of which GGUF has k transposed.
                            {"attn_k_b", "self_attn.k_b_proj"},
                            {"attn_v_b", "self_attn.v_b_proj"}};
constexpr Pair kDeltaNet[] = {{"post_attention_norm", "post_attention_layernorm"},
                              {"attn_qkv", "linear_attn.in_proj_qkv"},
                              {"attn_gate", "linear_attn.in_proj_z"},
                              {"ssm_alpha", "linear_attn.in_proj_a"},
                              {"ssm_beta", "linear_attn.in_proj_b"},
                              {"ssm_ba", "linear_attn.in_proj_ba"},
                              {"ssm_conv1d", "linear_attn.conv1d"},
                              {"ssm_norm", "linear_attn.norm"},
                              {"ssm_out", "linear_attn.out_proj"},
                              {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
                              {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
                              {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
                              {"ffn_down_shexp", "mlp.shared_expert.down_proj"}};
constexpr Pair kNormsAfter[] = {{"post_attention_norm", "post_attention_layernorm"},
                                {"post_ffw_norm", "post_feedforward_layernorm"}};
constexpr Pair kGlm4[] = {{"post_attention_norm", "post_self_attn_layernorm"},
                          {"post_ffw_norm", "post_mlp_layernorm"},
                          {"ffn_up", "mlp.gate_up_proj"}};
constexpr Pair kHunyuan[] = {{"attn_q_norm", "self_attn.query_layernorm"},
                             {"attn_k_norm", "self_attn.key_layernorm"}};
constexpr Pair kSeedOss[] = {{"post_attention_norm", "post_attention_layernorm"}};
constexpr Pair kShortConv[] = {{"shortconv.conv", "conv.conv"},
                               {"shortconv.in_proj", "conv.in_proj"},
                               {"shortconv.out_proj", "conv.out_proj"}};
constexpr Pair kMamba[] = {{"ssm_in", "mamba.in_proj"},
                           {"ssm_conv1d", "mamba.conv1d"},
                           {"ssm_norm", "mamba.norm"},
                           {"ssm_out", "mamba.out_proj"},
                           {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
                           {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
                           {"ffn_down_shexp", "mlp.shared_experts.down_proj"}};
// Vectors whose names end otherwise in the two forms.
struct Vector {
  std::string_view stem, kind;  // of the GGUF name
  std::string_view hugging_face;
};
constexpr Vector kDeltaNetVectors[] = {{"ssm_a", "", "linear_attn.A_log"},
                                       {"ssm_dt", "bias", "linear_attn.dt_bias"}};
constexpr Vector kMambaVectors[] = {
    {"ssm_a", "", "mamba.A_log"}, {"ssm_d", "", "mamba.D"}, {"ssm_dt", "bias", "mamba.dt_bias"}};
constexpr Vector kVectors[] = {{"exp_probs_b", "bias", "mlp.gate.e_score_correction_bias"},
                               {"attn_sinks", "weight", "self_attn.sinks"},
                               {"layer_output_scale", "weight", "layer_scalar"},
                               {"ffn_gate_inp", "scale", "router.scale"},
                               {"ffn_down_exps", "scale", "router.per_expert_scale"}};
// All experts of a layer in one tensor [experts, ...].
constexpr Pair kStacks[] = {{"ffn_gate_exps", "mlp.experts.gate_proj"},
                            {"ffn_up_exps", "mlp.experts.up_proj"},
                            {"ffn_gate_up_exps", "mlp.experts.gate_up_proj"},
                            {"ffn_down_exps", "mlp.experts.down_proj"}};

bool HasDeltaNet(std::string_view model_type) {
  return model_type.starts_with("qwen3_5") || model_type == "qwen3_next";
}

bool HasMamba(std::string_view model_type) {
  return model_type == "granitemoehybrid" || model_type == "nemotron_h";
}

std::span<const Pair> FamilyNames(std::string_view model_type) {
  if (model_type == "gemma2" || model_type == "gemma3_text") return kGemma;
  if (model_type == "gemma4_text") return kGemma4;
  if (model_type == "phi3") return kPhi3;
  if (model_type == "gpt_oss") return kGptOss;
  if (model_type == "glm4_moe" || model_type == "mistral4" || model_type.starts_with("deepseek_v"))
    return kSparse;
  if (HasDeltaNet(model_type)) return kDeltaNet;
  if (model_type == "olmo2" || model_type == "olmo3" || model_type == "exaone4") return kNormsAfter;
  if (model_type == "glm4") return kGlm4;
  if (model_type == "hunyuan_v1_dense") return kHunyuan;
  if (model_type == "seed_oss") return kSeedOss;
  if (model_type == "lfm2" || model_type == "lfm2_moe") return kShortConv;
  if (HasMamba(model_type)) return kMamba;
  return {};
}

std::span<const Vector> FamilyVectors(std::string_view model_type) {
  if (HasDeltaNet(model_type)) return kDeltaNetVectors;
  if (HasMamba(model_type)) return kMambaVectors;
  return {};
}

// llama.cpp rotates neighbouring columns in these architectures, of whose checkpoints it puts the
// rows of q and k in that order. (In others that it rotates so, checkpoints have that order.)
bool RowsAreInterleaved(std::string_view model_type) {
  constexpr std::string_view kPermuted[] = {"llama",   "mistral", "mixtral",          "ministral3",
                                            "granite", "smollm3", "granitemoehybrid", "nemotron_h"};
  return std::find(std::begin(kPermuted), std::end(kPermuted), model_type) != std::end(kPermuted);
}

class Renamer {
 public:
  Renamer(const std::string& model_type, uint64_t head_columns)
      : family_(FamilyNames(model_type)),
        family_vectors_(FamilyVectors(model_type)),
        is_gemma4_(model_type == "gemma4_text"),
        norms_hold_one_((model_type.starts_with("gemma") && !is_gemma4_) ||
                        HasDeltaNet(model_type)),
        rows_are_interleaved_(RowsAreInterleaved(model_type)),
        head_columns_(head_columns) {}

  Status Add(const std::string& name, const SourceTensor& tensor) {
    if (const auto outside = Lookup(kOutside, name); !outside.empty()) {
      return Put(std::string(outside), name, tensor);
    }
    const auto parsed = ParseName(name);
    if (!parsed) return OkStatus();
    const std::string prefix = "model.layers." + std::to_string(parsed->layer) + ".";
    if (const Vector* vector = FindVector(*parsed); vector != nullptr) {
      SourceTensor copy = tensor;
      SetDimensions(parsed->stem, &copy);
      copy.holds_decay = parsed->stem == "ssm_a";  // -exp(A_log)
      return Put(prefix + std::string(vector->hugging_face), name, std::move(copy));
    }
    if (auto stack = Lookup(kStacks, parsed->stem); !stack.empty()) {
      if (is_gemma4_) stack.remove_prefix(std::string_view("mlp.").size());
      const char* suffix = parsed->kind == "bias" ? "_bias" : "";
      return Put(prefix + std::string(stack) + suffix, name, tensor);
    }
    std::string_view stem = Lookup(family_, parsed->stem);
    if (stem.empty()) stem = Lookup(kLayer, parsed->stem);
    if (stem.empty()) return AddSingleExpert(*parsed, prefix, name, tensor);
    std::string target = prefix + std::string(stem) + "." + std::string(parsed->kind);
    SourceTensor copy = tensor;
    SetDimensions(parsed->stem, &copy);
    if (rows_are_interleaved_ && (parsed->stem == "attn_q" || parsed->stem == "attn_k")) {
      TRY(Interleave(name, &copy));
    }
    return Put(std::move(target), name, copy);
  }

  TensorMap Take() { return std::move(tensors_); }

 private:
  const Vector* FindVector(const TensorName& name) const {
    for (const std::span<const Vector> table :
         {family_vectors_, std::span<const Vector>(kVectors)}) {
      for (const Vector& vector : table) {
        if (vector.stem == name.stem && vector.kind == name.kind) return &vector;
      }
    }
    return nullptr;
  }

  // Shapes that Hugging Face checkpoints have otherwise: [channels, 1, taps] of a convolution, the
  // one row of the gate of the expert for all rows, and Mamba2's vectors, which are [heads, 1] and
  // [groups, columns of a group] in GGUF files.
  static void SetDimensions(std::string_view stem, SourceTensor* tensor) {
    std::vector<uint64_t>& shape = tensor->shape;
    const bool is_conv = stem == "ssm_conv1d" || stem == "shortconv.conv";
    if (is_conv && shape.size() == 2) shape.insert(shape.begin() + 1, 1);
    if (stem == "ffn_gate_inp_shexp" && shape.size() == 1) shape.insert(shape.begin(), 1);
    const bool is_vector = stem == "ssm_a" || stem == "ssm_d" || stem == "ssm_norm";
    if (is_vector && shape.size() == 2) shape = {shape[0] * shape[1]};
  }

  Status Interleave(const std::string& name, SourceTensor* tensor) const {
    const bool plain = tensor->format && BlockValues(*tensor->format) == 1;
    if (head_columns_ % 2 != 0 || tensor->shape[0] % head_columns_ != 0 ||
        (tensor->shape.size() == 1 && !plain)) {
      return Error(ErrorCode::kInvalidData,
                   "Tensor '" + name + "' of '" + tensor->file + "' has shape " +
                       ShapeText(tensor->shape) + " and type " + tensor->type_name +
                       "; expected whole heads of " + std::to_string(head_columns_) + " rows.");
    }
    tensor->interleaved_rows = head_columns_;
    return OkStatus();
  }

  // Files from before experts were stacked: "blk.0.ffn_gate.3.weight".
  Status AddSingleExpert(const TensorName& parsed, const std::string& prefix,
                         const std::string& name, const SourceTensor& tensor) {
    const size_t dot = parsed.stem.find('.');
    if (dot == std::string_view::npos) return OkStatus();
    const std::string_view kind = Lookup(kLayer, parsed.stem.substr(0, dot));
    const std::string_view index = parsed.stem.substr(dot + 1);
    if (!kind.starts_with("mlp.") || index.find_first_not_of("0123456789") != index.npos) {
      return OkStatus();
    }
    return Put(
        prefix + "mlp.experts." + std::string(index) + std::string(kind.substr(3)) + ".weight",
        name, tensor);
  }

  Status Put(std::string target, const std::string& name, SourceTensor tensor) {
    if (!tensor.format) {
      return Error(ErrorCode::kUnsupported, "Tensor '" + name + "' of '" + tensor.file +
                                                "' is of type " + tensor.type_name +
                                                "; weft converts " + SupportedGgufTypes() + ".");
    }
    tensor.own_name = name;
    tensor.norm_holds_one = norms_hold_one_ && tensor.shape.size() == 1;
    tensors_.emplace(std::move(target), std::move(tensor));
    return OkStatus();
  }

  std::span<const Pair> family_;
  std::span<const Vector> family_vectors_;
  bool is_gemma4_, norms_hold_one_, rows_are_interleaved_;
  uint64_t head_columns_;
  TensorMap tensors_;
};

}  // namespace

Result<TensorMap> HuggingFaceTensors(const GgufModel& model, const std::string& model_type,
                                     uint64_t head_columns) {
  Renamer renamer(model_type, head_columns);
  for (const auto& [name, tensor] : model.tensors) TRY(renamer.Add(name, tensor));
  return renamer.Take();
}

}  // namespace weft::convert
