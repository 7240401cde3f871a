// The devices of `weft plan` as their owner describes them: in a file, or one more on the command
// line.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "swarm/workers/device.h"

namespace weft::apps {

// JSON like {"workers": [{"name": "laptop", "memory": "4GiB", ...}]}; only "memory" has to be
// there. The error names the file, the device, the field and what was expected.
Result<std::vector<swarm::DeviceNumbers>> ReadDevices(const std::string& path, size_t layer_count);

// "laptop=8GB", or "laptop=8GB,read_gb_per_s=20,kind=web" with fields as in the file.
Result<swarm::DeviceNumbers> ParseDevice(const std::string& text, size_t layer_count);

// Takes the device of that name out.
Status RemoveDevice(std::vector<swarm::DeviceNumbers>& devices, const std::string& name);

}  // namespace weft::apps
