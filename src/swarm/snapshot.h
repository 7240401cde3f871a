// A picture of the swarm for people and pages; api/ turns it into the JSON of GET /api/swarm.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time_buckets.h"
#include "swarm/events.h"
#include "swarm/holder_counts.h"
#include "swarm/ids.h"
#include "swarm/step_sums.h"

namespace weft::swarm {

enum class SwarmState { kDown, kPreparing, kRepairing, kUp };
enum class WorkerState { kConnecting, kMeasuring, kIdle, kPreparing, kActive, kStandby };

// What a holder of experts did for hubs.
struct HolderSnapshot {
  HolderCounts counts;
  HolderTimes times;
};

// Why a device gets no work, or less than it offers.
struct AsideSnapshot {
  std::string reason;           // a sentence; empty: it is used as it wants to be
  std::optional<double> for_s;  // then it is looked at again; nullopt: no time is set
};

struct WorkerSnapshot {
  WorkerId id;
  std::string name, kind, engine, device;
  WorkerState state = WorkerState::kConnecting;
  uint64_t memory_bytes = 0;
  uint64_t used_bytes = 0;               // planned or reported, for the layers it runs
  int first_layer = -1, end_layer = -1;  // of the active plan; -1: none
  std::vector<uint32_t> cached_layers;
  uint64_t downloaded_bytes = 0, download_total_bytes = 0;  // 0: it downloads nothing now
  double latency_ms = 0;
  double download_bytes_per_s = 0, upload_bytes_per_s = 0;
  double us_per_token = 0;        // measured compute time of its stage, median of recent steps
  double speed_bytes_per_us = 0;  // CS_w
  double overhead_us = 0;         // SO_w
  double handover_us = 0;         // of a small step, beyond a ping
  double batch_gain = 0;          // rows of a prompt in the time of a token; 0: not measured
  double load_bytes_per_us = 0;   // from its disk into its engine; 0: not measured
  double expected_stay_s = 0;     // until its next loss
  bool computing = false;
  uint64_t tokens_computed = 0;
  StepSums steps;
  // Data frames to and from it since it connected, expert frames included; the host counts them.
  uint64_t bytes_sent = 0, bytes_received = 0;
  TimeBuckets step_times;  // from sending a step to its answer
  // Experts that it was told to hold, and of them those that it holds.
  uint32_t experts_told = 0, experts_held = 0;
  uint64_t expert_messages = 0;          // between it and others, both ways
  std::optional<HolderSnapshot> holder;  // nullopt: no hub has told of it
  std::string check;                     // CheckName
  // For whoever looks after the swarm; not for the picture that all users see.
  std::string address;
  std::string device_id;    // the same device in other connections (Worker::probation_key)
  double connected_s = 0;   // since it came
  double silent_s = 0;      // since the last byte of it
  bool is_leaving = false;  // until its layers are elsewhere
  AsideSnapshot aside;
  std::string problem;  // its last failure in a sentence, empty when all is well
};

struct StageSnapshot {
  WorkerId worker;  // 0: a hole, nobody runs these layers now
  uint32_t first_layer = 0, end_layer = 0;
  double predicted_us = 0, measured_us = 0;
  BindingId binding;
  std::vector<WorkerId> filled_by;  // who loads the layers of a hole
  // What the loss of its worker would cost answers now, as far as it can be foreseen; nullopt: they
  // would stop until another device joins.
  std::optional<double> loss_us;
};

// A plan that serves beside the active one.
struct SidePlanSnapshot {
  std::vector<StageSnapshot> stages;
  uint32_t active_requests = 0;  // that it answers now
};

// A device that wants to compute the whole model, which the owner has to allow.
struct ConsentSnapshot {
  WorkerId worker;
  double ends_in_s = 0;  // then it counts as a no
};

// Layers that a worker holds ready without running them.
struct StandbySnapshot {
  WorkerId worker;
  uint32_t first_layer = 0, end_layer = 0;
  bool loaded = false;
  uint64_t lag_rows = 0;  // positions of live sessions that it has not computed
};

// What is lost of the sums of a hub's neuron groups.
struct LossSnapshot {
  struct Line {
    WorkerId worker;
    bool ready = false, blocked = false;
    double loss = 0;  // share of its datagrams
  };
  WorkerId hub;
  std::string state;              // "nobody", "reliable" or "lossy"
  std::string message;            // the same in a sentence
  std::vector<Line> lines;        // of those who may send datagrams
  uint64_t groups = 0, lost = 0;  // of every row and layer
  double share = 0;               // of their weight, lately
  uint32_t falls = 0;             // how often it was too much
  uint64_t datagrams = 0;         // accepted
  uint64_t late = 0;              // fragments that were taken for lost
  uint64_t canaries = 0;          // layers whose losses were asked for again, to measure them
  double drift = 0;               // of these lately: the norm of what was lost, by the sum's
  // Datagrams that were dropped, and fragments, each by reason.
  std::vector<std::pair<std::string, uint64_t>> dropped, fragments;
};

// How far a request is that was accepted and is not over.
struct RequestProgress {
  bool waiting = true;          // for a session
  uint32_t requests_ahead = 0;  // those that get one first
  uint32_t prompt_tokens = 0;
  uint32_t prompt_done = 0;  // prompt tokens that every stage has read, kept ones included
  bool operator==(const RequestProgress&) const = default;
};

struct Snapshot {
  SwarmState state = SwarmState::kDown;
  std::string message;                // a sentence for people: what is going on and what to do
  uint64_t missing_memory_bytes = 0;  // > 0: no plan because of memory
  // While devices load the model: the share of the download that they have; nullopt where nobody
  // downloads.
  std::optional<uint32_t> loading_percent;
  std::vector<WorkerSnapshot> workers;
  uint64_t plan_version = 0;          // rises with every change of plan
  std::vector<StageSnapshot> stages;  // the active plan
  std::vector<SidePlanSnapshot> side_plans;
  std::vector<StandbySnapshot> standbys;
  std::vector<ConsentSnapshot> consents;
  uint64_t history_bytes = 0, history_limit_bytes = 0;  // rows kept for whoever takes over
  double predicted_us_per_token = 0, measured_us_per_token = 0;
  // Mean of |predicted - measured| / measured of steps, by the plan when it was made and by what is
  // known now.
  std::optional<double> initial_error, running_error;
  // Of a plan whose stages are hubs: the model's experts, and how many of them somebody holds.
  uint32_t experts_needed = 0, experts_held = 0;
  bool in_neuron_groups = false;     // the experts are groups of neurons of a dense model
  std::vector<LossSnapshot> losses;  // of hubs that may lose groups
  uint64_t lost_groups = 0;          // of all answers
  std::vector<bool> covered_layers;  // layers that some worker holds or could hold
  uint32_t active_requests = 0, queued_requests = 0;
  TimeBuckets queued_times;    // from acceptance to a session, of requests that got one
  uint32_t kept_prefixes = 0;  // each in the place of a conversation
  uint64_t completed_requests = 0, failed_requests = 0, generated_tokens = 0;
  uint64_t forced_tokens = 0;  // of those: that a grammar left no choice of
  uint64_t side_tokens = 0;    // of those: that side plans made
  // Of requests that have ended: their prompts, and what of them had been computed before.
  uint64_t prompt_tokens = 0, cached_prompt_tokens = 0;
  uint64_t computed_positions = 0;  // rows of all requests, of prompts and of answers
  uint64_t boundary_bytes_sent = 0, boundary_bytes_received = 0;  // data frames since start
  double tokens_per_second = 0;                                   // over the last few seconds
};

}  // namespace weft::swarm
