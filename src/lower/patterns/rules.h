// One rule for each ONNX operator that computes a hidden value. A rule looks at its node's
// surroundings as far as its pattern reaches. It refuses unknown ones, and returns the columns with
// the node's first output.
#pragma once

#include "lower/patterns/context.h"

namespace weft::lower {

// linear.cc
Result<View> LowerMatMul(LoweringContext& context, const onnx::Node& node);
Result<View> LowerMatMulNBits(LoweringContext& context, const onnx::Node& node);
// Add of a bias vector, or of two hidden values.
Result<View> LowerAdd(LoweringContext& context, const onnx::Node& node);

// embedding.cc
Result<View> LowerGather(LoweringContext& context, const onnx::Node& node);
Result<View> LowerGatherBlockQuantized(LoweringContext& context, const onnx::Node& node);

// norm.cc
Result<View> LowerRmsNorm(LoweringContext& context, const onnx::Node& node);
Result<View> LowerGroupNorm(LoweringContext& context, const onnx::Node& node);
Result<View> LowerLayerNorm(LoweringContext& context, const onnx::Node& node);
// Reshape to heads | norm | Reshape back.
Result<View> LowerReshape(LoweringContext& context, const onnx::Node& node);

// activation.cc
// A gated activation, or a product with a number.
Result<View> LowerMul(LoweringContext& context, const onnx::Node& node);

// scaling.cc
// The product of `value` and a number, which is `node`.
Result<View> LowerScaling(LoweringContext& context, const onnx::Node& node,
                          const std::string& value, float factor);
// The constant `value` when it is a single finite number.
std::optional<float> ScalarConstant(const LoweringContext& context, std::string_view value);

// experts.cc
// com.microsoft MoE and QMoE, with their routing.
Result<View> LowerExperts(LoweringContext& context, const onnx::Node& node);
// Experts with normalised weights times what the weights were divided by; nullopt when the product
// `node` is something else.
std::optional<Result<View>> LowerScaledExperts(LoweringContext& context, const onnx::Node& node);

// The choice of experts and the experts in weft's own operators.
Result<View> LowerRoute(LoweringContext& context, const onnx::Node& node);
Result<View> LowerOwnExperts(LoweringContext& context, const onnx::Node& node);
// A positive whole attribute below 2^24; 0 when it is anything else.
uint32_t CountAttribute(const onnx::Node& node, const char* name);

// rotary.cc
Result<View> LowerRotaryEmbedding(LoweringContext& context, const onnx::Node& node);

// attention.cc
Result<View> LowerGroupQueryAttention(LoweringContext& context, const onnx::Node& node);

// Attention to the keys and values of another layer.
Result<View> LowerSharedAttention(LoweringContext& context, const onnx::Node& node);

// carried.cc
Result<View> LowerColumns(LoweringContext& context, const onnx::Node& node);
Result<View> LowerJoin(LoweringContext& context, const onnx::Node& node);
Result<View> LowerCarry(LoweringContext& context, const onnx::Node& node);

// latent.cc
Result<View> LowerLatentQuery(LoweringContext& context, const onnx::Node& node);
Result<View> LowerLatentKey(LoweringContext& context, const onnx::Node& node);
Result<View> LowerLatentAttention(LoweringContext& context, const onnx::Node& node);
Result<View> LowerHeadMatMul(LoweringContext& context, const onnx::Node& node);

// recurrent.cc
Result<View> LowerCausalConv(LoweringContext& context, const onnx::Node& node);
Result<View> LowerDeltaRule(LoweringContext& context, const onnx::Node& node);
Result<View> LowerSsmScan(LoweringContext& context, const onnx::Node& node);

// A norm over each head of a packed value: what Reshape, RMS norm, Reshape computes.
struct HeadNorm {
  std::string input;   // [rows, heads * head_columns]
  std::string weight;  // [head_columns]
  uint32_t head_columns = 0;
  float epsilon = 0;
};
// The head norm that ends in `value`; nullopt when there is none.
std::optional<HeadNorm> MatchHeadNorm(const LoweringContext& context, std::string_view value);
bool IsRmsNorm(const onnx::Node& node);

}  // namespace weft::lower
