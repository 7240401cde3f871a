// The swarm's picture as the JSON of GET /api/swarm.
#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "swarm/snapshot.h"

namespace weft::api {

// What does not change while the server runs.
struct ModelCard {
  std::string name;
  std::string architecture;
  std::string quantisation;
  uint32_t layer_count = 0;
  uint64_t weight_bytes = 0;
  uint32_t context_length = 0;
};

// A device as it stands in "workers".
boost::json::object DeviceJson(const swarm::WorkerSnapshot& worker);
std::string SwarmJson(const swarm::Snapshot& snapshot, const ModelCard& model);
// The same where no model is loaded: the state is "idle", and questions may be asked.
std::string IdleSwarmJson();

// What a device that helps may know of itself, which has a join token and perhaps no API key:
// {"devices": [{"state": "idle", "check": "passed", "problem": "..."}]}, of all devices that call
// themselves so.
std::string HelperJson(const swarm::Snapshot& snapshot, const std::string& name);

}  // namespace weft::api
