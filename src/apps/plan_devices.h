// The file of `weft plan --workers`: devices as their owner describes them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "swarm/device.h"

namespace weft::apps {

// JSON like {"workers": [{"name": "laptop", "memory": "4GiB", ...}]}; only "memory" has to be
// there. The error names the file, the device, the field and what was expected.
Result<std::vector<swarm::DeviceNumbers>> ReadDevices(const std::string& path, size_t layer_count);

}  // namespace weft::apps
