#include "lower/patterns/rule_table.h"

#include "lower/patterns/rules.h"
#include "lower/rule_of.h"

namespace weft::lower {
namespace {

constexpr RuleOf<Rule> kRules[] = {
    {kStandardDomain, "Add", LowerAdd},
    {kStandardDomain, "Gather", LowerGather},
    {kStandardDomain, "LayerNormalization", LowerLayerNorm},
    {kStandardDomain, "MatMul", LowerMatMul},
    {kStandardDomain, "Mul", LowerMul},
    {kStandardDomain, "RMSNormalization", LowerRmsNorm},
    {kStandardDomain, "Reshape", LowerReshape},
    {kStandardDomain, "SimplifiedLayerNormalization", LowerRmsNorm},
    {kMicrosoftDomain, "GatherBlockQuantized", LowerGatherBlockQuantized},
    {kMicrosoftDomain, "GroupQueryAttention", LowerGroupQueryAttention},
    {kMicrosoftDomain, "MatMulNBits", LowerMatMulNBits},
    {kMicrosoftDomain, "MoE", LowerExperts},
    {kMicrosoftDomain, "QMoE", LowerExperts},
    {kMicrosoftDomain, "RotaryEmbedding", LowerRotaryEmbedding},
    {kMicrosoftDomain, "SimplifiedLayerNormalization", LowerRmsNorm},
    {kWeftDomain, "Carry", LowerCarry},
    {kWeftDomain, "CausalConv", LowerCausalConv},
    {kWeftDomain, "Columns", LowerColumns},
    {kWeftDomain, "DeltaRule", LowerDeltaRule},
    {kWeftDomain, "Experts", LowerOwnExperts},
    {kWeftDomain, "GroupNorm", LowerGroupNorm},
    {kWeftDomain, "HeadMatMul", LowerHeadMatMul},
    {kWeftDomain, "Join", LowerJoin},
    {kWeftDomain, "LatentAttention", LowerLatentAttention},
    {kWeftDomain, "LatentKey", LowerLatentKey},
    {kWeftDomain, "LatentQuery", LowerLatentQuery},
    {kWeftDomain, "Route", LowerRoute},
    {kWeftDomain, "SharedAttention", LowerSharedAttention},
    {kWeftDomain, "SsmScan", LowerSsmScan},
};

}  // namespace

Rule FindRule(const onnx::Node& node) {
  return FindIn(kRules, node);
}

}  // namespace weft::lower
