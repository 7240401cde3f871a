// The model of a simulated cell, with the options of its cores and the devices of its workers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/ids.h"
#include "sim/device.h"
#include "sim/hash_model.h"
#include "swarm/options.h"
#include "swarm/workers/costs.h"

namespace weft::sim {

struct CellModel {
  CellModel(uint64_t seed, cluster::CellId cell);
  CellModel(const CellModel&) = delete;
  CellModel& operator=(const CellModel&) = delete;

  swarm::CoreOptions options;  // nothing of one time of leading
  const swarm::Costs costs;
  const HashModel hash;

 private:
  static swarm::CoreOptions OptionsOf(uint64_t seed, cluster::CellId cell);
};

// Devices that together have room for the model twice. A step takes tens of milliseconds, so that
// answers last for seconds.
std::vector<Device> MakeDevices(uint64_t seed, const CellModel& model, uint32_t count,
                                const std::string& prefix);

// A server's address, as workers are told it.
swarm::Successor SuccessorOf(cluster::ServerId server);
cluster::ServerId ServerOf(const std::string& url);

}  // namespace weft::sim
