#include "program/expert_parts.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "program/shards.h"
#include "program/weight_parts.h"

namespace weft::program {
namespace {

// An empty stack [experts * parts, rows, columns] for the parts of a stack of experts' arrays.
Weight EmptyStack(const Weight& whole, uint32_t parts) {
  Weight stacked{whole.name + ".parts", whole.dtype, whole.shape, {}, {}, {}};
  stacked.shape[0] *= parts;
  return stacked;
}

// Expert number `expert` of a stack as a matrix [rows, columns], or of biases as rows.
Weight ExpertOf(const Weight& stacked, uint32_t expert) {
  Weight one = WeightOfExperts(stacked, {&expert, 1});
  one.shape.erase(one.shape.begin());
  return one;
}

// Of gate_up [experts, 2 * width or width, columns] or its biases: of each part its gate rows, then
// its up rows. `halves`: 2, or 1 of experts without a gate.
Weight RowsInParts(const Weight& whole, uint32_t parts, uint64_t halves) {
  Weight stacked = EmptyStack(whole, parts);
  const uint64_t width = whole.shape[1] / halves, part_rows = width / parts;
  stacked.shape[1] = halves * part_rows;
  for (uint32_t expert = 0; expert < whole.shape[0]; ++expert) {
    const Weight one = ExpertOf(whole, expert);
    for (uint32_t part = 0; part < parts; ++part)
      for (uint64_t half = 0; half < halves; ++half)
        AppendRows(one, half * width + part * part_rows, part_rows, stacked);
  }
  return stacked;
}

// Of down [experts, columns, width].
Weight ColumnsInParts(const Weight& whole, uint32_t parts) {
  Weight stacked = EmptyStack(whole, parts);
  const uint64_t part_columns = whole.shape[2] / parts;
  stacked.shape[2] = part_columns;
  for (uint32_t expert = 0; expert < whole.shape[0]; ++expert) {
    const Weight one = ExpertOf(whole, expert);
    for (uint32_t part = 0; part < parts; ++part)
      AppendColumns(one, part * part_columns, part_columns, stacked);
  }
  return stacked;
}

// Of biases of down [experts, columns]: the first part adds them, the others add zeros.
Weight FirstPartsBias(const Weight& whole, uint32_t parts) {
  Weight stacked = EmptyStack(whole, parts);
  const uint64_t bytes = ByteCount(whole.data) / whole.shape[0];
  for (uint32_t expert = 0; expert < whole.shape[0]; ++expert) {
    AppendRows(whole, expert, 1, stacked);
    for (uint32_t part = 1; part < parts; ++part) stacked.data.push_back({kZeros, 0, bytes});
  }
  return stacked;
}

Error CannotCut(const Program& program, const std::string& why) {
  return Error(ErrorCode::kUnsupported,
               "The experts of layer " + std::to_string(program.layer_index) + " " + why);
}

bool CanCut(const Program& program, const MoeExperts& experts, uint32_t part_columns) {
  return part_columns > 0 && ExpertColumns(program) % part_columns == 0 &&
         ColumnsDivide(program.weights[experts.down], part_columns);
}

}  // namespace

uint32_t ExpertColumns(const Program& program) {
  const MoeExperts* experts = FindExperts(program);
  return experts == nullptr ? 0 : static_cast<uint32_t>(program.weights[experts->down].shape[2]);
}

uint32_t PartColumns(const Program& program, uint32_t wanted) {
  const MoeExperts& experts = *FindExperts(program);
  const uint32_t width = ExpertColumns(program);
  uint32_t narrowest = width;
  for (uint32_t parts = 1; parts <= width; ++parts) {
    const uint32_t columns = width / parts;
    if (!CanCut(program, experts, columns)) continue;
    narrowest = columns;
    if (columns <= wanted) break;
  }
  return narrowest;
}

Result<Program> PartedProgram(const Program& program, uint32_t part_columns) {
  const MoeExperts* whole = FindExperts(program);
  const uint32_t width = ExpertColumns(program);
  if (whole == nullptr || part_columns == width) return program;
  if (HasGroups(program)) return CannotCut(program, "are neuron groups, which are parts already.");
  if (!CanCut(program, *whole, part_columns))
    return CannotCut(program, "are " + std::to_string(width) + " columns wide, which parts of " +
                                  std::to_string(part_columns) +
                                  " columns do not divide, or not between blocks of their "
                                  "weights.");
  const uint32_t parts = width / part_columns;
  Program parted = program;
  const auto add = [&parted](Weight weight) {
    parted.weights.push_back(std::move(weight));
    return static_cast<WeightId>(parted.weights.size() - 1);
  };
  const auto route_buffer = static_cast<BufferId>(parted.buffers.size());
  const uint32_t route_columns = 2 * whole->top_k * parts;
  parted.buffers.push_back({"part_route", route_columns});

  MoeExperts experts = *whole;
  const auto& weights = program.weights;
  const uint64_t halves = weights[whole->gate_up].shape[1] / width;
  experts.experts *= parts;
  experts.top_k *= parts;
  experts.route = {route_buffer, 0, route_columns};
  experts.gate_up = add(RowsInParts(weights[whole->gate_up], parts, halves));
  experts.down = add(ColumnsInParts(weights[whole->down], parts));
  if (whole->gate_up_bias)
    experts.gate_up_bias = add(RowsInParts(weights[*whole->gate_up_bias], parts, halves));
  if (whole->down_bias) experts.down_bias = add(FirstPartsBias(weights[*whole->down_bias], parts));

  for (Op& op : parted.ops) {
    if (std::holds_alternative<MoeExperts>(op)) op = experts;
    auto* route = std::get_if<MoeRoute>(&op);
    if (route == nullptr) continue;
    if (route->parts > 1) return CannotCut(program, "are in parts already.");
    route->parts = parts;
    route->out = experts.route;
  }
  DropUnusedWeights(parted);
  return parted;
}

}  // namespace weft::program
