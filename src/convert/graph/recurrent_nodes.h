// Layers with recurrent state, in operators of the domain "weft" that take the state before the
// rows of a step and give the one behind them:
//
//   CausalConv   x, weight [columns, taps], bias or nothing, past -> y, present
//                attribute activation: "silu" or "none"
//   DeltaRule    qkv, a, b, decay, dt_bias, past -> y, present
//                attributes key_heads, value_heads, key_columns, value_columns, key_groups:
//                "grouped" or "tiled"
//   SsmScan      xbc, dt, decay, dt_bias, skip, past -> y, present
//                attributes heads, head_columns, groups, state_columns, dt_min, dt_max
//
// What they compute: program/ir.h. A state is [1, floats] f32; zeros before the first row.
#pragma once

#include "convert/graph/graph_nodes.h"
#include "convert/model/model_config.h"

namespace weft::convert {

// Declares the state of transformer layer `index` (from 0) as inputs and outputs of the graph.
// REQUIRES: its mixer is recurrent.
void DeclareState(const ModelConfig& config, uint32_t index, onnx::Graph* graph);

// x [1, S, hidden] -> what the layer's mixer adds to the stream. `node` is the path of the nodes,
// `prefix` that of the weights. REQUIRES: the mixer is recurrent.
std::string BuildRecurrent(const ModelConfig& config, const std::string& node,
                           const std::string& prefix, uint32_t index, const std::string& x,
                           GraphNodes* nodes);

}  // namespace weft::convert
