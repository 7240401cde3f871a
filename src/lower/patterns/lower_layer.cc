#include "lower/patterns/lower_layer.h"

#include "lower/layer_form.h"
#include "lower/patterns/rule_table.h"
#include "lower/rule_of.h"
#include "onnx/extract.h"
#include "program/codec.h"
#include "program/reuse_buffers.h"
#include "program/state.h"

namespace weft::lower {
namespace {

// Every cache that the layer gives out must be the work of the one Attention, or of an operator
// with recurrent state; anything else would be lost.
Status CheckOutputs(LoweringContext& context, const std::string& output) {
  for (const onnx::ValueInfo& info : context.graph().outputs) {
    if (info.name == output) continue;
    const onnx::Node* node = context.Producer(info.name);
    const bool is_attention = node != nullptr && (node->IsMicrosoft("GroupQueryAttention") ||
                                                  node->op_type == "LatentAttention");
    const bool is_cache = is_attention && FindAttention(context.program()) != nullptr;
    const bool is_state = node != nullptr && node->domain == kWeftDomain &&
                          program::StateFloats(context.program()) > 0;
    if (!is_cache && !is_state) {
      return Error(ErrorCode::kUnsupported, "The layer also gives out '" + info.name +
                                                "', which no program operation does.");
    }
  }
  return OkStatus();
}

Result<Program> Lower(const onnx::Graph& graph, uint32_t layer_index) {
  LoweringContext context(graph, layer_index, FindRule);
  if (const onnx::ValueInfo* input = graph.FindInput(onnx::kHiddenIn)) {
    ASSIGN_OR_RETURN(const uint32_t columns, HiddenColumns(*input));
    const View view = context.NewBuffer(onnx::kHiddenIn, columns);
    context.Bind(onnx::kHiddenIn, view);
    context.program().input = view.buffer;
  }
  ASSIGN_OR_RETURN(const std::string output, MainOutput(graph));
  ASSIGN_OR_RETURN(const View result, context.Lower(output));
  TRY(CheckOutputs(context, output));
  context.program().output = result.buffer;
  program::ReuseBuffers(&context.program());
  TRY(program::Validate(context.program()));
  return std::move(context.program());
}

}  // namespace

Result<Program> LowerLayer(const onnx::Model& part, uint32_t layer_index) {
  return Lower(part.graph, layer_index)
      .Context("While lowering layer " + std::to_string(layer_index));
}

}  // namespace weft::lower
