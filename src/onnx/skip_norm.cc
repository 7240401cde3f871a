#include "onnx/skip_norm.h"

#include "base/check.h"

namespace weft::onnx {
namespace {

bool IsSimplified(const Node& node) {
  return node.IsMicrosoft("SkipSimplifiedLayerNormalization");
}

Node MakeAdd(std::string name, std::string_view a, std::string_view b, std::string sum) {
  Node add;
  add.op_type = "Add";
  add.name = std::move(name);
  add.inputs = {std::string(a), std::string(b)};
  add.outputs = {std::move(sum)};
  return add;
}

}  // namespace

bool IsSkipNorm(const Node& node) {
  const bool named = IsSimplified(node) || node.IsMicrosoft("SkipLayerNormalization");
  return named && node.HasInput(0) && node.HasInput(1) && node.HasInput(2) && node.HasOutput(0);
}

std::string SkipNormSum(const Node& node) {
  if (node.HasOutput(3)) return std::string(node.Output(3));
  return std::string(node.Output(0)) + "/residual_sum";
}

void AppendUnfused(const Node& node, std::vector<Node>& out) {
  CHECK(IsSkipNorm(node), "only fused skip norms are taken apart");
  // Inputs: input, skip, gamma, [beta unless simplified], [bias].
  const size_t bias_slot = IsSimplified(node) ? 3 : 4;
  const std::string sum = SkipNormSum(node);
  if (node.HasInput(bias_slot)) {
    const std::string biased = sum + "/biased_skip";
    out.push_back(MakeAdd(node.name + "/add_bias", node.Input(1), node.Input(bias_slot), biased));
    out.push_back(MakeAdd(node.name + "/add_skip", node.Input(0), biased, sum));
  } else {
    out.push_back(MakeAdd(node.name + "/add_skip", node.Input(0), node.Input(1), sum));
  }
  Node norm;
  norm.op_type = IsSimplified(node) ? "SimplifiedLayerNormalization" : "LayerNormalization";
  norm.name = node.name;
  norm.metadata = node.metadata;
  norm.inputs = {sum, std::string(node.Input(2))};
  if (!IsSimplified(node) && node.HasInput(3)) norm.inputs.emplace_back(node.Input(3));
  norm.outputs = {std::string(node.Output(0))};
  // Statistics for training: the simplified norm has no mean.
  if (!IsSimplified(node) && (node.HasOutput(1) || node.HasOutput(2))) {
    norm.outputs.emplace_back(node.Output(1));
    norm.outputs.emplace_back(node.Output(2));
  } else if (IsSimplified(node) && node.HasOutput(2)) {
    norm.outputs.emplace_back(node.Output(2));
  }
  norm.Set(Attribute::Of("axis", -1));
  norm.Set(Attribute::Of("epsilon", node.Float("epsilon", 1e-12f)));
  norm.Set(Attribute::Of("stash_type", 1));
  out.push_back(std::move(norm));
}

}  // namespace weft::onnx
