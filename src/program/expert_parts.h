// A mixture of experts whose experts are in parts of their width, so that several devices compute
// one of them:
//
//   gate, up of expert e [width, columns]     down of expert e [columns, width]
//     rows    of part 0  ----.                  columns of part 0 ---> expert parts * e
//     rows    of part 1  --.  `-> ...           columns of part 1 ---> expert parts * e + 1
//
// A row that chose expert e goes to all of its parts, each with the expert's weight (MoeRoute). A
// part is an expert like any other to whoever places, holds or asks for it (shards.h).
//
// Worth it where experts are large and few of them are chosen. An expert of Mixtral 8x7B is 99 MB
// in q4s, which a core reads in 10 ms, and a token has two of them in a layer: no third device
// helps. In four parts they are eight, of 2.5 ms each.
//
// The sum of a row's slots has other roundings than that of whole experts: a package in parts gives
// other bits than one without, and the same ones on one device or on ten.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "program/ir.h"

namespace weft::program {

// Gives the columns of an expert between its products, or 0 where the layer has no experts.
uint32_t ExpertColumns(const Program& program);

// Gives the widest parts of at most `wanted` columns that divide experts of the layer evenly, and
// their weights between blocks. Where none is as narrow it gives the narrowest that there are.
// REQUIRES: the layer has experts.
uint32_t PartColumns(const Program& program, uint32_t wanted);

// Gives the layer with experts in parts of so many columns. A layer without experts stays as it is,
// and so does one whose experts are no wider. kUnsupported: its experts are neuron groups or in
// parts already, or such parts do not divide them.
Result<Program> PartedProgram(const Program& program, uint32_t part_columns);

}  // namespace weft::program
