// Checks the weights of a program, and what messages about them have in common.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "program/ir.h"

namespace weft::program {

// Gives an invalid_data error with this sentence.
Error Invalid(std::string message);

// Writes a shape as messages do: "[4, 64]".
std::string ShapeText(const std::vector<uint64_t>& shape);

// Refuses a dtype or a shape that engines do not hold, and parts that do not add up to exactly the
// bytes that these need. The error names the weight.
Status CheckWeight(const Weight& weight);

}  // namespace weft::program
