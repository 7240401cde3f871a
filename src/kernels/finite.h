// Values that are infinite or no numbers: a layer that makes some is refused by name.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/view.h"
#include "kernels/workspace.h"

namespace weft::kernels {

size_t CountNonFinite(std::span<const float> values);
// The same of all rows, with the workspace's threads where there are many.
size_t CountNonFinite(const ConstRows& rows, Workspace& workspace);

}  // namespace weft::kernels
