// The experts of a sparse layer as com.microsoft MoE or QMoE, which onnxruntime runs on the CPU.
#pragma once

#include "convert/graph/graph_nodes.h"
#include "convert/model/model_config.h"

namespace weft::convert {

// x [1, S, hidden] -> the experts' weighted sum, of the same shape. `node` is the path of the
// nodes, `layer` the package's. Each expert's matrices are initializers of their own that the graph
// stacks: they lie in the expert's blob. MoE wants the rows of gate and up interleaved, which a
// Reshape, a Transpose and a Reshape make of one after the other.
std::string BuildExperts(const ModelConfig& config, const std::string& node, uint32_t layer,
                         const std::string& x, GraphNodes* nodes);

}  // namespace weft::convert
