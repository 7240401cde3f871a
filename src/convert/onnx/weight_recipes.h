// Makes the weights of traced programs (lower/trace/trace_layer.h) from the constants of an ONNX
// graph: transposed, cut into our blocks, or as they are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convert/weights/array_store.h"
#include "lower/trace/trace_layer.h"
#include "onnx/graph.h"

namespace weft::convert {

// The key under which the bytes of initializer `name` are kept.
std::string InitializerKey(const std::string& name);
// Of its bytes with the last two axes exchanged.
std::string TransposedKey(const std::string& name);

// The key of a weight's bytes that are its initializer's but for the order of rows: gate and up
// deinterleaved (WeightRecipe::interleaved). nullopt for other weights.
std::optional<std::string> DeinterleavedKey(const program::Weight& weight,
                                            const lower::WeightRecipe& recipe);

// Adds an initializer's own bytes. `experts` > 1: it stacks that many.
void AddInitializer(const onnx::Graph& graph, const std::string& name, int layer, ArrayStore* store,
                    uint64_t experts = 1);
// The same with the last two axes exchanged.
void AddTransposed(const onnx::Graph& graph, const std::string& name, int layer, ArrayStore* store,
                   uint64_t experts = 1);

// Adds the arrays that the weights of a layer's program need. `rounded` is told of float32 scales
// that float16 does not hold exactly. Errors: kUnsupported for scales beyond float16.
Status AddWeights(const onnx::Graph& graph, const lower::TracedLayer& layer, ArrayStore* store,
                  bool* rounded);

// The program with its weights' parts, once the store is written. Errors: those of validation.
Result<program::Program> FinishProgram(const onnx::Graph& graph, const lower::TracedLayer& layer,
                                       const ArrayStore& store);

}  // namespace weft::convert
