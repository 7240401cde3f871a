#include "lower/layer_form.h"

#include "lower/refuse.h"
#include "onnx/extract.h"

namespace weft::lower {
namespace {

constexpr int64_t kMaxHiddenColumns = int64_t{1} << 18;

}  // namespace

Result<uint32_t> HiddenColumns(const onnx::ValueInfo& input) {
  const onnx::Dim columns =
      input.shape && !input.shape->empty() ? input.shape->back() : onnx::Dim{};
  if (!columns.known()) {
    return Error(ErrorCode::kUnsupported,
                 "The columns of '" + input.name + "' are not declared in the graph.");
  }
  if (columns.value < 1 || columns.value > kMaxHiddenColumns) {
    return Error(ErrorCode::kUnsupported,
                 "'" + input.name + "' has " + std::to_string(columns.value) +
                     " columns, expected 1 to " + std::to_string(kMaxHiddenColumns) + ".");
  }
  return static_cast<uint32_t>(columns.value);
}

Result<std::string> MainOutput(const onnx::Graph& graph) {
  for (const char* name : {onnx::kHiddenOut, "logits"}) {
    if (graph.FindOutput(name) != nullptr) return std::string(name);
  }
  return Error(ErrorCode::kUnsupported,
               "The layer has neither an output 'hidden_out' nor 'logits'.");
}

Status ExpectPlainAttention(const onnx::Graph& graph, const onnx::Node& node) {
  if (node.Int("smooth_softmax", 0) != 0) return Refuse(node, "has a smooth softmax");
  if (node.Int("qk_output", 0) != 0) return Refuse(node, "gives out its scores");
  if (node.Int("kv_cache_bit_width", 0) != 0) return Refuse(node, "has a quantised cache");
  for (const size_t slot : {size_t{10}, size_t{12}, size_t{13}}) {
    if (node.HasInput(slot)) return Refuse(node, "has an input in slot " + std::to_string(slot));
  }
  for (const size_t slot : {size_t{3}, size_t{4}}) {
    if (graph.FindInput(node.Input(slot)) == nullptr) {
      return Refuse(node, "reads a cache that is not an input of the layer");
    }
  }
  return OkStatus();
}

}  // namespace weft::lower
