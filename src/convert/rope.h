// Rotary position embedding: the frequencies that a checkpoint's configuration asks for.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "convert/json_reader.h"

namespace weft::convert {

struct RopeConfig {
  enum class Kind { kDefault, kLinear, kLlama3 };
  Kind kind = Kind::kDefault;
  double theta = 10000;
  uint32_t rotary_columns = 0;  // even, at most the columns of a head
  double factor = 1;            // kLinear, kLlama3
  double low_freq_factor = 1;   // kLlama3
  double high_freq_factor = 4;
  double original_context = 8192;
};

// Reads both spellings: `rope_parameters` (transformers 5) and `rope_theta` with `rope_scaling`
// (before). kUnsupported names a type that is none of default, linear and llama3.
Result<RopeConfig> ReadRope(const JsonReader& config, uint32_t head_columns);

// Angle of column pair i at position p is p * result[i]. [rotary_columns / 2]
std::vector<float> InverseFrequencies(const RopeConfig& rope);

}  // namespace weft::convert
