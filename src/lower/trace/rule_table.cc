// Which rule of rules_*.cc traces which operator.
#include "lower/trace/rules.h"

#include <string_view>

#include "lower/trace/moves.h"
#include "lower/trace/numeric.h"

namespace weft::lower::trace {
namespace {

struct Entry {
  std::string_view domain;
  std::string_view op_type;
  Rule rule;
};
constexpr std::string_view kStandard = "", kMicrosoft = "com.microsoft";
constexpr Entry kRules[] = {
    {kStandard, "Attention", RunAttention},
    {kStandard, "Cast", RunCast},
    {kStandard, "Gather", RunGather},
    {kStandard, "Gemm", RunGemm},
    {kStandard, "Identity", RunCast},
    {kStandard, "MatMul", RunMatMul},
    {kStandard, "RMSNormalization", RunRmsNorm},
    {kStandard, "ReduceMean", RunReduceMean},
    {kStandard, "RotaryEmbedding", RunRotaryEmbedding},
    {kStandard, "Shape", RunShape},
    {kStandard, "SimplifiedLayerNormalization", RunRmsNorm},
    {kStandard, "Softmax", RunSoftmax},
    {kStandard, "Where", RunWhere},
    {kStandard, "ConstantOfShape", RunNumbers},
    {kStandard, "CumSum", RunNumbers},
    {kStandard, "Range", RunNumbers},
    {kStandard, "ReduceMax", RunNumbers},
    {kStandard, "ReduceSum", RunReduceSum},
    {kStandard, "OneHot", RunNumbers},
    {kStandard, "TopK", RunTopK},
    {kStandard, "Clip", RunClip},
    {kStandard, "Trilu", RunNumbers},
    {kMicrosoft, "FusedMatMul", RunFusedMatMul},
    {kMicrosoft, "GatherBlockQuantized", RunGatherBlockQuantized},
    {kMicrosoft, "GroupQueryAttention", RunGroupQueryAttention},
    {kMicrosoft, "MatMulNBits", RunMatMulNBits},
    {kMicrosoft, "MoE", RunMoe},
    {kMicrosoft, "QMoE", RunMoe},
    {kMicrosoft, "RotaryEmbedding", RunRotaryEmbedding},
    {kMicrosoft, "SimplifiedLayerNormalization", RunRmsNorm},
    {kMicrosoft, "SkipSimplifiedLayerNormalization", RunSkipRmsNorm},
};

}  // namespace

Rule FindRule(const onnx::Node& node) {
  for (const Entry& entry : kRules) {
    if (entry.domain == node.domain && entry.op_type == node.op_type) return entry.rule;
  }
  if (IsMove(node)) return RunMove;
  if (UnaryFunction(node) != nullptr) return RunUnary;
  if (BinaryFunction(node, false) != nullptr) return RunBinary;
  return nullptr;
}

}  // namespace weft::lower::trace
