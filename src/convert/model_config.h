// What config.json says about a decoder, in one form for all supported families (families.cc).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "convert/rope.h"

namespace weft::convert {

struct ModelConfig {
  std::string architecture;  // config.json's model_type: "qwen3", "llama", ...
  uint32_t hidden_columns = 0;
  uint32_t mlp_columns = 0;
  uint32_t layer_count = 0;  // transformer layers
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_columns = 0;
  uint32_t vocabulary = 0;
  uint32_t context_length = 0;
  float rms_epsilon = 0;
  bool tied_embeddings = false;  // the head is the embedding table
  bool qkv_bias = false;
  bool output_bias = false;  // of the attention's output projection
  bool mlp_bias = false;
  bool qk_norm = false;             // RMS norm of each head of q and k
  bool packed_projections = false;  // qkv_proj and gate_up_proj instead of single matrices
  std::vector<uint32_t> windows;    // [layer_count]; 0: a layer attends to the whole past
  RopeConfig rope;
};

// Parses and checks config.json. Errors: kUnsupported for an architecture or a feature that weft
// does not convert (named, with what is supported), kInvalidData for values out of range.
Result<ModelConfig> ParseModelConfig(std::string_view config_json);

// "gemma, llama, ...": for help texts and messages.
std::string SupportedArchitectures();

}  // namespace weft::convert
