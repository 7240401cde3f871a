// What config.json says about a decoder, in one form for all supported families (families.cc).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "convert/model/rope.h"
#include "package/manifest.h"

namespace weft::convert {

enum class Activation {
  kSilu,
  kGeluTanh,
  kGelu,
  kSwigluOai,
  kRelu2,  // relu(x)^2; MLPs and experts with it have no gate
};

// The experts of sparse layers.
struct ExpertConfig {
  uint32_t count = 0;
  uint32_t chosen = 0;   // experts a token goes to
  uint32_t columns = 0;  // width of one
  // The weights of the chosen experts are divided by their sum.
  bool normalized = true;
  bool router_bias = false;
  bool bias = false;  // of gate, up and down
  // Width of an expert that every row goes to, times the sigmoid of a number of its own; 0: none.
  uint32_t gated_shared_columns = 0;
  uint32_t shared_columns = 0;  // the same without such a number
  // How they are chosen (program/ir.h, MoeRoute).
  bool sigmoid = false;      // scores are sigmoids of the logits, not shares of a softmax
  bool choice_bias = false;  // added to scores for the choice alone
  uint32_t groups = 1;
  uint32_t top_groups = 1;
  uint32_t group_best = 1;
  float scale = 1;  // of the weights of the chosen
  // Beside a dense MLP, from the same row, each with norms of its own (Gemma 4). The choice reads
  // that row divided by its root mean square, and each expert's result has a factor.
  bool beside_mlp = false;

  // Whether softmax over the logits and the best of them is all that there is to the choice.
  bool plain_choice() const { return !sigmoid && !choice_bias && groups == 1 && scale == 1; }
};

// The norm of q and k.
enum class QkNorm {
  kNone,
  kHead,               // of each head, before the rotation
  kHeadAfterRotation,  // of each head, after it
  kRow,                // of all heads' columns as one row, before it
};

// The norms around the two blocks of a layer, by the names of their tensors in it; "": none there.
//   attended = x + out(attention(in(x)))      y = attended + out(mlp(in(attended)))
struct LayerNorms {
  std::string attention_in = "input_layernorm";
  std::string attention_out = {};
  std::string mlp_in = "post_attention_layernorm";
  std::string mlp_out = {};
};

// Of `ModelConfig::RotationOf`: a layer whose queries and keys are not rotated.
inline constexpr uint32_t kNoRotation = UINT32_MAX;

// What mixes the rows of a layer with those before them.
enum class Mixer {
  kAttention,
  kDeltaNet,   // Gated DeltaNet: a causal convolution, then the gated delta rule
  kShortConv,  // a short convolution between two gates
  kMamba2,     // a causal convolution, then a selective scan
  kNone,       // nothing: the layer is an MLP or experts alone
};

// Layers with Mixer::kShortConv: [b | c | x] = W_in row; out = W_out (c * conv(b * x)).
struct ShortConvConfig {
  uint32_t taps = 0;
  bool bias = false;  // of the convolution and of both projections
};

// Layers with Mixer::kMamba2 (program/ir.h, SsmScan):
//   [z | x, b, c | dt] = W_in row; out = W_out norm(silu(z) * scan(silu(conv(x, b, c)), dt))
struct MambaConfig {
  uint32_t heads = 0;
  uint32_t head_columns = 0;
  uint32_t groups = 0;  // of heads, with a b and a c each
  uint32_t state_columns = 0;
  uint32_t norm_groups = 1;  // neighbouring columns that are normed together
  uint32_t taps = 0;         // of the convolution
  bool conv_bias = false;
  bool bias = false;  // of both projections
  float dt_min = 0;
  float dt_max = 0;  // 0: no upper limit

  uint64_t width() const { return uint64_t{heads} * head_columns; }
  uint64_t conv_width() const { return width() + 2 * uint64_t{groups} * state_columns; }
};

// Gated DeltaNet of layers with Mixer::kDeltaNet.
struct DeltaNetConfig {
  uint32_t key_heads = 0;
  uint32_t value_heads = 0;  // a multiple of key_heads
  uint32_t key_columns = 0;  // of a head
  uint32_t value_columns = 0;
  uint32_t taps = 0;    // of the convolution
  bool tiled = false;   // value head j reads key head j % key_heads, as GGUF orders them
  bool packed = false;  // in_proj_qkvz and in_proj_ba by key head: Qwen3-Next

