// Tables that token ids look rows up in.
#include "lower/patterns/block_forms.h"
#include "lower/patterns/rules.h"
#include "lower/refuse.h"

namespace weft::lower {
namespace {

using onnx::ElementType;
using onnx::Node;
using onnx::Tensor;

Status ExpectTokens(const LoweringContext& context, const Node& node) {
  const std::string_view ids = node.Input(1);
  const onnx::ValueInfo* input = context.graph().FindInput(ids);
  if (ids == "input_ids" && input != nullptr) return OkStatus();
  return Refuse(node, "looks up '" + std::string(ids) + "', which is not input_ids");
}

View EmitEmbed(LoweringContext& context, const Node& node, Weight weight) {
  const uint64_t columns = weight.shape[1];
  const WeightId id = context.AddWeight(std::move(weight));
  const View out = context.NewBuffer(node.Output(0), columns);
  context.Emit(Embed{id, out, 1});
  return out;
}

}  // namespace

Result<View> LowerGather(LoweringContext& context, const Node& node) {
  TRY(ExpectTokens(context, node));
  const std::string name = context.ThroughCasts(node.Input(0));
  const Tensor* table = context.graph().FindInitializer(name);
  if (table == nullptr || table->dims.size() != 2 || node.Int("axis", 0) != 0 ||
      !onnx::IsFloatType(table->type) || !onnx::ToDType(table->type)) {
    return Refuse(node, "does not look up rows of a float table");
  }
  ASSIGN_OR_RETURN(const Part part, PartOf(node, name, *table));
  return EmitEmbed(context, node,
                   {name,
                    *onnx::ToDType(table->type),
                    {static_cast<uint64_t>(table->dims[0]), static_cast<uint64_t>(table->dims[1])},
                    {part},
                    {},
                    {}});
}

Result<View> LowerGatherBlockQuantized(LoweringContext& context, const Node& node) {
  TRY(ExpectTokens(context, node));
  const int64_t bits = node.Int("bits", 4);
  const Tensor* data = context.graph().FindInitializer(node.Input(0));
  const std::string scale_name = context.ThroughCasts(node.Input(2));
  const Tensor* scale = context.graph().FindInitializer(scale_name);
  const bool form = (bits == 4 || bits == 8) && node.Int("block_size", 128) == kBlockValues &&
                    node.Int("gather_axis", 0) == 0 && node.Int("quantize_axis", 1) == 1 &&
                    !node.HasInput(3);
  if (!form || data == nullptr || data->type != ElementType::kUint8 || data->dims.size() != 2 ||
      scale == nullptr || scale->dims.size() != 2) {
    return Refuse(node,
                  "is not a table of u8 [rows, bytes] in blocks of 32 with f16 scales or records "
                  "of superblocks, and without zero points");
  }
  const int64_t rows = data->dims[0], columns = data->dims[1] * 8 / bits;
  const DType dtype = FormOf(bits, scale->type, scale->dims[1], columns);
  if (columns % kBlockValues != 0 || scale->dims[0] != rows ||
      !AreScales(scale->type, scale->dims[1], dtype, columns)) {
    return Refuse(node, "has scales or records that do not fit its table");
  }
  Weight weight{std::string(node.Input(0)),
                dtype,
                {static_cast<uint64_t>(rows), static_cast<uint64_t>(columns)},
                {},
                {},
                {}};
  ASSIGN_OR_RETURN(const Part data_part, PartOf(node, node.Input(0), *data));
  ASSIGN_OR_RETURN(const Part scale_part, PartOf(node, scale_name, *scale));
  weight.data = {data_part};
  weight.scale = {scale_part};
  return EmitEmbed(context, node, std::move(weight));
}

}  // namespace weft::lower
