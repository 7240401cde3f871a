// What operators do to traced values. Each rule gives the node's outputs in order.
#pragma once

#include "lower/trace/tracer.h"

namespace weft::lower::trace {

// The rule for a node; nullptr when there is none.
Rule FindRule(const onnx::Node& node);

// rules_elementwise.cc
Outputs RunUnary(Tracer& tracer, const onnx::Node& node, const Values& in);
Outputs RunBinary(Tracer& tracer, const onnx::Node& node, const Values& in);
Outputs RunCast(Tracer& tracer, const onnx::Node& node, const Values& in);
Outputs RunWhere(Tracer& tracer, const onnx::Node& node, const Values& in);

// rules_move.cc
Outputs RunMove(Tracer& tracer, const onnx::Node& node, const Values& in);
Outputs RunShape(Tracer& tracer, const onnx::Node& node, const Values& in);
Outputs RunNumbers(Tracer& tracer, const onnx::Node& node, const Values& in);

// rules_linear.cc
Outputs RunMatMul(Tracer& tracer, const onnx::Node& node, const Values& in);
Outputs RunGemm(Tracer& tracer, const onnx::Node& node, const Values& in);
Outputs RunMatMulNBits(Tracer& tracer, const onnx::Node& node, const Values& in);
Outputs RunGather(Tracer& tracer, const onnx::Node& node, const Values& in);
Outputs RunGatherBlockQuantized(Tracer& tracer, const onnx::Node& node, const Values& in);
// Adds a vector to the result of the last product. nullopt when `x` is not that.
std::optional<Outputs> AddBias(Tracer& tracer, const onnx::Node& node, const ValuePtr& x,
                               const ValuePtr& bias);

inline constexpr int64_t kMaxWeightRows = 1 << 20;

// The arrays of MatMulNBits, GatherBlockQuantized and QMoE.
struct BlockArrays {
  int64_t experts = 0;  // 0: one matrix
  int64_t rows = 0, columns = 0, bits = 4, block_size = 32;
  ValuePtr data, scale, zero;
  bool interleaved = false;  // WeightRecipe::interleaved
};
Result<WeightId> BlockWeight(Tracer& tracer, const onnx::Node& node, const BlockArrays& arrays);

// rules_experts.cc
Outputs RunTopK(Tracer& tracer, const onnx::Node& node, const Values& in);
Outputs RunClip(Tracer& tracer, const onnx::Node& node, const Values& in);
Outputs RunReduceSum(Tracer& tracer, const onnx::Node& node, const Values& in);
Outputs RunMoe(Tracer& tracer, const onnx::Node& node, const Values& in);
Outputs GatherExperts(Tracer& tracer, const onnx::Node& node, const Values& in);
Outputs MultiplyExperts(Tracer& tracer, const onnx::Node& node, const Values& in);
// Softmax over the logits of all experts, or of those chosen; nullopt when `x` is neither.
std::optional<Outputs> RouteSoftmax(Tracer& tracer, const ValuePtr& x);
// Weights divided by their sum, or experts' results times weights; nullopt when it is neither.
std::optional<Outputs> RouteProduct(Tracer& tracer, const onnx::Node& node, const ValuePtr& a,
                                    const ValuePtr& b);
// The activation inside chosen experts; nullptr when gate and up are not theirs.
ValuePtr GateChoices(Tracer& tracer, const ValuePtr& gate, const ValuePtr& up, Activation kind);

// rules_norm.cc
Outputs RunReduceMean(Tracer& tracer, const onnx::Node& node, const Values& in);
Outputs RunRmsNorm(Tracer& tracer, const onnx::Node& node, const Values& in);
Outputs RunSkipRmsNorm(Tracer& tracer, const onnx::Node& node, const Values& in);

// rules_rotary.cc
Outputs RunRotaryEmbedding(Tracer& tracer, const onnx::Node& node, const Values& in);
// `x` rotated by rows positions[i] of the tables cos and sin.
Result<ValuePtr> Rotate(Tracer& tracer, const onnx::Node& node, const ValuePtr& x,
                        int64_t head_columns, const ValuePtr& cos, const ValuePtr& sin,
                        const std::vector<int64_t>& positions, bool interleaved);

// rules_attention.cc
Outputs RunScores(Tracer& tracer, const onnx::Node& node, const ValuePtr& q, const ValuePtr& k,
                  double factor);
Outputs RunSoftmax(Tracer& tracer, const onnx::Node& node, const Values& in);
Outputs RunFusedMatMul(Tracer& tracer, const onnx::Node& node, const Values& in);
Outputs RunAttend(Tracer& tracer, const onnx::Node& node, const ValuePtr& probabilities,
                  const ValuePtr& v);
Outputs RunAttention(Tracer& tracer, const onnx::Node& node, const Values& in);
Outputs RunGroupQueryAttention(Tracer& tracer, const onnx::Node& node, const Values& in);
// Scores where `mask` (additive numbers, or bools) lets them through.
Result<ValuePtr> Mask(Tracer& tracer, const onnx::Node& node, const ValuePtr& scores,
                      const ValuePtr& mask, bool additive);
// Concat of a cache input and new heads; nullopt when it is none.
std::optional<Outputs> AppendToCache(Tracer& tracer, const onnx::Node& node, const Values& in);

// A function of one value as samples, whatever kind it has; nullptr when it is none.
ValuePtr AsPointwise(const ValuePtr& value);

}  // namespace weft::lower::trace
