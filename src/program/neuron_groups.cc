#include "program/neuron_groups.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "program/op_views.h"
#include "program/weight_parts.h"
#include "tensor/dtype.h"

namespace weft::program {
namespace {

bool Holds(const View& whole, const View& part) {
  return whole.buffer == part.buffer && whole.first_column <= part.first_column &&
         part.first_column + part.columns <= whole.first_column + whole.columns;
}

// The operations of an MLP, as indices of ops, and where its rows are in the weights.
struct Mlp {
  size_t gate = 0, up = 0;  // products; one and the same where both are packed
  size_t activation = 0;
  size_t down = 0;
};

// The product that wrote the whole view, if that was the last one before `end` to write there.
std::optional<size_t> WriterOf(const Program& program, const View& view, size_t end) {
  for (size_t i = end; i-- > 0;) {
    bool writes = false;
    VisitViews(program.ops[i], [&](const View& written, bool is_output) {
      writes |= is_output && Overlap(written, view);
    });
    if (!writes) continue;
    const auto* product = std::get_if<MatMul>(&program.ops[i]);
    if (product == nullptr || !Holds(product->out, view)) return std::nullopt;
    return i;
  }
  return std::nullopt;
}

std::optional<Mlp> FindMlp(const Program& program) {
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const auto* activation = std::get_if<GatedActivation>(&program.ops[i]);
    if (activation == nullptr) continue;
    const auto gate = WriterOf(program, activation->gate, i);
    const auto up = WriterOf(program, activation->up, i);
    if (!gate || !up || i + 1 == program.ops.size()) continue;
    const auto* down = std::get_if<MatMul>(&program.ops[i + 1]);
    if (down != nullptr && Holds(down->in, activation->out) && Holds(activation->out, down->in))
      return Mlp{*gate, *up, i, i + 1};
  }
  return std::nullopt;
}

const MatMul& Product(const Program& program, size_t index) {
  return std::get<MatMul>(program.ops[index]);
}

Error Unsupported(const Program& program, const std::string& why) {
  return Error(ErrorCode::kUnsupported, "The MLP of layer " + std::to_string(program.layer_index) +
                                            " cannot be cut into neuron groups: " + why);
}

// The view of the weight that computes these columns of a product's output.
WeightView RowsOf(const MatMul& product, const View& columns) {
  return {product.weight.weight,
          product.weight.first_row + columns.first_column - product.out.first_column,
          columns.columns};
}

WeightId AddWeight(Program* program, Weight weight) {
  program->weights.push_back(std::move(weight));
  return static_cast<WeightId>(program->weights.size() - 1);
}

// The view of the biases of these columns of a product's output. REQUIRES: it has biases.
WeightView BiasesOf(const MatMul& product, const View& columns) {
  return {*product.bias, columns.first_column - product.out.first_column, columns.columns};
}

// Of matrices [groups, 2 * group_columns, columns], of biases [groups, 2 * group_columns]: a
// group's gate rows, then its up rows. Where both are the same rows, as without a gate, a group has
// them once.
Weight StackGateUp(const Program& program, const WeightView& gate, const WeightView& up,
                   uint32_t group_columns) {
  const Weight& gates = program.weights[gate.weight];
  const Weight& ups = program.weights[up.weight];
  const uint32_t groups = gate.rows / group_columns;
  const bool is_one = gate.weight == up.weight && gate.first_row == up.first_row;
  Weight stacked{gates.name + ".groups",
                 gates.dtype,
                 {groups, (is_one ? 1 : 2) * uint64_t{group_columns}},
                 {},
                 {},
                 {}};
  stacked.shape.insert(stacked.shape.end(), gates.shape.begin() + 1, gates.shape.end());
  for (uint32_t group = 0; group < groups; ++group) {
    AppendRows(gates, gate.first_row + group * group_columns, group_columns, stacked);
    if (is_one) continue;
    AppendRows(ups, up.first_row + group * group_columns, group_columns, stacked);
  }
  return stacked;
}

// [groups, columns, group_columns]. REQUIRES: ColumnsDivide.
Weight StackDown(const Weight& down, const WeightView& rows, uint32_t group_columns) {
  Weight used{down.name, down.dtype, {rows.rows, down.shape[1]}, {}, {}, {}};
  AppendRows(down, rows.first_row, rows.rows, used);
  const uint64_t groups = down.shape[1] / group_columns;
  Weight stacked{down.name + ".groups", down.dtype, {groups, rows.rows, group_columns}, {}, {}, {}};
  for (uint64_t group = 0; group < groups; ++group)
    AppendColumns(used, group * group_columns, group_columns, stacked);
  return stacked;
}

// [groups, columns]: the first group adds the biases of the down product, the others add zeros.
Weight FirstGroupsBias(const Weight& bias, uint32_t groups) {
  Weight stacked = bias;
  stacked.name += ".groups";
  stacked.shape.insert(stacked.shape.begin(), groups);
  for (uint32_t group = 1; group < groups; ++group)
    stacked.data.push_back({kZeros, 0, ByteCount(bias.data)});
  return stacked;
}

// Whether gate and up have biases of one form, or none.
bool HaveLikeBiases(const Program& program, const MatMul& gate, const MatMul& up) {
  if (!gate.bias || !up.bias) return !gate.bias && !up.bias;
  return program.weights[*gate.bias].dtype == program.weights[*up.bias].dtype;
}

Status CheckGroups(const Program& program, const Mlp& mlp, uint32_t group_columns) {
  const MatMul& gate = Product(program, mlp.gate);
  const MatMul& up = Product(program, mlp.up);
  const MatMul& down = Product(program, mlp.down);
  const Weight& gates = program.weights[gate.weight.weight];
  const Weight& ups = program.weights[up.weight.weight];
  const uint32_t width = down.in.columns;
  const std::string columns = std::to_string(group_columns) + " of " + std::to_string(width);
  if (!Holds(gate.in, up.in) || !Holds(up.in, gate.in) || gates.dtype != ups.dtype ||
      gates.zero.empty() != ups.zero.empty() || !HaveLikeBiases(program, gate, up))
    return Unsupported(program, "its gate and up products differ in more than their weights.");
  if (group_columns == 0 || width % group_columns != 0 ||
      !ColumnsDivide(program.weights[down.weight.weight], group_columns))
    return Unsupported(
        program, "groups of " + columns +
                     " columns do not divide its weights, which are cut at multiples of " +
                     std::to_string(CutColumns(program.weights[down.weight.weight].dtype)) + ".");
  if (width / group_columns > gate.in.columns)
    return Unsupported(program, "it would have more groups of " + columns +
                                    " columns than a row's " + std::to_string(gate.in.columns) +
                                    ".");
  return OkStatus();
}

}  // namespace

