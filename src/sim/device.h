// A simulated device, across its connections: what it is, what it has on disk, and what goes wrong
// on it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/clock.h"
#include "swarm/workers/layer_set.h"

namespace weft::sim {

// Where all devices are: in one private network.
inline constexpr char kDeviceAddress[] = "10.0.0.1";

// What it tells that is not so, once that time has come.
struct Lies {
  Instant from{INT64_MAX};
  bool finite = false;                 // all that it computes is something else, checks included
  bool not_finite = false;             // its rows end with a value that is no number
  std::optional<uint32_t> claimed_us;  // that whatever it computes took
  bool HaveBegun(Instant now) const { return now >= from; }
};

struct Device {
  std::string id;
  std::string kind = "native", engine = "native";
  bool needs_onnx = false;
  uint32_t token_batch = 0;  // sessions whose tokens it makes in one batch; 0: it knows none
  // Layers may be given to it without their experts, and experts without their layers.
  bool is_hub_and_holder = false;
  bool is_no_hub = false;         // but such a device is a holder alone
  bool rows_to_server = false;    // as a hub it leaves it to the server whom to ask, as tabs do
  bool divides_products = false;  // such a device knows ranges of products
  uint16_t datagram_port = 0;     // where it sends and gets datagrams; 0: it has none
  // One thread for everything: a ping is answered after the step before it.
  bool pings_wait = false;
  uint64_t memory_bytes = 0;
  double weight_factor = 1;  // true factor
  double claimed_weight_factor = 1;
  // Some parts take up to so much more than others for their weights. The device does not know that
  // before it has them.
  double part_spread = 0;
  // Its engine takes this room with the first layer, and further ones use it. So its report after
  // loading says so much more than the weights take, as far as the offer goes.
  uint64_t room_bytes = 0;
  double overhead_us = 200;       // per step
  double bytes_per_us = 1000;     // compute
  double slowdown = 1;            // faults change this
  double link_bytes_per_us = 10;  // each direction
  Duration latency;               // one way
  Duration joins_after;
  // Faults of this device, each a probability.
  double step_failure = 0, numbers_failure = 0, prepare_failure = 0, corrupt_frame = 0,
         illegal_message = 0, prepare_crash = 0, duplicate_message = 0, late_message = 0;
  Lies lies;
  // Messages that nobody asked it for, from then on, in each millisecond.
  uint32_t unasked_per_ms = 0;
  Instant unasked_from{INT64_MAX};
  swarm::LayerSet disk, disk_hubs;                       // blobs survive reconnects
  std::set<std::pair<uint32_t, uint32_t>> disk_experts;  // layer, expert
  std::map<uint32_t, double> partial_bytes;              // of layers whose download was interrupted
};

}  // namespace weft::sim
