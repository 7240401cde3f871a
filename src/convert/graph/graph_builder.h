// Writes a decoder as a standard ONNX graph that onnxruntime runs as it is: com.microsoft
// GroupQueryAttention, RotaryEmbedding, MatMulNBits, GatherBlockQuantized, MoE and QMoE beside the
// standard operators, f32 arithmetic, a plain Add at the end of each layer.
//
//   inputs   input_ids i64 [1, S], attention_mask i64 [1, T], position_ids i64 [1, S],
//            past_key_values.<i>.key/.value f32 [1, kv_heads, P, head_columns]      T = P + S
//   outputs  logits f32 [1, S, vocabulary, or hidden columns of a model that makes embeddings],
//            present.<i>.key/.value f32 [1, kv_heads, T, head_columns]
//
// Rotation tables are computed from position_ids for the rows of the step. (A table for the whole
// context would be tens of megabytes in every part.) Weights are external data: location = blob
// digest in hex.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "convert/model/model_config.h"
#include "convert/weights/stored_weight.h"
#include "onnx/graph.h"
#include "onnx/layers.h"

namespace weft::convert {

// The name of the weight with the frequencies of rotation `index` of ModelConfig::Rotations(),
// f32 [rotary_columns / 2].
std::string FrequenciesName(size_t index);
// The name of a weight of ones, f32 [columns]: of norms that only divide.
std::string OnesName(uint32_t columns);

// Whether the graph has operators of the domain "weft", which onnxruntime cannot run: the model is
// for engines that run programs.
bool HasOwnOperators(const ModelConfig& config);

struct BuiltModel {
  onnx::Model model;
  std::string embedding;                   // the value that the embedding table gives
  std::vector<onnx::Boundary> boundaries;  // between its layers
};

// REQUIRES: `weights` has every weight of SpecifyWeights and the frequencies and ones
// that the model needs; `layer_scalars` [layer_count] where the model has such.
BuiltModel BuildModel(const ModelConfig& config, const StoredWeights& weights,
                      const std::vector<float>& layer_scalars = {});

}  // namespace weft::convert