uint32_t MlpColumns(const Program& program) {
  const std::optional<Mlp> mlp = FindMlp(program);
  return mlp ? Product(program, mlp->down).in.columns : 0;
}

uint32_t GroupColumns(uint32_t mlp_columns, uint32_t wanted) {
  const auto block = static_cast<uint32_t>(kBlockValues);
  const uint32_t step = mlp_columns % block == 0 && wanted >= block ? block : 1;
  uint32_t best = step;
  for (uint32_t columns = step; columns <= std::min(wanted, mlp_columns); columns += step)
    if (mlp_columns % columns == 0) best = columns;
  return best;
}

SumGrid GridFor(float largest, uint32_t groups) {
  constexpr float kMostSteps = 0x1p24f;  // whose sums are exact in f32
  const float limit = std::min(0x1p22f, std::floor(kMostSteps / static_cast<float>(groups)));
  const float least = std::max(4 * largest, 0x1p-60f) / limit;
  int exponent = 0;
  const float fraction = std::frexp(least, &exponent);  // least = fraction * 2^exponent
  return {std::ldexp(1.0f, fraction > 0.5f ? exponent : exponent - 1), limit};
}

Result<Program> GroupedProgram(const Program& program, uint32_t group_columns, SumGrid grid) {
  const std::optional<Mlp> mlp = FindMlp(program);
  if (!mlp) return program;
  TRY(CheckGroups(program, *mlp, group_columns));
  const auto& activation = std::get<GatedActivation>(program.ops[mlp->activation]);
  const MatMul& gate = Product(program, mlp->gate);
  const MatMul& up = Product(program, mlp->up);
  const MatMul& down = Product(program, mlp->down);
  const uint32_t groups = down.in.columns / group_columns;

  Program grouped = program;
  MoeExperts experts;
  experts.in = gate.in;
  experts.out = down.out;
  experts.experts = experts.top_k = groups;
  experts.kind = activation.kind;
  experts.grid = grid;
  experts.gate_up = AddWeight(&grouped, StackGateUp(program, RowsOf(gate, activation.gate),
                                                    RowsOf(up, activation.up), group_columns));
  experts.down = AddWeight(
      &grouped, StackDown(program.weights[down.weight.weight], down.weight, group_columns));
  if (gate.bias)
    experts.gate_up_bias =
        AddWeight(&grouped, StackGateUp(program, BiasesOf(gate, activation.gate),
                                        BiasesOf(up, activation.up), group_columns));
  if (down.bias)
    experts.down_bias = AddWeight(&grouped, FirstGroupsBias(program.weights[*down.bias], groups));
  const auto route_buffer = static_cast<BufferId>(grouped.buffers.size());
  grouped.buffers.push_back({"group_route", 2 * groups});
  experts.route = {route_buffer, 0, 2 * groups};
  // Where the output takes the place of the input, which the down product did not read any more.
  if (Overlap(experts.in, experts.out)) {
    experts.out = {static_cast<BufferId>(grouped.buffers.size()), 0, down.out.columns};
    grouped.buffers.push_back({"group_sum", down.out.columns});
  }
  // kAll looks at no logits, so any columns will do.
  const View any{gate.in.buffer, gate.in.first_column, groups};
  grouped.ops.clear();
  for (size_t i = 0; i < program.ops.size(); ++i) {
    if (i == mlp->gate || i == mlp->up || i == mlp->activation) continue;
    if (i == mlp->down) {
      grouped.ops.emplace_back(MoeRoute{any, experts.route, groups, groups, RouteKind::kAll});
      grouped.ops.emplace_back(experts);
      if (experts.out.buffer != down.out.buffer)
        grouped.ops.emplace_back(Scale{experts.out, down.out, 1});
      continue;
    }
    grouped.ops.push_back(program.ops[i]);
  }
  DropUnusedWeights(grouped);
  return grouped;
}

}  // namespace weft::program
