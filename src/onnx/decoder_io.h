// Which graph inputs and outputs of a decoder play which part. Layers are counted here, from the
// caches that go in and come out. Node and weight names cannot be trusted: builders name the final
// norm "layers.<n>", torch.export names nothing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "onnx/graph.h"

namespace weft::onnx {

// The state of one transformer layer: usually past_key_values.<i>.key and .value in,
// present.<i>.key and .value out.
struct LayerState {
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
};

struct DecoderIo {
  std::string tokens;  // input_ids, or inputs_embeds for a graph without an embedding
  std::string logits;
  // One per transformer layer up to the last that has some; empty where a layer has none.
  std::vector<LayerState> states;
  std::map<std::string, int, std::less<>> state_layers;  // name of a state -> its layer, 0-based

  // The layer (0-based) whose state input or output `name` is; -1 when it is none.
  int StateLayer(std::string_view name) const {
    const auto it = state_layers.find(name);
    return it == state_layers.end() ? -1 : it->second;
  }
};

// Errors: kUnsupported when the graph has no tokens, no logits or no caches.
Result<DecoderIo> FindDecoderIo(const Graph& graph);
// Error: kUnsupported when the numbers of the caches leave gaps. Where nobody knows the values
// between the layers, the caches tell them apart.
Status CheckEveryLayerHasState(const DecoderIo& io);

}  // namespace weft::onnx
