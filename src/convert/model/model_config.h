// What config.json says about a decoder, in one form for all supported families (families.cc).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "convert/model/rope.h"

namespace weft::convert {

enum class Activation { kSilu, kGeluTanh, kGelu, kSwigluOai };

// The experts of sparse layers.
struct ExpertConfig {
  uint32_t count = 0;
  uint32_t chosen = 0;   // experts a token goes to
  uint32_t columns = 0;  // width of one
  // The weights of the chosen experts are divided by their sum.
  bool normalized = true;
  bool router_bias = false;
  bool bias = false;  // of gate, up and down
};

// Plain data: a source other than config.json fills it in itself. What is not named is as in Llama.
struct ModelConfig {
  std::string architecture;  // config.json's model_type: "qwen3", "llama", ...
  uint32_t hidden_columns = 0;
  uint32_t mlp_columns = 0;  // of dense layers
  uint32_t layer_count = 0;  // transformer layers
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_columns = 0;
  uint32_t vocabulary = 0;
  uint32_t context_length = 0;  // positions the package is made for
  float rms_epsilon = 0;
  bool tied_embeddings = false;  // the head is the embedding table
  bool qkv_bias = false;
  bool output_bias = false;  // of the attention's output projection
  bool mlp_bias = false;
  bool qk_norm = false;             // RMS norm of each head of q and k
  bool packed_projections = false;  // qkv_proj and gate_up_proj instead of single matrices
  bool norms_add_one = false;       // the checkpoint's norm weights are w - 1
  bool post_norms = false;          // attention and MLP are normed before they are added, too
  bool sinks = false;               // an extra logit a head in the attention's softmax
  float embedding_scale = 1;        // rounded to the dtype of the embedding table before use
  float attention_scale = 0;        // of q . k; 0: 1 / sqrt(head_columns)
  float attention_softcap = 0;      // 0: none
  float final_softcap = 0;          // of the logits; 0: none
  Activation activation = Activation::kSilu;
  std::vector<uint32_t> windows;  // [layer_count]; 0: a layer attends to the whole past
  ExpertConfig experts;
  std::vector<bool> sparse;  // [layer_count] whether a layer has experts
  RopeConfig rope;
  std::optional<RopeConfig> local_rope;  // of layers with a window, where it differs from `rope`
  std::vector<std::string> notes;        // sentences that a user should read
};

}  // namespace weft::convert
