#include "program/shards.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "program/head_ranges.h"
#include "program/op_views.h"
#include "program/weight_parts.h"

namespace weft::program {
namespace {

// The experts of a stacked array, which takes as many bytes for each.
std::vector<Part> Pick(const std::vector<Part>& parts, uint64_t expert_count,
                       std::span<const uint32_t> experts) {
  const uint64_t each = ByteCount(parts) / expert_count;
  std::vector<Part> picked;
  for (const uint32_t expert : experts) {
    const std::vector<Part> own = CutParts(parts, expert * each, each);
    picked.insert(picked.end(), own.begin(), own.end());
  }
  return picked;
}

}  // namespace

Weight WeightOfExperts(const Weight& weight, std::span<const uint32_t> experts) {
  const uint64_t count = weight.shape[0];
  Weight picked{weight.name,
                weight.dtype,
                weight.shape,
                Pick(weight.data, count, experts),
                Pick(weight.scale, count, experts),
                Pick(weight.zero, count, experts)};
  picked.shape[0] = experts.size();
  return picked;
}

const MoeExperts* FindExperts(const Program& program) {
  for (const Op& op : program.ops)
    if (const auto* experts = std::get_if<MoeExperts>(&op)) return experts;
  return nullptr;
}

bool HasGroups(const Program& program) {
  const MoeExperts* experts = FindExperts(program);
  if (experts == nullptr || experts->grid.step == 0) return false;
  return std::ranges::any_of(program.ops, [experts](const Op& op) {
    const auto* route = std::get_if<MoeRoute>(&op);
    return route != nullptr && route->out.buffer == experts->route.buffer &&
           route->kind == RouteKind::kAll && route->scale == 1;
  });
}

bool TakesIntegers(const Program& program) {
  const auto is_integer = [&](WeightId id) {
    return IsSuperblockFormat(program.weights[id].dtype);
  };
  if (const MoeExperts* experts = FindExperts(program)) return is_integer(experts->gate_up);
  const std::optional<HeadRanges> ranges = FindHeadRanges(program);
  return ranges && is_integer(std::get<MatMul>(program.ops[ranges->product]).weight.weight);
}

Program HubProgram(const Program& program) {
  if (FindHeadRanges(program)) return HeadHubProgram(program);
  Program hub = program;
  const bool sums = HasGroups(program);
  for (Op& op : hub.ops) {
    const auto* experts = std::get_if<MoeExperts>(&op);
    if (experts == nullptr) continue;
    op = SlotExchange{experts->in,
                      experts->route,
                      experts->out,
                      experts->experts,
                      experts->top_k,
                      sums,
                      sums ? experts->grid : SumGrid()};
  }
  DropUnusedWeights(hub);
  return hub;
}

Result<Program> ExpertProgram(const Program& program, std::span<const uint32_t> experts) {
  const std::string layer = "Layer " + std::to_string(program.layer_index);
  const MoeExperts* whole = FindExperts(program);
  if (whole == nullptr || experts.empty())
    return Error(
        ErrorCode::kInvalidArgument,
        layer + (whole == nullptr ? " has no experts." : " was asked for none of its experts."));
  for (const uint32_t expert : experts)
    if (expert >= whole->experts)
      return Error(ErrorCode::kInvalidArgument, layer + " has no expert " + std::to_string(expert) +
                                                    ", only " + std::to_string(whole->experts) +
                                                    ".");
  Program shard;
  shard.layer_index = program.layer_index;
  const uint32_t columns = whole->in.columns;
  shard.buffers = {{"row_and_route", columns + 2}, {"expert_row", columns}};
  shard.input = 0;
  shard.output = 1;
  MoeExperts op = *whole;
  op.in = {0, 0, columns};
  op.route = {0, columns, 2};
  op.out = {1, 0, columns};
  op.experts = static_cast<uint32_t>(experts.size());
  op.top_k = 1;
  Op holder = op;
  VisitWeights(holder, [&](WeightId& id) {
    shard.weights.push_back(WeightOfExperts(program.weights[id], experts));
    id = static_cast<WeightId>(shard.weights.size() - 1);
  });
  shard.ops.push_back(holder);
  return shard;
}

Result<std::vector<Program>> PartPrograms(const Program& program, std::span<const uint32_t> parts) {
  std::vector<Program> programs;
  if (!FindHeadRanges(program)) {
    ASSIGN_OR_RETURN(programs.emplace_back(), ExpertProgram(program, parts));
    return programs;
  }
  for (const uint32_t range : parts) {
    ASSIGN_OR_RETURN(programs.emplace_back(), RangeProgram(program, range));
  }
  return programs;
}

}  // namespace weft::program
