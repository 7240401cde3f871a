// A dense MLP as a mixture of neuron groups, all chosen with weight 1 (halo-lossy-networks):
//
//   the layer         ... MatMul (gate, up), GatedActivation, MatMul (down), Add ...
//   in groups         ... MoeRoute (kAll), MoeExperts, Add ...
//
//   gate, up [width, columns]           down [columns, width]
//     rows    of group 0  ----.           columns of group 0 ---> expert 0
//     rows    of group 1  --.  `-> ...    columns of group 1 ---> expert 1
//
// So the hub of such a layer and the programs of those who hold some of its groups are HubProgram
// and ExpertProgram (shards.h), and everything that moves rows of experts moves rows of groups.
//
// Every group's output is rounded to a grid before it is added. Then sums are exact: who adds which
// groups, and in which order, changes no bit, on one device or on ten.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "program/ir.h"

namespace weft::program {

// Columns of the layer's MLP between its products; 0 if it has none that can be cut.
uint32_t MlpColumns(const Program& program);

// The widest groups of at most `wanted` columns that divide `mlp_columns` evenly, in whole blocks
// of 32 where the MLP has whole blocks; one of 172 columns (stories260K) has 2 of 86.
uint32_t GroupColumns(uint32_t mlp_columns, uint32_t wanted);

// The finest grid that holds outputs of `groups` groups up to four times `largest`, the largest
// output of a group that was seen, and whose sums are exact.
SumGrid GridFor(float largest, uint32_t groups);

// The layer in groups of so many columns; a layer without an MLP stays as it is. kUnsupported: the
// MLP has biases, more groups than columns of a row, or weights that such groups do not divide.
Result<Program> GroupedProgram(const Program& program, uint32_t group_columns, SumGrid grid);

}  // namespace weft::program
