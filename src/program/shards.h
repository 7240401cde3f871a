// Cuts a layer where it is sparse: a hub keeps everything but the experts, whose work goes to
// whoever holds them.
//
//   the layer    ... MoeRoute, MoeExperts, Add ...
//   its hub      ... MoeRoute, SlotExchange, Add ...
//   a shard      one MoeExperts over some of the experts, a slot a row
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "program/ir.h"

namespace weft::program {

// Whether the layer's MLP is in neuron groups (neuron_groups.h): experts that are all chosen with
// weight 1 and lie on a grid, so that their outputs may be added up by whoever has some of them.
bool HasGroups(const Program& program);

// Whether whoever holds this part of the layer, an expert, neuron group or range, and those that
// are asked for with it, multiplies its rows as whole numbers (tensor/integer_row.h), and does
// nothing else with them. False: the layer has no such part.
bool TakesIntegers(const Program& program, uint32_t part);

// The program with SlotExchange in the place of MoeExperts, and RangeExchange in that of products
// in ranges (product_ranges.h), without the weights that nothing uses any more. A program without
// either stays as it is.
Program HubProgram(const Program& program);

// A program of the same layer over these experts alone, in this order. Its input [columns + 2] is
// the row that goes into the experts, then the index of its expert in `experts` and the weight 1;
// its output [columns] is the unweighted row of that expert. An engine runs it as a layer without
// keys and values. kInvalidArgument: the layer has no experts, or not these.
Result<Program> ExpertProgram(const Program& program, std::span<const uint32_t> experts);

// A weight [experts, rows, columns] of these experts alone, in this order. REQUIRES: it has them.
Weight WeightOfExperts(const Weight& weight, std::span<const uint32_t> experts);

// A program of whoever holds parts of a layer, and which of these it computes.
struct PartProgram {
  Program program;
  size_t begin = 0, end = 0;  // of the parts that were asked for
};

// The programs of whoever holds these parts of a layer, which rise. They are one ExpertProgram of
// all experts, one RangesProgram of all ranges that are asked for together, and in an output head
// one of each range. kInvalidArgument: as of these.
Result<std::vector<PartProgram>> PartPrograms(const Program& program,
                                              std::span<const uint32_t> parts);

}  // namespace weft::program
