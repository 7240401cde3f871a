// The handshake: Init, and the checks that turn a stranger's Connect into an Offer or a refusal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/datagram_address.h"
#include "base/result.h"
#include "swarm/options.h"
#include "wire/control.pb.h"

namespace weft::swarm {

// What a worker said about itself, after validation.
struct Offer {
  std::string kind;  // "native", "web" or "headless"
  std::string engine;
  std::string name, device;
  std::string device_id;  // the same device after a reload; may be empty
  uint64_t memory_bytes = 0;
  double weight_factor = 1;
  double download_bytes_per_s = 0;  // > 0
  double upload_bytes_per_s = 0;    // > 0: the download rate where the worker does not know
  bool needs_onnx = false;          // runs ONNX stages, not programs
  // Generates that may be on their way to it at once where it runs all layers; 0: none ever, 1: one
  // after the other.
  uint32_t makes_tokens = 0;
  bool takes_experts = false;     // can be sent HoldExperts
  bool keeps_state = false;       // runs layers with recurrent state
  bool states_ahead = false;      // makes_tokens holds for models with such layers, too
  bool can_be_hub = false;        // can be sent PrepareStage for layers in hub form
  bool rows_to_server = false;    // the same, and leaves it to the server whom to ask for experts
  bool runs_groups = false;       // runs layers in neuron groups
  bool divides_heads = false;     // knows output heads in ranges, as a hub and as a holder
  bool divides_products = false;  // the same of products inside layers
  bool integer_rows = false;      // knows rows as whole numbers, as a hub and as a holder
  bool sum_steps = false;         // knows sums of groups in steps, as a hub and as a holder
  bool half_rows = false;         // knows rows of experts in f16, as a hub and as a holder
  bool datagrams = false;         // can answer hubs in datagrams
  bool messages = false;          // shard messages may go in datagrams
  std::vector<DType> dtypes;      // of weights beside f32, f16, bf16, q8 and q4 that it runs
  std::vector<DatagramAddress> datagram_addresses;  // that it has named as its own
  std::vector<uint32_t> cached_layers;
};

// Whether it runs every dtype of the model's weights.
bool RunsDTypes(const Offer& offer, const ModelInfo& model);
// Whether it can be given layers of this model, and whether it can hold experts of it.
bool CanCompute(const Offer& offer, const ModelInfo& model);
bool CanHoldExperts(const Offer& offer, const CoreOptions& options);
// Whether it can be given layers of this model in their hub form.
bool CanBeHub(const Offer& offer, const CoreOptions& options);

wire::pb::Init::Successor MakeSuccessor(const Successor& successor);
// `incarnation` and `successors`: those of now.
wire::pb::Init MakeInit(const CoreOptions& options, uint64_t incarnation,
                        const std::vector<Successor>& successors);

// kUnsupported: a version differs (the sentence names both and what to do). kPermissionDenied: join
// token. kInvalidData: a field outside its range. Texts are made printable and cut to their limits,
// not refused.
Result<Offer> CheckConnect(const wire::pb::Connect& connect, const CoreOptions& options);

// `text` as printable UTF-8 of at most `byte_limit` bytes: other bytes become '?', a cut never
// splits a character.
std::string PrintableText(std::string_view text, size_t byte_limit);

}  // namespace weft::swarm
