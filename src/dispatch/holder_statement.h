// Who can be asked for experts, as the server says it to a hub (ExpertHolders).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/result.h"
#include "dispatch/dispatcher.h"
#include "wire/control.pb.h"

namespace weft::dispatch {

// kInvalidData: not of a model with so many layers.
Result<std::vector<Holder>> HoldersOf(const wire::pb::ExpertHolders& statement,
                                      uint32_t layer_count);

}  // namespace weft::dispatch
