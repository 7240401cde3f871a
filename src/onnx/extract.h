// Cuts a layered decoder: the ONNX model of any range of layers. Exactly one tensor crosses each
// cut, the residual stream, under fixed names whatever the range:
//   hidden_in   [batch, sequence, hidden]  input of every part but the first (which takes the
//   tokens instead) hidden_out  the same                   output of every part but the last (which
//   gives the logits instead)
// A part takes and gives the caches of its own layers under their names in the whole graph, and
// takes those of the graph's other inputs (attention_mask, position_ids) that it needs. What
// depends on these alone (masks, rotary tables, lengths) is recomputed in each part.
#pragma once

#include "base/result.h"
#include "onnx/graph.h"
#include "onnx/layers.h"
#include "onnx/simple_graph.h"

namespace weft::onnx {

inline constexpr char kHiddenIn[] = "hidden_in";
inline constexpr char kHiddenOut[] = "hidden_out";

// The model of layers [first, end). REQUIRES: 0 <= first < end <= layered.layer_count().
// Errors: kUnsupported naming the second tensor that would have to cross.
Result<Model> ExtractLayers(const LayeredModel& layered, int first, int end);

// The same with boundaries under their names in the whole graph: what the set equations speak of.
Result<Model> ExtractLayersKeepingNames(const LayeredModel& layered, int first, int end);

// Cuts at every boundary and checks with the set equations (simple_graph.h) that exactly the
// residual stream crosses each. Errors: kUnsupported naming what else crosses.
Status CheckCuts(const LayeredModel& layered);

}  // namespace weft::onnx
