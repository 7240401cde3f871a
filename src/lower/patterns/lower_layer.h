// Lowers the ONNX graph of one layer to a program. The graph decides, never a configuration: what
// it cannot recognise is refused with the node's name and operator.
//
// Recognised today: com.microsoft GroupQueryAttention (rotation outside), RotaryEmbedding over
// tables computed from position_ids, MatMulNBits, GatherBlockQuantized,
// SimplifiedLayerNormalization or RMSNormalization, MatMul with a transposed weight, SiLU as Mul
// and Sigmoid, Gelu, Add, products with a number, soft caps, MoE and QMoE over experts that are
// stacked out of one initializer each. Other forms are further rows of rule_table.cc.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "lower/program_names.h"
#include "onnx/graph.h"

namespace weft::lower {

// `part` is the model of a single layer as onnx::ExtractLayers gives it, its weights external and
// named by SHA-256 in hex. Errors: kUnsupported names the node.
Result<Program> LowerLayer(const onnx::Model& part, uint32_t layer_index);

}  // namespace weft::lower
