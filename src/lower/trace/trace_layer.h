// Lowers a layer of somebody else's ONNX graph by running it on small made-up batches. Values that
// depend on positions and lengths alone are computed. The rest is followed element by element
// through reshapes, splits, rotations and copies, until it is a known operation again. So a graph's
// results count, not the exporter's spelling: decomposed norms, rotations by halves or pairs,
// repeated heads, masks of any make, packed projections.
//
// Several batches are run: a prompt, a prompt after a past, single steps, and single steps after as
// much past as the model was made for. All must give the same program. Masks must be causal or a
// sliding window in each of them. Rotations must turn by position times one table of frequencies.
// The table and the window are found from them. Anything else is refused with the node's name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "lower/program_names.h"
#include "lower/trace/recipe.h"
#include "onnx/graph.h"

namespace weft::lower {

struct TracedLayer {
  Program program;                    // its weights have no parts yet
  std::vector<WeightRecipe> recipes;  // [weight of the program]
};

// `part` is the model of one layer as onnx::ExtractLayers gives it, with the bytes of its
// initializers. `context_length`: positions the model was made for. Errors: kUnsupported names the
// node.
Result<TracedLayer> TraceLayer(const onnx::Model& part, uint32_t layer_index,
                               int64_t context_length);

}  // namespace weft::lower