  uint64_t key_width() const { return uint64_t{key_heads} * key_columns; }
  uint64_t value_width() const { return uint64_t{value_heads} * value_columns; }
  uint64_t conv_width() const { return 2 * key_width() + value_width(); }
};

// Multi-head latent attention: what is kept of a position is one row [rotated | latent], which
// every head's keys and values are made of. In absorbed form, with the two matrices of a head,
//   k = [W_k latent | rotated], v = W_v latent:
//   q . k = [q_rotated | W_k^T q_plain] . [rotated | latent],  sum p v = W_v (sum p latent)
// so that attention has heads * (rope + rank) query columns over one key and value head.
struct LatentConfig {
  uint32_t query_rank = 0;  // 0: queries are made of the row itself
  uint32_t rank = 0;        // columns of the latent
  uint32_t nope = 0;        // columns of a head's query that are not rotated
  uint32_t rope = 0;        // and those that are, shared by the keys of all heads
  uint32_t value = 0;       // columns of a head's value
  bool bias = false;        // of the projections from the row
};

// Embeddings of a layer's own (Gemma 4 E2B and E4B): of every token a row of `columns` for each
// layer, mixed with a product of the token's embedding,
//   input = (norm(W embedded / sqrt(hidden)) + scale * row) / sqrt(2)
// at the layer's end: y += norm(out(act(gate(y)) * input)).
struct LayerInputConfig {
  uint32_t columns = 0;     // 0: none
  uint32_t vocabulary = 0;  // rows of their table
  float scale = 1;
};

// Of the norms of latents, whatever the model's own is.
inline constexpr float kLatentEpsilon = 1e-6f;

// One transformer layer. The layers of a model may differ in these.
struct LayerConfig {
  Mixer mixer = Mixer::kAttention;
  uint32_t window = 0;       // of attention, in positions; 0: the whole past
  bool has_mlp = true;       // or experts; a layer without them only mixes
  bool has_experts = false;  // in place of an MLP, or beside it (ExpertConfig::beside_mlp)
  uint32_t head_columns = 0;
  uint32_t kv_heads = 0;
  uint32_t mlp_columns = 0;
  bool rotates = true;              // its queries and keys
  std::optional<RopeConfig> rope;   // instead of the model's
  bool keys_are_values = false;     // v is k before its norm and rotation: there is no v_proj
  std::optional<uint32_t> kv_from;  // the earlier layer whose keys and values it attends to
};

// Plain data: a source other than config.json fills it in itself. What is not named is as in Llama.
struct ModelConfig {
  std::string architecture;  // config.json's model_type: "qwen3", "llama", ...
  uint32_t hidden_columns = 0;
  uint32_t mlp_columns = 0;  // of dense layers
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
  QkNorm qk_norm = QkNorm::kNone;
  std::string q_norm = "q_norm", k_norm = "k_norm";  // the tensors of that norm
  bool value_norm = false;      // each head of v is divided by its root mean square
  bool packed_qkv = false;      // qkv_proj instead of single matrices
  bool packed_gate_up = false;  // gate_up_proj instead of two matrices, of shared experts, too
  bool norms_add_one = false;   // the checkpoint's norm weights are w - 1
  bool mean_norms = false;      // norms subtract the mean (LayerNorm without bias), not RMS
  LayerNorms norms;
  // Attention and MLP read the same normed row, and both are added to what it was made of.
  bool parallel_blocks = false;
  bool attention_gate = false;          // q_proj has [q | gate] a head; attention * sigmoid(gate)
  bool sinks = false;                   // an extra logit a head in the attention's softmax
  float embedding_scale = 1;            // of the rows of the embedding table
  bool rounds_embedding_scale = false;  // to the dtype of that table, before use
  float residual_scale = 1;             // of what attention and MLP add to the residual stream
  float logits_scale = 1;
  float attention_scale = 0;    // of q . k; 0: 1 / sqrt(head_columns)
  float attention_softcap = 0;  // 0: none
  float final_softcap = 0;      // of the logits; 0: none
  Activation activation = Activation::kSilu;
  std::vector<LayerConfig> layers;
  DeltaNetConfig delta_net;
  ShortConvConfig short_conv;
  MambaConfig mamba;
  // Where it is set heads have rope + rank columns, and keys and values one head.
  std::optional<LatentConfig> latent;
  ExpertConfig experts;
  RopeConfig rope;
  std::optional<RopeConfig> local_rope;  // of layers with a window, where it differs from `rope`
  bool interleaved_pairs = false;        // rotations turn columns 2i and 2i + 1, not i and i + half
  LayerInputConfig layer_inputs;
  // Each layer ends with a product with one number of the checkpoint, "layer_scalar".
  bool layer_scalars = false;
  bool embeds = false;   // it makes embeddings: what follows the last layer is a norm alone
  bool wrapped = false;  // the tensors have the names of a model with a tower for pictures
  std::vector<std::string> notes;  // sentences that a user should read

  bool has_gates() const { return activation != Activation::kRelu2; }
  uint32_t layer_count() const { return static_cast<uint32_t>(layers.size()); }
  // Columns of the rows from one layer of the package to the next: the residual stream, and with it
  // the inputs of layers still to come.
  uint32_t BoundaryColumns(uint32_t package_layer) const {
    const bool carries = package_layer < layer_count();
    return hidden_columns + (carries ? layer_count() * layer_inputs.columns : 0);
  }
  // The package's layers that share what crosses no boundary of a package: keys and values, or
  // inputs of layers.
  std::vector<LayerRange> KeptTogether() const;
  // Every rotation of the model once, and which of them a transformer layer, counted from 0, has
  // (kNoRotation: none).
  std::vector<RopeConfig> Rotations() const;
  uint32_t RotationOf(uint32_t layer) const;
};

}  // namespace weft::convert
