#include "convert/graph/expert_nodes.h"

#include "convert/weights/weight_specs.h"

namespace weft::convert {
namespace {

using onnx::Attribute;
using onnx::ElementType;

class ExpertBuilder {
 public:
  ExpertBuilder(const ModelConfig& config, std::string node, uint32_t layer, GraphNodes* nodes)
      : config_(config), node_(std::move(node)), layer_(layer), nodes_(*nodes) {}

  std::string Build(const std::string& x, const std::string& router_x) {
    const ExpertConfig& experts = config_.experts;
    const std::string router = nodes_.Linear(
        node_ + "/router", router_x, LayerPrefix(layer_) + "mlp.router", experts.router_bias);
    if (HasOwnExperts(config_)) return OwnExperts(x, Route(router));
    const auto count = static_cast<int64_t>(experts.count);
    const std::string logits =
        nodes_.Node(node_ + "/router/Reshape", "Reshape",
                    {router, nodes_.Constant("constants/experts", {2}, {-1, count})});
    const DType dtype = nodes_.Weight(Name(0, "down_proj.weight")).dtype;
    std::vector<std::string> inputs = {x, logits};
    for (const char* matrix : {"gate_up_proj", "down_proj"}) {
      inputs.push_back(Matrix(matrix));
      if (IsBlockFormat(dtype)) inputs.push_back(Scales(matrix));
      inputs.push_back(experts.bias ? Bias(matrix) : "");
    }
    while (inputs.back().empty()) inputs.pop_back();
    std::string sum = nodes_.Node(node_ + "/experts/MoE", IsBlockFormat(dtype) ? "QMoE" : "MoE",
                                  std::move(inputs), Attributes(dtype), kMicrosoft);
    if (experts.normalized || !IsBlockFormat(dtype)) return sum;
    return nodes_.Node(node_ + "/experts/Mul", "Mul", {sum, ChosenShare(router)});
  }

 private:
  std::string Route(const std::string& logits) {
    const ExpertConfig& experts = config_.experts;
    std::vector<std::string> inputs = {logits};
    if (experts.choice_bias) {
      inputs.push_back(nodes_.Plain(LayerPrefix(layer_) + "mlp.router.choice_bias"));
    }
    return nodes_.Node(node_ + "/router/Route", "Route", std::move(inputs),
                       {Attribute::Of("k", int64_t{experts.chosen}),
                        Attribute::Of("scores", experts.sigmoid ? "sigmoid" : "softmax"),
                        Attribute::Of("normalize", experts.normalized ? 1 : 0),
                        Attribute::Of("groups", int64_t{experts.groups}),
                        Attribute::Of("top_groups", int64_t{experts.top_groups}),
                        Attribute::Of("group_best", int64_t{experts.group_best}),
                        Attribute::Of("scale", experts.scale)},
                       kWeft);
  }

  std::string OwnExperts(const std::string& x, const std::string& route) {
    const DType dtype = nodes_.Weight(Name(0, "down_proj.weight")).dtype;
    std::vector<Attribute> attributes = {Attribute::Of("k", int64_t{config_.experts.chosen}),
                                         Attribute::Of("activation", OwnActivation())};
    if (IsBlockFormat(dtype)) {
      attributes.push_back(Attribute::Of("expert_weight_bits", BlockBits(dtype)));
      attributes.push_back(Attribute::Of("block_size", int64_t{kBlockValues}));
    }
    std::vector<std::string> inputs = {x, route};
    for (const char* matrix : {"gate_up_proj", "down_proj"}) {
      inputs.push_back(Matrix(matrix));
      inputs.push_back(IsBlockFormat(dtype) ? Scales(matrix) : "");
      inputs.push_back(config_.experts.bias ? Bias(matrix) : "");
    }
    while (inputs.back().empty()) inputs.pop_back();
    return nodes_.Node(node_ + "/experts/Experts", "Experts", std::move(inputs),
                       std::move(attributes), kWeft);
  }

