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

// The experts of a layer; nullptr where it has none.
const MoeExperts* FindExperts(const Program& program);

// Whether the layer's MLP is in neuron groups (neuron_groups.h): experts that are all chosen with
// weight 1 and lie on a grid, so that their outputs may be added up by whoever has some of them.
bool HasGroups(const Program& program);

// Whether whoever holds experts, neuron groups or ranges of the layer multiplies its rows as whole
// numbers (tensor/integer_row.h), and does nothing else with them. False: it has no such parts.
bool TakesIntegers(const Program& program);

// The program with SlotExchange in the place of MoeExperts, or RangeExchange in that of an output
// head in ranges (head_ranges.h), without the weights that nothing uses any more. A program without
// either stays as it is.
Program HubProgram(const Program& program);

// A program of the same layer over these experts alone, in this order. Its input [columns + 2] is
// the row that goes into the experts, then the index of its expert in `experts` and the weight 1;
// its output [columns] is the unweighted row of that expert. An engine runs it as a layer without
// keys and values. kInvalidArgument: the layer has no experts, or not these.
Result<Program> ExpertProgram(const Program& program, std::span<const uint32_t> experts);

// A weight [experts, rows, columns] of these experts alone, in this order. REQUIRES: it has them.
Weight WeightOfExperts(const Weight& weight, std::span<const uint32_t> experts);

// The programs of whoever holds these parts of a layer. It is one ExpertProgram, or in an output
// head one RangeProgram for each of the ranges. kInvalidArgument: as of these.
Result<std::vector<Program>> PartPrograms(const Program& program, std::span<const uint32_t> parts);

}  // namespace weft::program
