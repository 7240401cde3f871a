// What weft.json says about each layer, read off the ONNX graph: works for graphs that weft writes
// and for imported ones.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lower/patterns/lower_layer.h"
#include "onnx/graph.h"
#include "onnx/layers.h"
#include "package/manifest.h"

namespace weft::convert {

struct DescribedLayers {
  std::vector<package::LayerInfo> layers;
  bool lowered = false;
  std::string why_not_lowered;  // names the node that no program operation stands for
};

// Stores an encoded program as a blob.
using StoreProgram = std::function<Result<package::Digest>(ByteSpan)>;

// Gives the program of a layer; `part` is the model of that layer.
using LowerLayer =
    std::function<Result<program::Program>(const onnx::Model& part, uint32_t layer_index)>;

// Cuts `model` (weights external, named by blob digest) at every layer, lowers each part to a
// program, and adds up its weights, and keys and values in `kv_dtype`. A layer that cannot be
// lowered makes a package without programs, which is no error. Errors: kUnsupported when the graph
// has no layers that one tensor joins; those of `store`.
Result<DescribedLayers> DescribeLayers(const onnx::Model& model, DType kv_dtype,
                                       const StoreProgram& store,
                                       const LowerLayer& lower = lower::LowerLayer);
Result<DescribedLayers> DescribeLayers(const onnx::LayeredModel& layered, DType kv_dtype,
                                       const StoreProgram& store, const LowerLayer& lower);

}  // namespace weft::convert
