// A dense MLP as a mixture of neuron groups, all chosen with weight 1 (halo-lossy-networks):
//
//   the layer         ... MatMul (gate, up), GatedActivation, MatMul (down), Add ...
//   in groups         ... MoeRoute (kAll), MoeExperts, Add ...
//
//   gate, up [width, columns]           down [columns, width]
//     rows    of group 0  ----.           columns of group 0 ---> expert 0
//     rows    of group 1  --.  `-> ...    columns of group 1 ---> expert 1
//
// The hub of such a layer runs its HubProgram, and those who hold some of its groups run an
// ExpertProgram (shards.h). Everything that moves rows of experts moves rows of groups.
//
// Biases of gate and up are cut like their rows. Those of the down product count once: the first
// group adds them, and the others have zeros in their place.
//
// Every group's output is rounded to a grid before it is added. Then sums are exact. It changes no
// bit who adds which groups, and in which order, on one device or on ten.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "program/ir.h"

namespace weft::program {

// Gives the columns of the layer's MLP between its products, or 0 if it has none that can be cut.
uint32_t MlpColumns(const Program& program);

// Gives the widest groups of at most `wanted` columns that divide `mlp_columns` evenly. They are
// whole blocks of 32 where the MLP has whole blocks. One of 172 columns (stories260K) has 2 of 86.
uint32_t GroupColumns(uint32_t mlp_columns, uint32_t wanted);

// Gives the finest grid whose sums are exact and that holds outputs of `groups` groups up to four
// times `largest`. That is the largest output of a group that was seen.
SumGrid GridFor(float largest, uint32_t groups);

// Gives the layer in groups of so many columns. A layer without an MLP stays as it is.
// kUnsupported: the MLP has more groups than columns of a row, biases of its gate alone, or weights
// that such groups do not divide.
Result<Program> GroupedProgram(const Program& program, uint32_t group_columns, SumGrid grid);

}  // namespace weft::program
