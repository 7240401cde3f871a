// What travels behind the residual stream, in weft's own operators (convert/graph): Columns(x)
// takes some columns of x, Join puts values side by side, and Carry(x, y) is x with y in place of
// its first columns. None of them costs an operation: values are made where they are wanted.
#include "lower/patterns/rules.h"
#include "lower/refuse.h"

namespace weft::lower {
namespace {

using onnx::Node;

bool IsWholeBuffer(const LoweringContext& context, const View& view) {
  const Program& program = context.program();
  return view.first_column == 0 && view.columns == program.buffers[view.buffer].columns &&
         program.input != view.buffer;
}

}  // namespace

Result<View> LowerColumns(LoweringContext& context, const Node& node) {
  ASSIGN_OR_RETURN(View view, context.Lower(std::string(node.Input(0))));
  const int64_t first = node.Int("first", -1);
  const uint32_t count = CountAttribute(node, "count");
  if (first < 0 || count == 0 || first + count > view.columns) {
    return Refuse(node, "takes columns " + std::to_string(first) + " to " +
                            std::to_string(first + count) + " of " + std::to_string(view.columns));
  }
  view.first_column += static_cast<uint32_t>(first);
  view.columns = count;
  return view;
}

Result<View> LowerJoin(LoweringContext& context, const Node& node) {
  std::vector<View> parts;
  uint64_t columns = 0;
  for (const std::string& input : node.inputs) {
    ASSIGN_OR_RETURN(const View part, context.Lower(input));
    parts.push_back(part);
    columns += part.columns;
  }
  const View joined = context.NewBuffer(node.Output(0), columns);
  uint32_t first = 0;
  for (const View& part : parts) {
    if (!IsWholeBuffer(context, part) || part.buffer == joined.buffer) {
      return Refuse(node, "joins values that lie in others");
    }
    context.MoveBuffer(part.buffer, {joined.buffer, first, part.columns});
    first += part.columns;
  }
  return joined;
}

Result<View> LowerCarry(LoweringContext& context, const Node& node) {
  ASSIGN_OR_RETURN(const View carried, context.Lower(std::string(node.Input(0))));
  ASSIGN_OR_RETURN(const View stream, context.Lower(std::string(node.Input(1))));
  const bool is_last = !context.program().ops.empty() &&
                       std::visit([&](const auto& op) { return op.out.buffer == stream.buffer; },
                                  context.program().ops.back());
  const bool is_input = context.program().input == carried.buffer && carried.first_column == 0;
  if (!is_input || !is_last || !IsWholeBuffer(context, stream) ||
      stream.columns > carried.columns || !context.IsReadOnce(node.Input(1))) {
    return Refuse(node, "is not the end of a layer");
  }
  context.MoveBuffer(stream.buffer, {carried.buffer, 0, stream.columns});
  return carried;
}

}  // namespace weft::lower
