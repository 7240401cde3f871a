#include "convert/graph/recurrent_nodes.h"

#include "base/check.h"

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

// Floats of a layer's states: rows that the convolution looks back to, and what a rule or a scan
// carries.
struct StateSizes {
  uint64_t conv = 0, recurrent = 0;
};

StateSizes SizesOf(const ModelConfig& config, Mixer mixer) {
  const DeltaNetConfig& delta = config.delta_net;
  const MambaConfig& mamba = config.mamba;
  switch (mixer) {
    case Mixer::kDeltaNet:
      return {(delta.taps - 1) * delta.conv_width(), delta.value_width() * delta.key_columns};
    case Mixer::kShortConv:
      return {uint64_t{config.short_conv.taps - 1} * config.hidden_columns, 0};
    case Mixer::kMamba2:
      return {(mamba.taps - 1) * mamba.conv_width(), mamba.width() * mamba.state_columns};
    case Mixer::kNone:
      return {};
    case Mixer::kAttention:
      break;
  }
  CHECK(false, "a mixer without state");
  return {};
}

// The convolution of a layer, with its state.
std::string Conv(const std::string& node, const std::string& path, uint32_t index,
                 const std::string& x, bool has_bias, const char* activation, GraphNodes* nodes) {
  std::string out = node + "/output_0";
  const std::string bias = has_bias ? nodes->Plain(path + ".bias") : "";
  nodes->graph().AddNode(
      "CausalConv", {x, nodes->Plain(path + ".weight"), bias, PastName(index, ".conv")},
      {out, PresentName(index, ".conv")}, {Attribute::Of("activation", activation)}, kWeft, node);
  return out;
}

std::string SiluGated(const std::string& node, const std::string& gate, const std::string& x,
                      GraphNodes* nodes) {
  const std::string sigmoid = nodes->Node(node + "/Sigmoid", "Sigmoid", {gate});
  return nodes->Node(node + "/Mul", "Mul",
                     {nodes->Node(node + "/silu", "Mul", {gate, sigmoid}), x});
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
  const std::string conv =
      Conv(node + "/conv1d", path + "conv1d", index, qkv, false, "silu", nodes);
  const std::string out = node + "/delta/output_0";
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
  return nodes->Linear(node + "/out_proj", SiluGated(node + "/gate", z, normed, nodes),
                       path + "out_proj", false);
}

// [b | c | x] = W_in row; W_out (c * conv(b * x)).
std::string BuildShortConv(const ModelConfig& config, const std::string& node,
                           const std::string& prefix, uint32_t index, const std::string& x,
                           GraphNodes* nodes) {
  const bool has_bias = config.short_conv.bias;
  const std::string path = prefix + "conv.";
  const uint64_t columns = config.hidden_columns;
  const std::string all = nodes->Linear(node + "/in_proj", x, path + "in_proj", has_bias);
  const std::string before = nodes->Columns(node + "/b", all, 0, columns);
  const std::string after = nodes->Columns(node + "/c", all, columns, columns);
  const std::string values = nodes->Columns(node + "/x", all, 2 * columns, columns);
  const std::string gated = nodes->Node(node + "/before/Mul", "Mul", {values, before});
  const std::string conv =
      Conv(node + "/conv", path + "conv", index, gated, has_bias, "none", nodes);
  return nodes->Linear(node + "/out_proj", nodes->Node(node + "/after/Mul", "Mul", {conv, after}),
                       path + "out_proj", has_bias);
}

std::string BuildMamba(const ModelConfig& config, const std::string& node,
                       const std::string& prefix, uint32_t index, const std::string& x,
                       GraphNodes* nodes) {
  const MambaConfig& mamba = config.mamba;
  const std::string path = prefix + "mamba.";
  const std::string all = nodes->Linear(node + "/in_proj", x, path + "in_proj", mamba.bias);
  const std::string dt = nodes->Linear(node + "/dt_proj", x, path + "dt_proj", mamba.bias);
  const std::string z = nodes->Columns(node + "/z", all, 0, mamba.width());
  const std::string xbc = nodes->Columns(node + "/xbc", all, mamba.width(), mamba.conv_width());
  const std::string conv =
      Conv(node + "/conv1d", path + "conv1d", index, xbc, mamba.conv_bias, "silu", nodes);
  const std::string out = node + "/scan/output_0";
  nodes->graph().AddNode(
      "SsmScan",
      {conv, dt, nodes->Plain(path + "decay"), nodes->Plain(path + "dt_bias"),
       nodes->Plain(path + "skip"), PastName(index, ".recurrent")},
      {out, PresentName(index, ".recurrent")},
      {Attribute::Of("heads", int64_t{mamba.heads}),
       Attribute::Of("head_columns", int64_t{mamba.head_columns}),
       Attribute::Of("groups", int64_t{mamba.groups}),
       Attribute::Of("state_columns", int64_t{mamba.state_columns}),
       Attribute::Of("dt_min", mamba.dt_min), Attribute::Of("dt_max", mamba.dt_max)},
      kWeft, node + "/scan");
  const std::string gated = SiluGated(node + "/gate", z, out, nodes);
  const std::string normed =
      mamba.norm_groups == 1
          ? nodes->RmsNorm(node + "/norm", gated, path + "norm.weight", config.rms_epsilon)
          : nodes->Node(node + "/norm", "GroupNorm", {gated, nodes->Plain(path + "norm.weight")},
                        {Attribute::Of("epsilon", config.rms_epsilon)}, kWeft);
  return nodes->Linear(node + "/out_proj", normed, path + "out_proj", mamba.bias);
}

}  // namespace

void DeclareState(const ModelConfig& config, uint32_t index, onnx::Graph* graph) {
  const StateSizes sizes = SizesOf(config, config.layers[index].mixer);
  for (const auto& [kind, floats] :
       {std::pair(".conv", sizes.conv), std::pair(".recurrent", sizes.recurrent)}) {
    if (floats == 0) continue;
    const std::vector<Dim> shape = {Dim::Of(1), Dim::Of(static_cast<int64_t>(floats))};
    graph->AddInput(PastName(index, kind), onnx::ElementType::kFloat, shape);
    graph->AddOutput(PresentName(index, kind), onnx::ElementType::kFloat, shape);
  }
}

std::string BuildRecurrent(const ModelConfig& config, const std::string& node,
                           const std::string& prefix, uint32_t index, const std::string& x,
                           GraphNodes* nodes) {
  switch (config.layers[index].mixer) {
    case Mixer::kDeltaNet:
      return BuildDeltaNet(config, node, prefix, index, x, nodes);
    case Mixer::kShortConv:
      return BuildShortConv(config, node, prefix, index, x, nodes);
    case Mixer::kMamba2:
      return BuildMamba(config, node, prefix, index, x, nodes);
    case Mixer::kAttention:
    case Mixer::kNone:
      break;
  }
  CHECK(false, "a mixer without state");
  return {};
}

}  // namespace weft::convert
