// Products with weights, biases, and look-ups in embedding tables.
#include <algorithm>

#include "lower/refuse.h"
#include "lower/trace/rules.h"

namespace weft::lower::trace {
namespace {

using onnx::ElementType;
using onnx::Node;
using onnx::Tensor;

struct Matrix {
  int64_t rows = 0, columns = 0;  // as programs have it: out = in * W^T
  WeightId weight = 0;
};

// A constant [K, N], or [N, K] when `is_rows` is set, as a weight [N, K].
Result<Matrix> MatrixOf(Tracer& tracer, const Node& node, const ValuePtr& value, bool is_rows) {
  if (value->kind != Kind::kInitializer || value->dims.size() != 2) {
    return Refuse(node, "multiplies a hidden value with what is no constant matrix");
  }
  const Tensor& tensor = *tracer.graph().FindInitializer(value->initializer);
  const auto dtype = onnx::ToDType(tensor.type);
  if (!dtype || !onnx::IsFloatType(tensor.type)) {
    return Refuse(node, "multiplies with '" + value->initializer + "', which is of type " +
                            std::string(onnx::ElementTypeName(tensor.type)));
  }
  const int64_t rows = value->dims[is_rows ? 0 : 1], columns = value->dims[is_rows ? 1 : 0];
  if (rows > kMaxWeightRows) return Refuse(node, "has a weight of more than a million rows");
  const bool as_stored = is_rows != value->transposed;
  WeightRecipe recipe{
      .form = as_stored ? WeightRecipe::Form::kPlain : WeightRecipe::Form::kTransposed,
      .data = value->initializer};
  const std::string name = value->initializer + (as_stored ? "" : ".transposed");
  Weight weight{name, *dtype, {static_cast<uint64_t>(rows), static_cast<uint64_t>(columns)},
                {},   {},     {}};
  return Matrix{rows, columns, tracer.AddWeight(std::move(weight), std::move(recipe))};
}

Outputs EmitProduct(Tracer& tracer, const Node& node, const ValuePtr& x, const Matrix& matrix,
                    const ValuePtr& bias) {
  ASSIGN_OR_RETURN(const View in, tracer.Rows(node, x));
  if (in.columns != matrix.columns || x->dims.back() != matrix.columns) {
    return Refuse(node, "multiplies " + std::to_string(in.columns) + " columns with a weight of " +
                            std::to_string(matrix.columns));
  }
  MatMul op{.in = in,
            .out = {},
            .weight = {matrix.weight, 0, static_cast<uint32_t>(matrix.rows)},
            .bias = {}};
  if (bias != nullptr) {
    ASSIGN_OR_RETURN(const auto values, tracer.VectorOf(node, bias, matrix.rows));
    op.bias = tracer.AddVector(std::string(node.Output(0)) + ".bias", values);
  }
  op.out = tracer.NewBuffer(node.Output(0), matrix.rows);
  tracer.program().ops.push_back(op);
  Dims dims = x->dims;
  dims.back() = matrix.rows;
  return Values{tracer.RowsOf(op.out, std::move(dims))};
}

const Tensor* Constant(Tracer& tracer, const ValuePtr& value) {
  return value != nullptr && value->kind == Kind::kInitializer && !value->transposed
             ? tracer.graph().FindInitializer(value->initializer)
             : nullptr;
}

}  // namespace

Result<WeightId> BlockWeight(Tracer& tracer, const Node& node, const BlockArrays& arrays) {
  const int64_t block = arrays.block_size, columns = arrays.columns;
  const int64_t rows = arrays.rows * std::max<int64_t>(1, arrays.experts);
  const auto in_range = [](int64_t value) { return value > 0 && value <= kMaxWeightRows; };
  const bool known = (arrays.bits == 4 || (arrays.bits == 8 && arrays.zero == nullptr)) &&
                     block >= kBlockValues && block % kBlockValues == 0 && block <= 4096 &&
                     in_range(arrays.rows) && in_range(columns) && columns % kBlockValues == 0;
  if (!known) {
    return Refuse(node, "has " + std::to_string(arrays.bits) + " bits in blocks of " +
                            std::to_string(block) + " over " + std::to_string(columns) +
                            " columns" + (arrays.zero != nullptr ? " with zero points" : "") +
                            "; expected 4 bits, or 8 without zero points, in blocks that are "
                            "multiples of 32");
  }
  const int64_t blocks = (columns + block - 1) / block;
  const Tensor *data = Constant(tracer, arrays.data), *scale = Constant(tracer, arrays.scale),
               *zero = Constant(tracer, arrays.zero);
  const auto has = [](const Tensor* tensor, int64_t count, bool is_float) {
    return tensor != nullptr && tensor->element_count() == count &&
           (is_float ? onnx::IsFloatType(tensor->type) && onnx::ToDType(tensor->type)
                     : tensor->type == ElementType::kUint8);
  };
  if (!has(data, rows * blocks * block * arrays.bits / 8, false) ||
      !has(scale, rows * blocks, true)) {
    return Refuse(node, "has weights or scales that do not fit [" + std::to_string(rows) + ", " +
                            std::to_string(columns) + "]");
  }
  if (arrays.zero != nullptr && !has(zero, rows * ((blocks + 1) / 2), false)) {
    return Refuse(node, "has zero points that are not packed u4");
  }
  WeightRecipe recipe{.form = WeightRecipe::Form::kBlocks,
                      .data = arrays.data->initializer,
                      .scale = arrays.scale->initializer,
                      .zero = zero == nullptr ? "" : arrays.zero->initializer,
                      .block_size = block,
                      .interleaved = arrays.interleaved,
                      .values = {}};
  Weight weight{
      arrays.data->initializer, arrays.bits == 4 ? DType::kQ4 : DType::kQ8, {}, {}, {}, {}};
  if (arrays.experts > 0) weight.shape.push_back(static_cast<uint64_t>(arrays.experts));
  weight.shape.push_back(static_cast<uint64_t>(arrays.rows));
  weight.shape.push_back(static_cast<uint64_t>(columns));
  return tracer.AddWeight(std::move(weight), std::move(recipe));
}

namespace {

Outputs EmitEmbed(Tracer& tracer, const Node& node, WeightId weight, const ValuePtr& tokens) {
  const auto columns = static_cast<int64_t>(tracer.program().weights[weight].shape[1]);
  const View out = tracer.NewBuffer(node.Output(0), columns);
  tracer.program().ops.push_back(Embed{weight, out, 1});
  Dims dims = tokens->dims;
  dims.push_back(columns);
  return Values{tracer.RowsOf(out, std::move(dims))};
}

}  // namespace

Outputs RunMatMul(Tracer& tracer, const Node& node, const Values& in) {
  if (in.size() != 2 || !in[0] || !in[1]) return Refuse(node, "lacks an operand");
  if (IsConstant(in[0]) && IsConstant(in[1])) return RunNumbers(tracer, node, in);
  if (in[0]->kind == Kind::kProbabilities) return RunAttend(tracer, node, in[0], in[1]);
  if (in[0]->kind == Kind::kExperts || in[1]->kind == Kind::kExperts) {
    return MultiplyExperts(tracer, node, in);
  }
  if (!IsConstant(in[1])) return RunScores(tracer, node, in[0], in[1], 1);
  ASSIGN_OR_RETURN(const ValuePtr x, tracer.Settle(node, in[0]));
  if (x->kind != Kind::kForms) return Refuse(node, "multiplies what is no plain hidden value");
  ASSIGN_OR_RETURN(const Matrix matrix, MatrixOf(tracer, node, in[1], false));
  return EmitProduct(tracer, node, x, matrix, nullptr);
}

Outputs RunGemm(Tracer& tracer, const Node& node, const Values& in) {
  if (in.size() < 2 || !in[0] || !in[1] || node.Int("transA", 0) != 0 ||
      node.Float("alpha", 1) != 1 || node.Float("beta", 1) != 1) {
    return Refuse(node, "is scaled or transposed in a way that weft does not know");
  }
  ASSIGN_OR_RETURN(const ValuePtr x, tracer.Settle(node, in[0]));
  if (x->kind != Kind::kForms) return Refuse(node, "multiplies what is no plain hidden value");
  ASSIGN_OR_RETURN(const Matrix matrix, MatrixOf(tracer, node, in[1], node.Int("transB", 0) != 0));
  return EmitProduct(tracer, node, x, matrix, in.size() > 2 ? in[2] : nullptr);
}

Outputs RunMatMulNBits(Tracer& tracer, const Node& node, const Values& in) {
  if (in.size() < 3 || !in[0] || !in[1] || !in[2]) return Refuse(node, "lacks an operand");
  if (node.HasInput(4)) return Refuse(node, "reorders its rows by group indices");
  const BlockArrays arrays{.rows = node.Int("N", 0),
                           .columns = node.Int("K", 0),
                           .bits = node.Int("bits", 4),
                           .block_size = node.Int("block_size", 0),
                           .data = in[1],
                           .scale = in[2],
                           .zero = in.size() > 3 ? in[3] : nullptr};
  ASSIGN_OR_RETURN(const ValuePtr x, tracer.Settle(node, in[0]));
  if (x->kind != Kind::kForms) return Refuse(node, "multiplies what is no plain hidden value");
  ASSIGN_OR_RETURN(const WeightId weight, BlockWeight(tracer, node, arrays));
  return EmitProduct(tracer, node, x, {arrays.rows, arrays.columns, weight},
                     in.size() > 5 ? in[5] : nullptr);
}

Outputs RunGather(Tracer& tracer, const Node& node, const Values& in) {
  if (in.size() != 2 || !in[0] || !in[1]) return Refuse(node, "lacks an operand");
  if (tracer.ChoicesOf(in[1])) return GatherExperts(tracer, node, in);
  if (in[1]->kind != Kind::kTokens) return RunMove(tracer, node, in);
  const Tensor* table = Constant(tracer, in[0]);
  if (table == nullptr || in[0]->dims.size() != 2 || node.Int("axis", 0) != 0 ||
      !onnx::IsFloatType(table->type) || !onnx::ToDType(table->type)) {
    return Refuse(node, "does not look up rows of a float table");
  }
  const WeightId weight = tracer.AddWeight(
      {in[0]->initializer,
       *onnx::ToDType(table->type),
       {static_cast<uint64_t>(in[0]->dims[0]), static_cast<uint64_t>(in[0]->dims[1])},
       {},
       {},
       {}},
      {.form = WeightRecipe::Form::kPlain, .data = in[0]->initializer});
  return EmitEmbed(tracer, node, weight, in[1]);
}

Outputs RunGatherBlockQuantized(Tracer& tracer, const Node& node, const Values& in) {
  if (in.size() < 3 || !in[0] || !in[1] || !in[2] || in[1]->kind != Kind::kTokens ||
      in[0]->dims.size() != 2 || in[0]->type != ElementType::kUint8 ||
      node.Int("gather_axis", 0) != 0 || node.Int("quantize_axis", 1) != 1) {
    return Refuse(node, "does not look up rows of a table of u8 [rows, bytes] by input_ids");
  }
  const int64_t bits = node.Int("bits", 4);
  const BlockArrays arrays{.rows = in[0]->dims[0],
                           .columns = in[0]->dims[1] * 8 / std::max<int64_t>(1, bits),
                           .bits = bits,
                           .block_size = node.Int("block_size", 128),
                           .data = in[0],
                           .scale = in[2],
                           .zero = in.size() > 3 ? in[3] : nullptr};
  ASSIGN_OR_RETURN(const WeightId weight, BlockWeight(tracer, node, arrays));
  return EmitEmbed(tracer, node, weight, in[1]);
}

std::optional<Outputs> AddBias(Tracer& tracer, const Node& node, const ValuePtr& x,
                               const ValuePtr& bias) {
  if (x->kind != Kind::kForms || bias == nullptr || tracer.program().ops.empty()) {
    return std::nullopt;
  }
  const auto place = PlacementOf(*x, tracer.rows(), tracer.source_columns());
  if (!place || place->factor != 1 || place->layout != Layout::kRows) return std::nullopt;
  const View view = tracer.ViewOf(*place);
  for (Op& op : tracer.program().ops) {
    auto* product = std::get_if<MatMul>(&op);
    if (product == nullptr || product->out.buffer != view.buffer || product->bias ||
        product->out.columns != view.columns) {
      continue;
    }
    const auto values = tracer.VectorOf(node, bias, view.columns);
    if (!values.ok()) return std::nullopt;
    product->bias = tracer.AddVector(std::string(node.Output(0)) + ".bias", *values);
    return Values{x};
  }
  return std::nullopt;
}

}  // namespace weft::lower::trace
