// What a device offers in Connect, and what an Init must say before it does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/datagram_address.h"
#include "base/result.h"
#include "tensor/dtype.h"
#include "wire/control.pb.h"

namespace weft::worker {

// What a device says of itself.
struct Offer {
  std::string kind = "native", engine = "native";
  std::string name;       // shown to people
  std::string device;     // "8 threads, AVX-512"
  std::string worker_id;  // the same across restarts of one device
  std::string join_token;
  uint64_t memory_bytes = 0;
  double weight_factor = 1;  // bytes held for a byte of weights, as far as known before loading
  double upload_bytes_per_s = 0;  // 0: unknown
  bool needs_onnx = false;        // computes ONNX stages, a run at a time
  // Sessions whose tokens it makes in one batch; 0: it knows none of those frames.
  uint32_t makes_tokens = 0;
  uint32_t steps_in_flight = 1;    // of different sessions, that are given to its engine at once
  bool takes_experts = false;      // knows HoldExperts and shard messages
  bool keeps_state = false;        // runs layers with recurrent state
  bool states_ahead = false;       // makes_tokens holds for models with such layers, too
  bool can_be_hub = false;         // knows stages whose experts are elsewhere
  bool runs_groups = false;        // runs layers in neuron groups
  bool integer_rows = false;       // takes rows as whole numbers, and sends them as a hub
  bool sum_steps = false;          // sends sums of neuron groups in steps, and takes them as a hub
  bool half_rows = false;          // takes rows of experts in f16, and sends them as a hub
  bool divides_heads = false;      // knows output heads in ranges
  bool divides_products = false;   // knows products inside layers in ranges
  std::vector<DType> dtypes = {};  // of weights beside f32, f16, bf16, q8 and q4 that it runs
  // Has a socket for datagrams, which others may reach at these addresses.
  bool datagrams = false;
  bool messages = false;  // shard messages may go in them
  std::vector<DatagramAddress> datagram_addresses = {};
};

// What was found out after Init: the package, and how fast the link to it is.
struct JoinedPackage {
  uint32_t layer_count = 0;
  std::vector<uint32_t> cached_layers;
  double download_bytes_per_s = 0;  // 0: a local disk, which needs no link
};

// Of programs and packages every version that this weft reads will do: what a server sends is the
// one that its model needs. kUnsupported names both versions, kInvalidData what else cannot be.
Status CheckInit(const wire::pb::Init& init);

// Sessions of a batch with a server that has sent this Init.
uint32_t TokenBatch(const Offer& offer, const wire::pb::Init& init);

// In the versions of Init, without makes_tokens, which Init decides as well.
wire::pb::Connect MakeConnect(const Offer& offer, const JoinedPackage& package,
                              const wire::pb::Init& init);

// How long a server that pings as its Init says may be silent.
Duration SilenceLimit(const wire::pb::Init& init);

}  // namespace weft::worker
