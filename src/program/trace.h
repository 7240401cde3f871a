// Lowers a layer of an ONNX graph that somebody else wrote, by running it on small made-up batches:
// whatever depends on positions and lengths alone is computed, and the rest is followed element by
// element through reshapes, splits, rotations and copies until it is a known operation again. So
// what counts is what a graph does, not which of many spellings an exporter chose for it:
// decomposed norms, rotations by halves or pairs, repeated heads, masks of any make, packed
// projections.
//
// Several batches are run: a prompt, a prompt after a past, single steps, and single steps after as
// much past as the model was made for. All must give the same program. Masks must be causal or a
// sliding window in each of them, and rotations must turn by position times one table of
// frequencies; the table and the window are found from them. Anything else is refused with the
// node's name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "onnx/graph.h"
#include "program/ir.h"

namespace weft::program {

// How a weight of a program is made of the constants of the graph.
struct WeightRecipe {
  enum class Form {
    kPlain,       // as `data` lies there
    kTransposed,  // `data` [.., K, N] with its last two axes exchanged
    kBlocks,      // MatMulNBits' arrays: blocks of `block_size` values become blocks of 32
    kMade,        // `values`
  };
  Form form = Form::kPlain;
  std::string data, scale, zero;  // initializers; "": none
  int64_t block_size = 0;
  // Each expert's rows are those of gate and up in turn; the weight has gate first, up below.
  bool in_turn = false;
  std::vector<float> values;
  bool operator==(const WeightRecipe&) const = default;
};

struct TracedLayer {
  Program program;                    // its weights have no parts yet
  std::vector<WeightRecipe> recipes;  // [weight of the program]
};

// `part` is the model of one layer as onnx::ExtractLayers gives it, with the bytes of its
// initializers. `context_length`: positions the model was made for. Errors: kUnsupported names the
// node.
Result<TracedLayer> TraceLayer(const onnx::Model& part, uint32_t layer_index,
                               int64_t context_length);

}  // namespace weft::program
