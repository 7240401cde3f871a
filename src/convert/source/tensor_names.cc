#include "convert/source/tensor_names.h"

#include <algorithm>
#include <span>

namespace weft::convert {
namespace {

// A name that begins with `from` begins with `to` instead.
struct Name {
  std::string_view from, to;
};

// Names outside of layers, and behind "model.layers.<n>.". The first that fits counts.
struct Names {
  std::span<const Name> outside, of_layers;
};

constexpr Name kLfm2Outside[] = {{"model.embedding_norm.", "model.norm."}};
constexpr Name kLfm2Layers[] = {{"operator_norm.", "input_layernorm."},
                                {"ffn_norm.", "post_attention_layernorm."},
                                {"self_attn.out_proj.", "self_attn.o_proj."},
                                {"self_attn.q_layernorm.", "self_attn.q_norm."},
                                {"self_attn.k_layernorm.", "self_attn.k_norm."},
                                {"feed_forward.w1.", "mlp.gate_proj."},
                                {"feed_forward.w2.", "mlp.down_proj."},
                                {"feed_forward.w3.", "mlp.up_proj."},
                                {"feed_forward.expert_bias", "mlp.gate.e_score_correction_bias"},
                                {"feed_forward.", "mlp."}};

constexpr Name kGraniteLayers[] = {
    {"block_sparse_moe.router.layer.", "mlp.router."},
    {"block_sparse_moe.input_linear.weight", "mlp.experts.gate_up_proj"},
    {"block_sparse_moe.output_linear.weight", "mlp.experts.down_proj"},
    {"shared_mlp.input_linear.", "mlp.shared_experts.gate_up_proj."},
    {"shared_mlp.output_linear.", "mlp.shared_experts.down_proj."}};
// Without experts.
constexpr Name kGraniteDenseLayers[] = {{"shared_mlp.input_linear.", "mlp.gate_up_proj."},
                                        {"shared_mlp.output_linear.", "mlp.down_proj."}};

// Of a layer there is one norm and one block, whatever it is.
constexpr Name kNemotronOutside[] = {{"backbone.layers.", "model.layers."},
                                     {"backbone.embeddings.", "model.embed_tokens."},
                                     {"backbone.norm_f.", "model.norm."},
                                     {"model.embeddings.", "model.embed_tokens."},
                                     {"model.norm_f.", "model.norm."}};
constexpr Name kNemotronLayers[] = {{"norm.", "input_layernorm."},
                                    {"mixer.q_proj.", "self_attn.q_proj."},
                                    {"mixer.k_proj.", "self_attn.k_proj."},
                                    {"mixer.v_proj.", "self_attn.v_proj."},
                                    {"mixer.o_proj.", "self_attn.o_proj."},
                                    {"mixer.experts.", "mlp.experts."},
                                    {"mixer.shared_experts.", "mlp.shared_experts."},
                                    {"mixer.gate.", "mlp.gate."},
                                    {"mixer.up_proj.", "mlp.up_proj."},
                                    {"mixer.down_proj.", "mlp.down_proj."},
                                    {"mixer.", "mamba."}};

Names NamesOf(std::string_view architecture, const TensorMap& tensors) {
  if (architecture == "lfm2" || architecture == "lfm2_moe") return {kLfm2Outside, kLfm2Layers};
  if (architecture == "nemotron_h") return {kNemotronOutside, kNemotronLayers};
  if (architecture != "granitemoehybrid") return {};
  const bool has_experts = std::ranges::any_of(tensors, [](const auto& tensor) {
    return tensor.first.find(".block_sparse_moe.") != std::string::npos;
  });
  if (has_experts) return {{}, kGraniteLayers};
  return {{}, kGraniteDenseLayers};
}

std::string Renamed(std::string name, size_t first, std::span<const Name> names) {
  const auto found = std::ranges::find_if(names, [&](const Name& n) {
    return std::string_view(name).substr(first).starts_with(n.from);
  });
  if (found != names.end()) name.replace(first, found->from.size(), found->to);
  return name;
}

}  // namespace

bool AreHeadless(const TensorMap& tensors) {
  const auto begins = [&](std::string_view with) {
    return std::ranges::any_of(tensors,
                               [&](const auto& tensor) { return tensor.first.starts_with(with); });
  };
  return begins("layers.0.") && !begins("model.");
}

void NameAsWithHead(TensorMap* tensors) {
  TensorMap renamed;
  for (auto& [own, tensor] : *tensors) {
    if (tensor.own_name.empty()) tensor.own_name = own;
    renamed.emplace("model." + own, std::move(tensor));
  }
  *tensors = std::move(renamed);
}

void RenameTensors(std::string_view architecture, TensorMap* tensors) {
  const Names names = NamesOf(architecture, *tensors);
  if (names.outside.empty() && names.of_layers.empty()) return;
  constexpr std::string_view kLayers = "model.layers.";
  TensorMap renamed;
  for (auto& [own, tensor] : *tensors) {
    std::string name = Renamed(own, 0, names.outside);
    if (name.starts_with(kLayers)) {
      const size_t dot = name.find('.', kLayers.size());
      if (dot != std::string::npos) name = Renamed(std::move(name), dot + 1, names.of_layers);
    }
    if (name != own && tensor.own_name.empty()) tensor.own_name = own;
    renamed.emplace(std::move(name), std::move(tensor));
  }
  *tensors = std::move(renamed);
}

}  // namespace weft::convert
