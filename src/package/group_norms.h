// group_norms.json of a package with neuron groups says how large the groups' outputs usually are.
// The smallest matter least where some may be lost (docs/tensor-groups.md).
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace weft::package {

inline constexpr const char* kGroupNormsFile = "group_norms.json";

// By layer, as many as the model has, and group; none where a layer has no groups.
using GroupNorms = std::vector<std::vector<float>>;

// {"norms": [[], [0.5, 0.25], ...]}
std::string GroupNormsJson(const GroupNorms& norms);
// kInvalidData: another form, or a norm that is negative or not finite.
Result<GroupNorms> ParseGroupNorms(std::string_view json);

}  // namespace weft::package
