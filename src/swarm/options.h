// The core is told these at start: the model's numbers (no files, no graphs), limits and timeouts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/sha256.h"
#include "swarm/placement.h"
#include "swarm/successor.h"
#include "tensor/dtype.h"
#include "wire/version.h"

namespace weft::swarm {

struct ModelLayer {
  uint64_t weight_bytes = 0;
  uint64_t download_bytes = 0;        // blobs, program included
  uint64_t read_bytes_per_token = 0;  // C_i at position 0
  uint64_t kv_bytes_per_position = 0;
  uint64_t state_bytes = 0;  // recurrent state of a session; 0 for most layers
  // A mixture has experts; 0 where the layer is none. An expert's bytes are parts of weight_bytes
  // and download_bytes. They are parts of read_bytes_per_token as often as a token asks for one.
  // The rest is the layer's hub form.
  uint32_t expert_count = 0, experts_per_token = 0;
  uint64_t expert_bytes = 0;
  // They are the neuron groups of an MLP: every token asks for all, in any number of sums.
  bool groups = false;
  // They are ranges of so many columns of the output head, of which a token asks for all; 0: they
  // are not. The last ones overlap, so they have more bytes than the weight.
  uint32_t head_range_columns = 0;
  bool is_shared() const { return groups || head_range_columns > 0; }
  // Ranges of other products, of which a token asks for all, in so many exchanges. They are parts
  // behind the experts. All count with the mean of their bytes, which are counted as experts' are.
  uint32_t range_count = 0, range_exchanges = 0, range_columns = 0;
  uint64_t range_bytes = 0;
  uint32_t part_count() const { return expert_count + range_count; }
  uint64_t part_bytes(uint32_t part) const {
    return part < expert_count ? expert_bytes : range_bytes;
  }
  uint64_t parts_bytes() const { return expert_count * expert_bytes + range_count * range_bytes; }
  std::vector<float> group_norms;  // of their outputs, by group; empty: not known
  // `tied_bytes` of weight_bytes are the same blobs as in the earlier layer `tied_to` (-1: none).
  int tied_to = -1;
  uint64_t tied_bytes = 0;
  bool with_previous = false;  // runs where the layer before it runs
};

struct ModelInfo {
  std::string name;
  Sha256Digest package_digest{};
  std::vector<ModelLayer> layers;  // n + 2
  uint32_t context_length = 0;     // positions that it was made for; 0: not known
  uint32_t hidden_columns = 0;
  uint32_t vocabulary = 0;
  DType boundary_dtype = DType::kF16;
  bool lowered = true;   // false: only workers that run ONNX stages can serve it
  bool has_onnx = true;  // false: workers that run ONNX stages cannot serve it
  bool embeds = false;   // it writes no text: its head gives rows that become embeddings
  // Of what the head gives: logits, or such rows.
  uint32_t head_columns() const { return embeds ? hidden_columns : vocabulary; }
  // Whether sessions have recurrent state, which knows few positions of its past.
  bool is_recurrent() const {
    return std::ranges::any_of(layers, [](const ModelLayer& l) { return l.state_bytes > 0; });
  }
  bool is_in_groups() const {
    return std::ranges::any_of(layers, [](const ModelLayer& l) { return l.groups; });
  }
  bool divides_head() const {
    return std::ranges::any_of(layers,
                               [](const ModelLayer& l) { return l.head_range_columns > 0; });
  }
  bool divides_products() const {
    return std::ranges::any_of(layers, [](const ModelLayer& l) { return l.range_count > 0; });
  }
  // A hub that the server serves asks for whole slots alone (experts/served_hubs.h).
  bool allows_served_hubs() const { return !divides_head() && !divides_products(); }
  // Of weights, beside f32, f16, bf16, q8 and q4: a worker says which of them it runs.
  std::vector<DType> dtypes;
  uint32_t program_version = 1;  // program::VersionOf and package::Manifest::format(),
  uint32_t package_format = 1;   // which this module may not include
};

// The plans that are looked for have ranges of whole layers, or hubs. Any worker that takes a hub's
// experts, or neuron groups, may hold them (experts.h).
enum class PlanKind {
  kLayers,
  kExperts,
  kTensor,  // hubs of a model in neuron groups
  kAuto,    // whole layers or hubs, whichever is predicted to be faster
};

// The orchestrator's timeouts are all in one place.
struct Timeouts {
  Duration ping_interval = wire::kPingInterval;
  // A worker is lost when no byte came for this time. A native worker answers pings on a thread of
  // its own. It is lost after this, or after four times its longest round trip of late and a ping.
  Duration silence_limit_native = Milliseconds(1100);
  Duration silence_limit = Seconds(10);       // of a tab
  Duration silence_limit_busy = Seconds(30);  // same while it loads layers or runs its first steps
  // A step is late after twice the longest time that steps of about as many rows took, and this.
  // Whoever stands by is asked for it then.
  Duration late_slack = Milliseconds(30);
  Duration step_deadline_min = Seconds(2);  // deadline = max(this, factor x predicted)
  double step_deadline_factor = 5;
  // A tab that still answers pings is slow rather than gone, and closing it costs a load of its
  // layers. Its steps have this long at least.
  Duration step_deadline_alive = Seconds(10);
  // This replaces step_deadline_min until a worker has answered once in a binding, and a GPU a step
  // or batch of about that size.
  Duration step_deadline_first = Seconds(30);
  Duration connect_limit = Seconds(5);  // socket open to Connect, download probe included
  // prepare limit = max(this, factor x bytes / bandwidth)
  Duration prepare_min = Seconds(20);
  // The same of layers on a tab or headless worker, which may compile kernels for long.
  Duration prepare_min_kernels = Seconds(60);
  double prepare_factor = 3;
  Duration measure_limit = Seconds(30);
  Duration measure_limit_kernels = Seconds(90);  // the same of a tab or headless worker
  // A device that has passed its check and serves is checked again after so long, or when a request
  // has ended.
  Duration check_again = Seconds(30);
  Duration replan_interval = Seconds(15);
  // A native worker is pinged when its step is late, or when it owes an answer and says nothing for
  // `probe_after`. It is lost without a byte after probe_limit, or after four times its longest
  // round trip of late. What its steps take on the line comes on top.
  Duration probe_after = Milliseconds(100);
  Duration probe_limit = Milliseconds(150);
  Duration resume_limit = Seconds(60);  // a worker whose connection broke may come back so long
  // The devices of before a restart are waited for so long before anybody else is asked to load
  // what they hold.
  Duration restart_limit = Seconds(10);
  // A worker that is not read from, since another does not take what it sends, may be silent so
  // long.
  Duration held_back_limit = Seconds(10);
  Duration holder_stats = Seconds(1);  // hubs tell so often what holders of experts did
  // A worker that leaves is let go at the latest after this; workers give up after 2 s.
  Duration leave_limit = Milliseconds(1500);
  // A request that got no token for so long is ended, waiting or running.
  Duration token_limit = Seconds(900);
  Duration join_debounce = Milliseconds(150);  // devices that join together are planned together
  Duration join_debounce_waited_for = Milliseconds(20);  // while an answer waits for missing layers
  // A device that joins a swarm that serves only stands by, until it has computed a step or stayed
  // so long.
  Duration newcomer = Seconds(3);
  // A device that could not get layers onto its disk, or was sent damaged ones, is asked for none
  // so long. The time doubles, up to aside_max.
  Duration load_pause = Seconds(5);
  // A repair is given up for another device or plan when it takes longer than so many times what
  // was predicted, and than that long.
  double repair_factor = 3;
  Duration repair_min = Seconds(10);
  Duration aside_first = Seconds(15);  // a worker that failed is left out so long, doubling,
  Duration aside_max = Seconds(600);   // up to this
  Duration aside_alone = Seconds(60);  // where nothing can be computed without it
  // These limit RunHere: how often a device may ask for it, and how long the owner is asked for
  // consent.
  Duration run_here_interval = Seconds(60);
  Duration consent_limit = Seconds(30);
};

// The default where losing is asked for, of eight devices that lose 5% of their datagrams each.
inline constexpr double kDefaultLossLimit = 0.05;

// `weft serve` serves with these where nothing else is asked for. The core, the server and the
// command line share them.
inline constexpr uint32_t kDefaultContextLength = 4096;  // positions a session may hold
inline constexpr uint32_t kDefaultSessions = 4;          // held at once
inline constexpr uint32_t kDefaultQueueLimit = 64;       // requests that may wait
inline constexpr uint32_t kDefaultWorkerLimit = 256;     // devices that may be connected
// The marks stand behind the system prompt, before the last message and before the answer.
inline constexpr uint32_t kDefaultMarks = 3;

struct CoreOptions {
  ModelInfo model;
  uint32_t context_length = kDefaultContextLength;  // positions a session may hold
  uint32_t session_count = kDefaultSessions;        // sessions held at once
  PlanKind plan_kind = PlanKind::kLayers;           // one that PlanProblem accepts
  uint32_t expert_copies = 0;  // holders that a hub asks for an expert at once; 0: as many as pay
  bool half_rows = false;      // rows of experts travel in f16
  // Sums of neuron groups may be lost, up to this share of their weight; nullopt: nothing is.
  std::optional<double> loss_limit;
  uint32_t marks = kDefaultMarks;  // of a session, in layers with recurrent state: base/marks.h
  uint32_t expert_replicas = 2;    // holders of each expert, as far as memory goes
  // Requests that would wait beyond this are refused, and those of one client beyond half of it. A
  // client of whom none waits finds room up to twice as many.
  uint32_t queue_limit = kDefaultQueueLimit;
  // A session goes on to the next client after so many rows, where more clients have requests than
  // there are sessions (Requests::MakeRoom).
  uint32_t turn_rows = 512;
  uint64_t history_bytes = 1 << 30;  // boundary rows that are kept for whoever takes over layers
  // Plans reserve scratch for frames of so many rows.
  uint32_t prefill_chunk_rows = 128;
  // A frame of a prompt holds what the slowest stage computes in about this time (chunk.h). 0 means
  // prefill_chunk_rows.
  Duration prefill_chunk_time = Milliseconds(50);
  uint32_t candidate_count = 64;  // asked of the last stage when sampling
  // A frame of a device that runs the whole model has so many tokens. 0 means as many as take a
  // tenth of a second.
  uint32_t generate_interval = 0;
  std::string join_token_sha256_hex;  // empty: no token needed
  // Join tokens of earlier starts are let in, too.
  std::vector<std::string> earlier_join_tokens_sha256_hex;
  // RunHere may bring this API key. It is empty where there is none.
  std::string api_key_sha256_hex;
  std::vector<std::string> earlier_api_keys_sha256_hex;
  // Tells whether the SHA-256 in hex is that of a further join token, or of an owner's API key,
  // which is good now. It is asked where one is demanded or brought, and may be empty. Only this
  // may answer otherwise the next time.
  std::function<bool(const std::string&sha256_hex)> is_join_token, is_owner_key;
  // Gives the sentence for a device that the owner has evicted (Worker::probation_key); nullopt
  // lets it join. It may be empty, and may answer otherwise the next time.
  std::function<std::optional<std::string>(const std::string& device)> find_eviction;
  uint64_t probe_seed = 0;                      // random: of the rows that devices are checked with
  uint64_t probe_bytes = 8 << 20;               // length of GET /probe that a joining worker times
  uint32_t worker_limit = kDefaultWorkerLimit;  // workers beyond that are refused
  // Connections without an accepted Connect are limited by address and in all (strangers.h). A
  // class of forty tabs behind one address joins at once.
  uint32_t strangers_per_address = 48, stranger_limit = 192;
  // So many devices may join from one network at once, and again. A class behind one address joins
  // twice without waiting (WorkerConnected::network).
  uint32_t joins_at_once = 80;
  double joins_per_s = 2;
  uint32_t failure_limit = 3;  // failures in a row before a worker is put aside
  uint32_t kill_limit = 3;     // devices that one step of a request may take down
  // A random number of this start, or of `restored`: what the core before this one has placed
  // where.
  std::string swarm_id = std::string(16, '\0');
  uint64_t incarnation = 1;  // of this start: NextIncarnation
  // Servers that may lead this swarm after this one, by their order. Workers that lose this one try
  // them.
  std::vector<Successor> successors;
  // Told of a worker that has seen a higher incarnation. Whoever gave the number gives a higher one
  // then (LeadershipChanged). Empty: nobody else leads, and the core raises its own.
  std::function<void(uint64_t seen)> tell_seen;
  std::optional<Placement> restored;
  std::vector<PlacedLifetime> lifetimes;     // of devices that cores before this one have known
  std::vector<PlacedPopularity> popularity;  // of this model's experts, as such cores have seen it
  uint32_t step_failure_limit =
      8;  // failed steps of a request without a token before it is given up
  Timeouts timeouts;
};

// Gives the options of a swarm that serves this model, everything else at its default. Only here
// the context is decided: what is wanted, but no more than the model was made for.
inline CoreOptions OptionsFor(ModelInfo model, uint32_t wanted_context, uint32_t session_count) {
  CoreOptions options;
  options.context_length =
      model.context_length > 0 ? std::min(wanted_context, model.context_length) : wanted_context;
  options.session_count = session_count;
  options.model = std::move(model);
  return options;
}

}  // namespace weft::swarm
