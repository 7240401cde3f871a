// Which rule of rules_*.cc traces which operator.
#include "lower/trace/rules.h"

#include "lower/rule_of.h"
#include "lower/trace/moves.h"
#include "lower/trace/numeric.h"

namespace weft::lower::trace {
namespace {

constexpr RuleOf<Rule> kRules[] = {
    {kStandardDomain, "Attention", RunAttention},
    {kStandardDomain, "Cast", RunCast},
    {kStandardDomain, "Gather", RunGather},
    {kStandardDomain, "Gemm", RunGemm},
    {kStandardDomain, "Identity", RunCast},
    {kStandardDomain, "MatMul", RunMatMul},
    {kStandardDomain, "RMSNormalization", RunRmsNorm},
    {kStandardDomain, "ReduceMean", RunReduceMean},
    {kStandardDomain, "RotaryEmbedding", RunRotaryEmbedding},
    {kStandardDomain, "Shape", RunShape},
    {kStandardDomain, "SimplifiedLayerNormalization", RunRmsNorm},
    {kStandardDomain, "Softmax", RunSoftmax},
    {kStandardDomain, "Where", RunWhere},
    {kStandardDomain, "ConstantOfShape", RunNumbers},
    {kStandardDomain, "CumSum", RunNumbers},
    {kStandardDomain, "Range", RunNumbers},
    {kStandardDomain, "ReduceMax", RunNumbers},
    {kStandardDomain, "ReduceSum", RunReduceSum},
    {kStandardDomain, "OneHot", RunNumbers},
    {kStandardDomain, "TopK", RunTopK},
    {kStandardDomain, "Clip", RunClip},
    {kStandardDomain, "Trilu", RunNumbers},
    {kMicrosoftDomain, "FusedMatMul", RunFusedMatMul},
    {kMicrosoftDomain, "GatherBlockQuantized", RunGatherBlockQuantized},
    {kMicrosoftDomain, "GroupQueryAttention", RunGroupQueryAttention},
    {kMicrosoftDomain, "MatMulNBits", RunMatMulNBits},
    {kMicrosoftDomain, "MoE", RunMoe},
    {kMicrosoftDomain, "QMoE", RunMoe},
    {kMicrosoftDomain, "RotaryEmbedding", RunRotaryEmbedding},
    {kMicrosoftDomain, "SimplifiedLayerNormalization", RunRmsNorm},
    {kMicrosoftDomain, "SkipSimplifiedLayerNormalization", RunSkipRmsNorm},
};

}  // namespace

Rule FindRule(const onnx::Node& node) {
  if (const Rule rule = FindIn(kRules, node)) return rule;
  if (IsMove(node)) return RunMove;
  if (UnaryFunction(node) != nullptr) return RunUnary;
  if (BinaryFunction(node, false) != nullptr) return RunBinary;
  return nullptr;
}

}  // namespace weft::lower::trace
