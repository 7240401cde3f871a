// Makes panels of a weight's matrices, with a few threads: one alone packs less than a disk reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "kernels/matrix.h"

namespace weft::engine {

// Writes the panels of matrices of one form and size, one after the other, `each` bytes apart.
// Refuses what kernels::PackPanels refuses, with its sentence for the first such row.
Status PackAllPanels(std::span<const kernels::Matrix> stored, size_t each, uint8_t* to);

}  // namespace weft::engine
