#include "lower/patterns/rule_table.h"

#include <string_view>

#include "lower/patterns/rules.h"

namespace weft::lower {
namespace {

struct Entry {
  std::string_view domain;
  std::string_view op_type;
  Rule rule;
};
constexpr std::string_view kStandard = "", kMicrosoft = "com.microsoft";
constexpr Entry kRules[] = {
    {kStandard, "Add", LowerAdd},
    {kStandard, "Gather", LowerGather},
    {kStandard, "MatMul", LowerMatMul},
    {kStandard, "Mul", LowerMul},
    {kStandard, "RMSNormalization", LowerRmsNorm},
    {kStandard, "Reshape", LowerReshape},
    {kStandard, "SimplifiedLayerNormalization", LowerRmsNorm},
    {kMicrosoft, "GatherBlockQuantized", LowerGatherBlockQuantized},
    {kMicrosoft, "GroupQueryAttention", LowerGroupQueryAttention},
    {kMicrosoft, "MatMulNBits", LowerMatMulNBits},
    {kMicrosoft, "MoE", LowerExperts},
    {kMicrosoft, "QMoE", LowerExperts},
    {kMicrosoft, "RotaryEmbedding", LowerRotaryEmbedding},
    {kMicrosoft, "SimplifiedLayerNormalization", LowerRmsNorm},
};

}  // namespace

Rule FindRule(const onnx::Node& node) {
  for (const Entry& entry : kRules) {
    if (entry.domain == node.domain && entry.op_type == node.op_type) return entry.rule;
  }
  return nullptr;
}

}  // namespace weft::lower
