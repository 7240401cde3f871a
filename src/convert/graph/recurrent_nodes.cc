#include "convert/graph/recurrent_nodes.h"

namespace weft::convert {
namespace {

using onnx::Attribute;
using onnx::Dim;

std::string PastName(uint32_t index, const char* kind) {
  return "past_key_values." + std::to_string(index) + kind;
}
std::string PresentName(uint32_t index, const char* kind) {
  return "present." + std::to_string(index) + kind;
}

}  // namespace

void DeclareState(const ModelConfig& config, uint32_t index, onnx::Graph* graph) {
  const DeltaNetConfig& delta = config.delta_net;
  const uint64_t conv = (delta.taps - 1) * delta.conv_width();
  const uint64_t recurrent = delta.value_width() * delta.key_columns;
  for (const auto& [kind, floats] :
       {std::pair(".conv", conv), std::pair(".recurrent", recurrent)}) {
    const std::vector<Dim> shape = {Dim::Of(1), Dim::Of(static_cast<int64_t>(floats))};
    graph->AddInput(PastName(index, kind), onnx::ElementType::kFloat, shape);
    graph->AddOutput(PresentName(index, kind), onnx::ElementType::kFloat, shape);
  }
}

std::string BuildDeltaNet(const ModelConfig& config, const std::string& node,
                          const std::string& prefix, uint32_t index, const std::string& x,
                          GraphNodes* nodes) {
  const DeltaNetConfig& delta = config.delta_net;
  const std::string path = prefix + "linear_attn.";
  const auto linear = [&](const std::string& name) {
    return nodes->Linear(node + "/" + name, x, path + name, false);
  };
  const std::string qkv = linear("in_proj_qkv"), z = linear("in_proj_z");
  const std::string b = linear("in_proj_b"), a = linear("in_proj_a");
  const std::string conv = node + "/conv1d/output_0", out = node + "/delta/output_0";
  nodes->graph().AddNode("CausalConv",
                         {qkv, nodes->Plain(path + "conv1d.weight"), "", PastName(index, ".conv")},
                         {conv, PresentName(index, ".conv")}, {Attribute::Of("activation", "silu")},
                         kWeft, node + "/conv1d");
  nodes->graph().AddNode("DeltaRule",
                         {conv, a, b, nodes->Plain(path + "decay"), nodes->Plain(path + "dt_bias"),
                          PastName(index, ".recurrent")},
                         {out, PresentName(index, ".recurrent")},
                         {Attribute::Of("key_heads", int64_t{delta.key_heads}),
                          Attribute::Of("value_heads", int64_t{delta.value_heads}),
                          Attribute::Of("key_columns", int64_t{delta.key_columns}),
                          Attribute::Of("value_columns", int64_t{delta.value_columns}),
                          Attribute::Of("key_groups", delta.tiled ? "tiled" : "grouped")},
                         kWeft, node + "/delta");
  const std::string normed =
      nodes->HeadNorm(node + "/norm", out, path + "norm.weight", delta.value_width(),
                      delta.value_columns, config.rms_epsilon);
  const std::string silu = nodes->Node(node + "/gate/silu", "Mul",
                                       {z, nodes->Node(node + "/gate/Sigmoid", "Sigmoid", {z})});
  const std::string gated = nodes->Node(node + "/gate/Mul", "Mul", {silu, normed});
  return nodes->Linear(node + "/out_proj", gated, path + "out_proj", false);
}

}  // namespace weft::convert
