// Merged decoders: one file whose graph is a choice between two decoders, as Optimum wrote them for
// years. `use_cache_branch` says at every step which one computes:
//
//   If(use_cache_branch): then  reads tokens and a past        (for later tokens)
//                         else  reads tokens                   (for the prompt)
#pragma once

#include "onnx/graph.h"

namespace weft::onnx {

// Puts the decoder with a past in the place of the choice, and removes the input that chose. A past
// of no positions makes it a decoder of prompts, too, unless it was written for single tokens. A
// caller of such a graph must know that later tokens are masked. Gives false, and changes nothing,
// where the graph has no such choice.
bool TakeDecoderWithPast(Graph* graph);

}  // namespace weft::onnx
