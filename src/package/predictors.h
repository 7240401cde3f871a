// Predictors of neuron groups in a package: blobs that its layers name (LayerInfo::predictor).
// Weft from before they were there does not look at them.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "package/package.h"

namespace weft::package {

// Puts the blobs, by layer, in the place of all that the package has. The package is the old one
// until weft.json, which is replaced last and at once, names them; its digest is another one then.
// REQUIRES: layers that the package has.
Status StorePredictors(const Package& package,
                       const std::map<uint32_t, std::vector<uint8_t>>& predictors);

}  // namespace weft::package
