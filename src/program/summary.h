// What a layer does, read off its program: for people, not for engines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "program/ir.h"

namespace weft::program {

struct LayerSummary {
  // "attention", "delta rule", "selective scan", "short convolution"; "" where rows are not mixed.
  std::string mixer;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_columns = 0;
  uint32_t window = 0;               // 0: the whole past
  std::optional<uint32_t> kv_layer;  // whose keys and values it attends to
  uint32_t mlp_columns = 0;          // of the MLP that every row goes through; 0: none
  uint32_t experts = 0;              // 0: none
  uint32_t experts_per_token = 0;
  uint32_t expert_columns = 0;
  uint32_t expert_parts = 1;  // of each expert (expert_parts.h)
};

LayerSummary Summarise(const Program& program);

// "attention, 16 heads, 8 of keys, 128 columns, window 1024"; "" where rows are not mixed.
std::string MixerText(const LayerSummary& summary);
// "MLP of 3072", "8 of 128 experts of 768, MLP of 1024"; "" where there is neither.
std::string MlpText(const LayerSummary& summary);

}  // namespace weft::program
