// Families whose layers carry recurrent state (families.h).
#pragma once

#include <string_view>

#include "base/result.h"
#include "convert/model/model_config.h"
#include "convert/source/json_reader.h"

namespace weft::convert {

// Qwen3.5 and what follows it: three layers of Gated DeltaNet, then one of gated attention.
Status AdjustQwen35(const JsonReader& config, ModelConfig* model);

// LFM2 and LFM2.5: layers of a short convolution between two gates, some of attention.
inline constexpr std::string_view kLfm2Defaults =
    R"({"tie_word_embeddings": true, "rms_norm_eps": 1e-5, "rope_theta": 1000000.0,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 65536,
        "max_position_embeddings": 128000, "num_experts": 32, "num_experts_per_tok": 4,
        "moe_intermediate_size": 1792, "num_dense_layers": 2})";
Status RenameLfm2Keys(boost::json::object* config);
Status AdjustLfm2(const JsonReader& config, ModelConfig* model);
Status AdjustLfm2Moe(const JsonReader& config, ModelConfig* model);

// Nemotron-H: every layer is one block, of Mamba2, of attention without rotation, an MLP, or
// experts; MLPs and experts are relu(x)^2 without a gate.
inline constexpr std::string_view kNemotronDefaults =
    R"({"rms_norm_eps": 1e-5, "vocab_size": 131072,
        "max_position_embeddings": 4096, "num_key_value_heads": 8, "head_dim": 128,
        "n_routed_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 21504})";
Status RenameNemotronKeys(boost::json::object* config);
Status AdjustNemotronH(const JsonReader& config, ModelConfig* model);

// Granite 4 H: layers of Mamba2, some of attention, each with experts or an MLP.
Status AdjustGraniteHybrid(const JsonReader& config, ModelConfig* model);

}  // namespace weft::convert