  const char* OwnActivation() const {
    switch (config_.activation) {
      case Activation::kSilu:
        return "silu";
      case Activation::kGeluTanh:
        return "gelu_tanh";
      case Activation::kRelu2:
        return "relu2";
      default:
        CHECK(false, "experts with another activation");
        return "";
    }
  }

  // The sum of the chosen experts' probabilities, [1, S, 1]. onnxruntime's QMoE divides weights by
  // it whatever its attribute says.
  std::string ChosenShare(const std::string& router) {
    const std::string node = node_ + "/share";
    const std::string all =
        nodes_.Node(node + "/Softmax", "Softmax", {router}, {Attribute::Of("axis", -1)});
    const std::string count =
        nodes_.Constant("constants/chosen", {1}, {int64_t{config_.experts.chosen}});
    const std::string chosen = node + "/TopK/output_0";
    nodes_.graph().AddNode("TopK", {all, count}, {chosen, node + "/TopK/output_1"},
                           {Attribute::Of("axis", -1)}, "", node + "/TopK");
    return nodes_.Node(node + "/ReduceSum", "ReduceSum",
                       {chosen, nodes_.Constant("constants/last_axis", {1}, {-1})});
  }

  std::vector<Attribute> Attributes(DType dtype) const {
    const bool oai = config_.activation == Activation::kSwigluOai;
    CHECK(oai || config_.activation == Activation::kSilu, "experts with another activation");
    std::vector<Attribute> attributes = {
        Attribute::Of("k", static_cast<int64_t>(config_.experts.chosen)),
        Attribute::Of("activation_type", "swiglu"),
        Attribute::Of("swiglu_fusion", 1),  // gate and up interleaved
        Attribute::Of("activation_alpha", oai ? 1.702f : 1.0f),
        Attribute::Of("activation_beta", oai ? 1.0f : 0.0f),
        Attribute::Of("normalize_routing_weights",
                      config_.experts.normalized || IsBlockFormat(dtype) ? 1 : 0),
    };
    if (oai) attributes.push_back(Attribute::Of("swiglu_limit", 7.0f));
    if (IsBlockFormat(dtype)) {
      attributes.push_back(Attribute::Of("expert_weight_bits", BlockBits(dtype)));
      attributes.push_back(Attribute::Of("block_size", int64_t{kBlockValues}));
    }
    return attributes;
  }

  std::string Name(uint32_t expert, const std::string& weight) const {
    return ExpertPrefix(layer_, expert) + weight;
  }

  // [experts, ...] of one initializer [1, ...] an expert. The value is called `weight`, like theirs
  // without the expert's number.
  template <typename Initializer>
  std::string Stack(const std::string& node, const std::string& weight,
                    const Initializer& initializer) {
    std::vector<std::string> parts;
    for (uint32_t e = 0; e < config_.experts.count; ++e) parts.push_back(initializer(e));
    std::string output = LayerPrefix(layer_) + "mlp.experts." + weight;
    nodes_.graph().AddNode("Concat", std::move(parts), {output}, {Attribute::Of("axis", 0)}, "",
                           node + "/Concat");
    return output;
  }

  // Rows of gate, then of up -> interleaved, one of each. `columns` 0: a bias, without
  // columns.
  std::string Interleave(const std::string& node, const std::string& value, uint64_t columns) {
    const auto count = static_cast<int64_t>(config_.experts.count);
    const auto width = static_cast<int64_t>(config_.experts.columns);
    const auto last = static_cast<int64_t>(columns);
    std::vector<int64_t> split = {count, 2, width}, perm = {0, 2, 1}, join = {count, 2 * width};
    std::string suffix;
    if (columns > 0) {
      split.push_back(last);
      perm.push_back(3);
      join.push_back(last);
      suffix = "_" + std::to_string(columns);
    }
    const auto shape = [&](const std::string& name, const std::vector<int64_t>& values) {
      onnx::Graph& graph = nodes_.graph();
      if (graph.FindInitializer(name) == nullptr) {
        graph.AddInitializer(
            name, onnx::Tensor::FromInt64s({static_cast<int64_t>(values.size())}, values));
      }
      return name;
    };
    const std::string split_rows =
        nodes_.Node(node + "/Reshape_1", "Reshape",
                    {value, shape("constants/experts_deinterleaved" + suffix, split)});
    const std::string turned =
        nodes_.Node(node + "/Transpose", "Transpose", {split_rows}, {Attribute::Of("perm", perm)});
    return nodes_.Node(node + "/Reshape_2", "Reshape",
                       {turned, shape("constants/experts_joined" + suffix, join)});
  }

