#include "program/shards.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "program/op_views.h"
#include "program/product_ranges.h"
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

bool HasGroups(const Program& program) {
  const MoeExperts* experts = FindExperts(program);
  if (experts == nullptr || experts->grid.step == 0) return false;
  return std::ranges::any_of(program.ops, [experts](const Op& op) {
    const auto* route = std::get_if<MoeRoute>(&op);
    return route != nullptr && route->out.buffer == experts->route.buffer &&
           route->kind == RouteKind::kAll && route->scale == 1;
  });
}

bool TakesIntegers(const Program& program, uint32_t part) {
  const auto is_integer = [&](WeightId id) {
    return IsSuperblockFormat(program.weights[id].dtype);
  };
  const MoeExperts* experts = FindExperts(program);
  if (experts != nullptr && part < experts->experts) return is_integer(experts->gate_up);
  const std::vector<ProductRanges> products = FindRanges(program);
  const ProductRanges* asked = FindRange(products, part);
  return asked != nullptr && std::ranges::all_of(products, [&](const ProductRanges& each) {
           return each.exchange != asked->exchange ||
                  is_integer(std::get<MatMul>(program.ops[each.product]).weight.weight);
         });
}

Program HubProgram(const Program& program) {
  Program hub = program;
  ExchangeRanges(FindRanges(program), hub);
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

Result<std::vector<PartProgram>> PartPrograms(const Program& program,
                                              std::span<const uint32_t> parts) {
  const MoeExperts* experts = FindExperts(program);
  const std::vector<ProductRanges> products = FindRanges(program);
  const bool is_head = experts == nullptr && !products.empty();
  const auto is_range = [&](uint32_t part) {
    return is_head || (!products.empty() && part >= experts->experts);
  };
  // Whether both are computed by one program.
  const auto together = [&](uint32_t a, uint32_t b) {
    if (!is_range(a) || !is_range(b)) return is_range(a) == is_range(b);
    const ProductRanges* one = FindRange(products, a);
    const ProductRanges* other = FindRange(products, b);
    return !is_head && one != nullptr && other != nullptr && one->exchange == other->exchange;
  };
  std::vector<PartProgram> programs;
  size_t begin = 0, end = 0;
  do {
    while (end < parts.size() && (end == begin || together(parts[begin], parts[end]))) ++end;
    const auto some = parts.subspan(begin, end - begin);
    PartProgram& part = programs.emplace_back(PartProgram{{}, begin, end});
    const bool in_ranges = !some.empty() && is_range(some.front());
    ASSIGN_OR_RETURN(part.program,
                     in_ranges ? RangesProgram(program, some) : ExpertProgram(program, some));
    begin = end;
  } while (begin < parts.size());
  return programs;
}

}  // namespace weft::program
