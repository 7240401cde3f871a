#include "convert/graph/latent_nodes.h"

namespace weft::convert {

using onnx::Attribute;

std::vector<std::string> LatentNodes::Matrix(const std::string& name) {
  const std::string tensor = path_ + name + ".weight";
  const StoredWeight& weight = nodes_.Weight(tensor);
  if (!IsBlockFormat(weight.dtype)) return {nodes_.Plain(tensor), ""};
  const auto blocks = static_cast<uint64_t>(BlockCount(static_cast<int64_t>(weight.shape[1])));
  const auto block_bytes = static_cast<uint64_t>(BlockDataBytes(weight.dtype));
  return {nodes_.External(tensor, onnx::ElementType::kUint8,
                          Dims({weight.shape[0], blocks, block_bytes}), weight.data),
          nodes_.Scales(tensor, node_ + "/" + name)};
}

std::string LatentNodes::Query(const std::string& x) {
  std::string source = x;
  if (latent_.query_rank > 0) {
    const std::string low = nodes_.Linear(node_ + "/q_a_proj", x, path_ + "q_a_proj", latent_.bias);
    source = nodes_.RmsNorm(node_ + "/q_a_norm/LayerNorm", low, path_ + "q_a_layernorm.weight",
                            kLatentEpsilon);
  }
  const std::string plain = nodes_.Linear(node_ + "/q_b_nope", source, path_ + "q_b_nope", false);
  std::vector<std::string> inputs = {plain, source};
  for (const char* name : {"q_b_rope", "k_b_proj"}) {
    for (std::string& input : Matrix(name)) inputs.push_back(std::move(input));
  }
  return nodes_.Node(
      node_ + "/q", "LatentQuery", std::move(inputs),
      {Attribute::Of("heads", int64_t{config_.heads}), Attribute::Of("rope", int64_t{latent_.rope}),
       Attribute::Of("rank", int64_t{latent_.rank})},
      kWeft);
}

std::string LatentNodes::Key(const std::string& x) {
  const std::string both =
      nodes_.Linear(node_ + "/kv_a_proj", x, path_ + "kv_a_proj", latent_.bias);
  return nodes_.Node(node_ + "/k", "LatentKey",
                     {both, nodes_.Plain(path_ + "kv_a_layernorm.weight")},
                     {Attribute::Of("epsilon", kLatentEpsilon)}, kWeft);
}

std::string LatentNodes::Attend(const std::string& q, const std::string& k) {
  const std::string suffix = std::to_string(index_) + ".key";
  const std::string out = node_ + "/LatentAttention/output_0";
  nodes_.graph().AddNode("LatentAttention", {q, k, "past_key_values." + suffix},
                         {out, "present." + suffix},
                         {Attribute::Of("heads", int64_t{config_.heads}),
                          Attribute::Of("value_columns", int64_t{latent_.rank}),
                          Attribute::Of("scale", config_.attention_scale)},
                         kWeft, node_ + "/LatentAttention");
  std::vector<std::string> inputs = {out};
  for (std::string& input : Matrix("v_b_proj")) inputs.push_back(std::move(input));
  if (inputs.back().empty()) inputs.pop_back();
  const std::string values = nodes_.Node(node_ + "/v_b_proj", "HeadMatMul", std::move(inputs),
                                         {Attribute::Of("heads", int64_t{config_.heads})}, kWeft);
  return nodes_.Linear(node_ + "/o_proj", values, path_ + "o_proj", latent_.bias);
}

}  // namespace weft::convert
