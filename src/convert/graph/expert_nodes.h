// The experts of a sparse layer as com.microsoft MoE or QMoE, which onnxruntime runs on the CPU, or
// where those cannot express the choice or the activation in operators of the domain "weft":
//
//   Route     logits, bias or nothing -> route [1, S, 2 k]: experts, then their weights
//             attributes k, scores: "softmax" or "sigmoid", normalize, groups, top_groups,
//             group_best, scale
//   Experts   x, route, then what QMoE takes from its third input on, but rows of gate first and
//             then those of up; scales are empty for plain weights -> y
//             attributes k, activation: "silu" or "gelu_tanh", expert_weight_bits, block_size
//
// What they compute: program/ir.h, MoeRoute and MoeExperts.
#pragma once

#include "convert/graph/graph_nodes.h"
#include "convert/model/model_config.h"

namespace weft::convert {

// Whether the experts are in operators that onnxruntime has not.
bool HasOwnExperts(const ModelConfig& config);

// x [1, S, hidden] -> the experts' weighted sum, of the same shape; `router_x` of the same shape is
// what the choice reads. `node` is the path of the
// nodes, `layer` the package's. Each expert's matrices are initializers of their own that the graph
// stacks: they lie in the expert's blob. MoE wants the rows of gate and up interleaved, which a
// Reshape, a Transpose and a Reshape make of one after the other.
std::string BuildExperts(const ModelConfig& config, const std::string& node, uint32_t layer,
                         const std::string& x, const std::string& router_x, GraphNodes* nodes);

}  // namespace weft::convert
