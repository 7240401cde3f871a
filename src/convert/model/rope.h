// Rotary position embedding: the frequencies that a checkpoint's configuration asks for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "convert/source/json_reader.h"

namespace weft::convert {

// Meanings and defaults: transformers' modeling_rope_utils.
struct RopeConfig {
  enum class Kind { kDefault, kLinear, kLlama3, kYarn, kLongRope, kProportional };
  Kind kind = Kind::kDefault;
  double theta = 10000;
  uint32_t rotary_columns = 0;  // even, at most the columns of a head
  double factor = 1;            // all kinds but kDefault and kLongRope
  // kProportional: of the pairs of `rotary_columns`, the share that turns; the others stay.
  double turning_share = 1;
  double low_freq_factor = 1;  // kLlama3
  double high_freq_factor = 4;
  double original_context = 8192;  // kLlama3, kYarn
  double beta_fast = 32;           // kYarn
  double beta_slow = 1;
  bool truncate = true;
  std::vector<double> divisors;  // kLongRope: [rotary_columns / 2], of the frequencies
  float scale = 1;               // multiplies cos and sin
  bool operator==(const RopeConfig&) const = default;
};

struct Ropes {
  RopeConfig rope;
  std::optional<RopeConfig> local;         // of layers with a window, when it is another one
  std::optional<uint32_t> context_length;  // what the tables are for, when that is less than all
  std::vector<std::string> notes;          // sentences that a user should read
};

// Reads both spellings: `rope_parameters` (transformers 5; one for all layers, or one each for full
// and sliding attention) and `rope_theta` with `rope_scaling` and `rope_local_base_freq` (before).
// `local_head_columns`: of layers with a window, where their heads have another width.
// `context_length`: the positions that the model is to be made for; nullopt: all, but with longrope
// its original context. kUnsupported names a type that is none of default, linear, dynamic, llama3,
// yarn, longrope and proportional.
Result<Ropes> ReadRopes(const JsonReader& config, uint32_t head_columns,
                        std::optional<uint32_t> context_length = std::nullopt,
                        std::optional<uint32_t> local_head_columns = std::nullopt);

// Angle of column pair i at position p is p * result[i]. [rotary_columns / 2]
std::vector<float> InverseFrequencies(const RopeConfig& rope);

}  // namespace weft::convert