  std::string Finish(const std::string& matrix, const std::string& node, const std::string& value,
                     uint64_t columns) {
    const bool turns = matrix == "gate_up_proj" && !HasOwnExperts(config_);
    return turns ? Interleave(node, value, columns) : value;
  }

  std::string Matrix(const std::string& matrix) {
    const std::string node = node_ + "/experts/" + matrix;
    const DType dtype = nodes_.Weight(Name(0, matrix + ".weight")).dtype;
    uint64_t columns = 0;
    std::string stacked = Stack(node, matrix + ".weight", [&](uint32_t expert) {
      const std::string name = Name(expert, matrix + ".weight");
      const StoredWeight& weight = nodes_.Weight(name);
      columns = weight.shape[1];
      ElementType type = ElementType::kUint8;
      if (IsBlockFormat(dtype)) {
        columns = columns * static_cast<uint64_t>(BlockBits(dtype)) / 8;
      } else {
        type = onnx::FromDType(dtype);
      }
      return nodes_.External(name, type, Dims({1, weight.shape[0], columns}), weight.data);
    });
    if (!IsBlockFormat(dtype) && dtype != DType::kF32) {
      stacked = nodes_.ToFloat(node + "/Cast", stacked);
    }
    return Finish(matrix, node, stacked, columns);
  }

  std::string Scales(const std::string& matrix) {
    const std::string node = node_ + "/experts/" + matrix + "_scale";
    const DType dtype = nodes_.Weight(Name(0, matrix + ".weight")).dtype;
    const bool records = IsSuperblockFormat(dtype);
    uint64_t scales = 0;  // of a row; bytes of records
    const std::string stacked = Stack(node, matrix + ".weight_scale", [&](uint32_t expert) {
      const std::string name = Name(expert, matrix + ".weight");
      const StoredWeight& weight = nodes_.Weight(name);
      const auto columns = static_cast<int64_t>(weight.shape[1]);
      scales =
          records ? RecordBytes(dtype, columns) : static_cast<uint64_t>(columns / kBlockValues);
      return nodes_.External(name + "_scale", records ? ElementType::kUint8 : ElementType::kFloat16,
                             Dims({1, weight.shape[0], scales}), weight.scale);
    });
    const std::string all = records ? stacked : nodes_.ToFloat(node + "/Cast", stacked);
    return Finish(matrix, node, all, scales);
  }

  std::string Bias(const std::string& matrix) {
    const std::string node = node_ + "/experts/" + matrix + "_bias";
    const std::string stacked = Stack(node, matrix + ".bias", [&](uint32_t expert) {
      const std::string name = Name(expert, matrix + ".bias");
      const StoredWeight& weight = nodes_.Weight(name);
      return nodes_.External(name, ElementType::kFloat, Dims({1, weight.shape[0]}), weight.data);
    });
    return Finish(matrix, node, stacked, 0);
  }

  const ModelConfig& config_;
  std::string node_;
  uint32_t layer_;
  GraphNodes& nodes_;
};

}  // namespace

bool HasOwnExperts(const ModelConfig& config) {
  const bool has_experts = config.experts.count > 0;
  return has_experts && (!config.experts.plain_choice() || !config.has_gates() ||
                         config.activation == Activation::kGeluTanh);
}

std::string BuildExperts(const ModelConfig& config, const std::string& node, uint32_t layer,
                         const std::string& x, const std::string& router_x, GraphNodes* nodes) {
  return ExpertBuilder(config, node, layer, nodes).Build(x, router_x);
}

}  // namespace weft::convert
