// Cuts a layered decoder: the ONNX model of any range of layers. Exactly one tensor crosses each
// cut, the residual stream, under fixed names whatever the range:
//
//   hidden_in   [batch, sequence, hidden]  input of all parts but the first, which takes tokens
//   hidden_out  [batch, sequence, hidden]  output of all parts but the last, which gives logits
//
// A part takes and gives the caches of its own layers under their names in the whole graph. It also
// takes the graph's other inputs (attention_mask, position_ids) that it needs. What depends on
// these alone (masks, rotary tables, lengths) is recomputed in each part.
#pragma once

#include <memory>

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

// The same for many ranges of one model: what is known about the whole graph is worked out once.
// The layered model must outlive the cutter and stay unchanged. Threads may share one.
class LayerCutter {
 public:
  explicit LayerCutter(const LayeredModel& layered);
  ~LayerCutter();
  LayerCutter(const LayerCutter&) = delete;
  LayerCutter& operator=(const LayerCutter&) = delete;

  Result<Model> Extract(int first, int end) const;
  // Boundaries keep their names in the whole graph: what the set equations speak of.
  Result<Model> ExtractKeepingNames(int first, int end) const;

 private:
  struct Analysis;
  std::unique_ptr<const Analysis> analysis_;
};

// Cuts at every boundary and checks with the set equation of cuts (simple_graph.h) that exactly the
// residual stream crosses each. Errors: kUnsupported naming what else crosses.
Status CheckCuts(const LayeredModel& layered);

}  // namespace weft::onnx
