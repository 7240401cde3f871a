// What a run asks of one row of logits: its best tokens, or one drawn from all of them.
#pragma once

#include <span>

#include "engine/engine.h"
#include "kernels/kernel_set.h"

namespace weft::engine {

// Penalties and biases change `logits` in place. REQUIRES: finite logits; `wanted` is kArgmax,
// kCandidates or kDraw, checked as CheckStep does.
Selection SelectRow(const kernels::KernelSet& kernels, const Output& wanted,
                    std::span<float> logits);

}  // namespace weft::engine
