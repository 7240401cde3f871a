// One connected worker as the core knows it, in parts by who may change them, and the roster of all
// of them. Plain data with a few questions.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/time_buckets.h"
#include "base/token_bucket.h"
#include "swarm/events.h"
#include "swarm/holder_counts.h"
#include "swarm/plan_state.h"
#include "swarm/step_sums.h"
#include "swarm/workers/connect.h"
#include "swarm/workers/layer_set.h"
#include "swarm/workers/owned.h"
#include "swarm/workers/worker_times.h"
#include "wire/control.pb.h"
#include "wire/data_frame.h"
#include "wire/whole_frame.h"

namespace weft::swarm {

class Checks;
class Experts;
class Health;
class HubReports;
class Lifecycle;
class Measuring;
class Members;
class Pipeline;
class Planning;
class SidePlans;
class WholeWishes;

// A step frame or a Generate that has not been answered to the end.
struct SentFrame {
  PlanId plan = kActivePlan;  // that asked for it
  uint32_t sequence = 0;
  BindingId binding;
  uint16_t stage = 0;
  LayerSpan layers;
  std::vector<wire::Run> runs;
  uint32_t rows = 0;
  uint32_t columns = 0;  // of the hidden rows expected back; 0: none
  Instant sent_at;
  // Counted from when it became the oldest: answered within this, or the worker is given up; and
  // late from then on, so that whoever stands by is asked.
  Duration limit, late;
  bool was_late = false;
  bool told_losses = false;  // GroupsLost came for it
  bool alone = false;        // nothing else was in flight: its round trip is a measurement
  uint64_t step_bytes = 0;
  // For one row: by the plan when it was made, and by what is known now.
  double planned_us = 0, predicted_us = 0;
  // A Generate (wire/whole_frame.h): answered by several messages, the last one of which ends
  // it.
  bool stopped = false;
  uint32_t tokens_made = 0;
  Instant told_at;  // when it was sent, or told of tokens last
  // Another Generate of its batch has failed since it told of tokens: if it fails, too, the device
  // has failed once.
  bool failure_counted = false;
  uint64_t answer_bytes = 0;  // of the longest message that may answer it
};

struct SentPing {
  uint64_t nonce = 0;
  Instant sent_at;
  uint32_t answer_bytes = 0;  // > 0: asked for, to measure the line
};

// Rows made from a seed, and the layers that are to compute them.
struct Probe {
  LayerSpan layers;
  uint64_t seed = 0;
};

struct ProbeAnswer {
  std::string digest;          // SHA-256 of the rows
  std::vector<float> samples;  // wire::ProbeColumns of each
};

// Whether it computes what it should. Checks'.
enum class CheckState { kUnchecked, kTrusted, kPassed, kFailed };

struct WorkerCheck {
  CheckState state = CheckState::kUnchecked;
  bool asked = false;  // for rows
  // What it answered while there was nothing to compare with.
  std::optional<std::pair<Probe, ProbeAnswer>> waiting;
  std::set<uint32_t> tried;  // of one that is trusted: first layers that it was asked for others
  // Of one that has passed: when last, how many requests had ended by then, and whether it has
  // answered a step of the plan since.
  Instant passed_at;
  uint64_t passed_requests = 0;
  bool has_served = false;
  uint32_t again_count = 0;     // how often it was asked since the first time
  uint32_t unanswered = 0;      // of these the last in a row
  Instant again_at;             // when it was asked last, and
  uint64_t again_requests = 0;  // how many requests had ended by then
};

struct MeasureJob {
  enum class Phase { kNone, kDownloading, kRunning } phase = Phase::kNone;
  uint32_t first = 0, middle = 0, end = 0;  // MeasureRanges
  Instant deadline;
  bool tried = false;          // it has been asked once
  bool only_probes = false;    // nothing is timed
  bool again = false;          // it has passed a check before, and may serve meanwhile
  uint32_t late_answers = 0;   // to measurements that were given up
  std::optional<Probe> probe;  // rows that are asked for
  Instant asked_at;
  bool was_loaded = false;  // all of the layers, when it was asked
  Instant again_at;         // measured: when it may be measured again
};

// What its engine takes of what it offers. Lifecycle's.
//
// What a worker reports after a load holds for that load. An engine that asks for room in large
// pieces, or kept some that an earlier load took, reports more for a byte of weights than the next
// byte would take, and nothing would ever correct that where it keeps the worker out of every plan.
// So a report above the claim is doubted where no plan is left with it: the claim counts again. A
// worker that then holds more than it offers has refuted the doubt.
enum class Doubt { kNone, kDoubted, kRefuted };

struct WorkerMemory {
  double weight_factor = 1;     // that plans count with: latest report, in doubt the claim
  Doubt doubt = Doubt::kNone;   // of reports above the claim
  uint64_t reported_bytes = 0;  // used_bytes of the last Prepared
};

// How much of its memory plans may use. Members'.
struct WorkerLimit {
  uint64_t bytes = 0;            // the offer, or less for a while after it ran out of memory
  std::optional<Instant> until;  // then the whole offer is tried again
  uint32_t failures = 0;
};

// Whether it may be asked to get layers that it has not. Its disk may be full, or what it is sent
// damaged: asking again at once would change nothing of it, and what it runs goes on. Members'.
struct WorkerLoading {
  std::optional<Instant> paused_until;
  uint32_t pauses = 0;   // since it got something
  bool is_slow = false;  // paused since a repair took too long: asked again where nobody else can
};

// Where the model's layers are on the device. Lifecycle's.
struct WorkerLayers {
  LayerSet cached;       // blobs on the device
  LayerSet cached_hubs;  // at least those of their hub form
  LayerSet requested;    // asked to download (DownloadLayers), not yet answered
  LayerSet loaded;       // in memory as far as it was told; an upper bound
  LayerSet loaded_hubs;  // of `loaded` those in hub form: a worker never has both forms of a layer
  uint64_t downloaded_bytes = 0, download_total_bytes = 0;

  const LayerSet& Cached(LayerForm form) const { return IsHub(form) ? cached_hubs : cached; }
  bool HasCached(const LayerSpan& span) const {
    return Cached(span.form).HasAll(span.first, span.end);
  }
  void NoteCached(const LayerSpan& span) {
    cached_hubs.Add(span);
    if (!span.is_hub()) cached.Add(span);
  }
  void NoteLoaded(const LayerSpan& span) {
    loaded.Add(span);
    if (span.is_hub()) loaded_hubs.Add(span);
  }
};

// What a binding has computed before. A GPU compiles kernels when it first meets a step of 1, 2 to
// 3, 4 to 7 ... rows, or a batch of so many sessions: on a slow machine that takes seconds.
class MetSizes {
 public:
  void AddStep(uint32_t rows) { steps_ |= Bit(rows); }
  void AddBatch(size_t sessions) { batches_ |= Bit(static_cast<uint32_t>(sessions)); }
  bool HasStep(uint32_t rows) const { return (steps_ & Bit(rows)) != 0; }
  bool HasBatch(size_t sessions) const {
    return (batches_ & Bit(static_cast<uint32_t>(sessions))) != 0;
  }

 private:
  static uint64_t Bit(uint32_t count) { return uint64_t{1} << std::bit_width(count); }
  uint64_t steps_ = 0, batches_ = 0;
};

// Steps on their way. Pipeline's.
struct WorkerSteps {
  std::deque<SentFrame> in_flight;   // step frames, answered in order
  std::deque<SentFrame> generating;  // Generates, of which each is answered for itself
  Instant oldest_since;  // when in_flight.front() became the oldest, or Tokens came after that
  Instant answered_at;   // a step frame was answered
  Instant last_at{INT64_MIN};  // anything was sent or answered
  bool idle() const { return in_flight.empty() && generating.empty(); }
  BindingId answered_binding;  // last binding of which it answered a step
  MetSizes met;                // of that binding
  void NoteAnswered(BindingId binding) {
    if (binding != answered_binding) met = {};
    answered_binding = binding;
  }
  uint64_t message_limit = 0;    // told to the host; 0: none yet
  uint64_t tokens_computed = 0;  // rows
  StepSums sums;
  TimeBuckets times;        // of them, from sending to the answer
  bool has_served = false;  // it answered a step as a stage of the plan
};

// Heartbeats. Health's.
struct WorkerPings {
  std::deque<SentPing> open;
  Instant next_at;
  uint64_t next_nonce = 1;
  bool upload_probed = false;
  uint64_t told_successors = 0;  // SuccessorList::version; Init has told those of version 0
  // An answer is owed and the worker was asked for a sign of life: when last, and until when.
  std::optional<Instant> probed_at;
  Instant probe_due;
};

// How it has done so far, in this connection. Members'.
struct WorkerRecord {
  std::string problem;           // its last failure, for people
  uint32_t successes = 0;        // steps since the last failure
  double slow_reference_us = 0;  // stage time at the last replanning because of slowness; 0: none
  uint32_t wrong_messages = 0;   // shard messages that nobody waits for, since that was put down
  std::optional<TokenBucket> unasked;  // messages of it that answer nothing
};

// What it holds as a holder of experts, by their numbers (Experts). Lifecycle's, as other things
// that take its memory.
struct WorkerHolding {
  // What it was told to hold, and of that what it has said that it holds. Empty: none.
  std::vector<bool> told, held;
  uint64_t memory_bytes = 0;            // that `told` takes
  std::optional<double> weight_factor;  // as it has reported
  uint64_t most_reported_bytes = 0;     // of weights that a report was of
  BindingId binding;                    // the number of the last HoldExperts
  bool answered = true;
  Instant answer_deadline;
  bool was_holder = false;
};

// Its part in plans of hubs. Experts'.
struct WorkerExperts {
  // By their numbers, experts whose place it is, and of these those whose first place it is.
  std::vector<bool> wanted, wanted_first;
  // As a hub.
  bool is_hub = false, was_hub = false;
  std::string told_holders;         // the last ExpertHolders, without its number
  bool waits = false;               // some of its experts are held by nobody
  Instant waited_until{INT64_MIN};  // when that was over last
  // Shard messages.
  uint64_t longest_message = 0;  // 0: it has no business with them
  uint64_t messages_sent = 0, messages_received = 0;
};

// How long a hub is expected to wait at a layer: by exchange_costs.h, and by how long hubs turned
// out to wait. Planning's.
struct WorkerExchange {
  double us = 0;
};

// What hubs tell. HubReports'.
struct WorkerReports {
  // Of it, as a holder.
  HolderCounts counts;
  std::map<WorkerId, HolderTimes> times;  // of now, by hub
  // By it, as a hub: the last report.
  std::optional<wire::pb::LossReport> losses;
};

// Every part has one owner who changes it; everyone may read. The fields of Worker itself are
// Members', but for `times`.
struct Worker {
  WorkerId id;
  std::string address, network;
  std::string stranger_network;  // by which it counts before Connect (strangers.h)
  Instant connected_at;
  Instant last_heard;
  std::optional<Instant> held_back_at;  // nothing is read from it since
  uint64_t told_incarnation = 0;        // in Init
  bool ready = false;                   // Connect was accepted
  bool trusted = false;                 // as WorkerConnected says
  // It has said that it leaves, and goes on until its layers are elsewhere, at most until then.
  std::optional<Instant> leaves_at;
  std::string eviction;  // the sentence that it is told when it goes; empty: nobody evicts it
  Offer offer;
  std::string probation_key;  // the device, across connections

  WorkerTimes times;  // whoever takes a measurement adds it
  Owned<WorkerMemory, Lifecycle> memory;
  Owned<WorkerLimit, Members> limit;
  Owned<WorkerLayers, Lifecycle> layers;
  Owned<WorkerLoading, Members> loading;
  Owned<std::vector<Binding>, Lifecycle> bindings;  // that it was asked for and not told to drop
  Owned<BindingId, Lifecycle> newest_binding;
  Owned<WorkerHolding, Lifecycle> holding;
  Owned<bool, SidePlans> serves_beside;  // it has a place in a plan beside the active one
  Owned<MeasureJob, Measuring> measure;
  Owned<WorkerCheck, Checks> check;
  Owned<WorkerSteps, Pipeline> steps;
  Owned<WorkerPings, Health> pings;
  Owned<WorkerRecord, Members> record;
  Owned<WorkerExperts, Experts> experts;
  Owned<WorkerExchange, Planning> exchange;
  Owned<WorkerReports, HubReports> reports;
  // Said to it last of the whole model, and whether its owner is asked for that.
  Owned<std::optional<wire::WholeModel::State>, Planning> told_whole;
  Owned<bool, WholeWishes> whole_asked;

  // True while long silences are normal: loading layers, measuring, first steps of a binding.
  bool Busy() const {
    return IsLoading() || (measure->phase == MeasureJob::Phase::kRunning && !measure->again) ||
           (!steps->in_flight.empty() &&
            steps->in_flight.front().binding != steps->answered_binding) ||
           (!steps->generating.empty() &&
            steps->generating.front().binding != steps->answered_binding);
  }
  // Whether it may have to compile kernels before it answers (MetSizes).
  bool MeetsNewSize() const {
    if (offer.kind == "native") return false;
    if (!steps->in_flight.empty() && !steps->met.HasStep(steps->in_flight.front().rows))
      return true;
    return !steps->generating.empty() && !steps->met.HasBatch(SessionsTogether());
  }
  // Of Generates so many are computed at once; the others wait for their turn.
  size_t SessionsTogether() const {
    return std::min<size_t>(steps->generating.size(), std::max(offer.makes_tokens, 1u));
  }
  // Whether the layer is on its way to the device, asked for by itself or with a binding.
  bool IsFetching(uint32_t layer) const {
    return layers->requested.Has(layer) ||
           std::any_of(bindings->begin(), bindings->end(), [layer](const Binding& binding) {
             return !binding.loaded && binding.layers.Covers(layer);
           });
  }
  bool IsLoading() const {
    return !holding->answered ||
           std::any_of(bindings->begin(), bindings->end(),
                       [](const Binding& binding) { return !binding.loaded; });
  }
  const Binding* Find(BindingId wanted) const {
    for (const Binding& binding : *bindings)
      if (binding.id == wanted) return &binding;
    return nullptr;
  }
  // Since when its oldest step is its next one: a hub's waits for experts do not count.
  Instant OldestSince() const { return std::max(steps->oldest_since, experts->waited_until); }
  // What the device has said of its line counts until its steps tell.
  LineRates Rates() const {
    return {times.down_rate.Median().value_or(offer.download_bytes_per_s * 1e-6),
            times.up_rate.Median().value_or(offer.upload_bytes_per_s * 1e-6)};
  }
  // It was pinged because it owes an answer, and nothing has come since.
  bool IsProbed() const { return pings->probed_at && last_heard < *pings->probed_at; }
  // Tokens can be chosen on it without a round trip for each, if it holds all layers.
  bool CanGenerate() const { return offer.makes_tokens > 0; }
  bool SpeedKnown() const {
    return times.measured || times.speed.count() >= 3 || times.group_speed.count() >= 3;
  }
};

// By rising id, so that everything that walks over workers is deterministic.
class Roster {
 public:
  Worker& Add(WorkerId id) { return workers_[id]; }
  void Remove(WorkerId id) { workers_.erase(id); }
  Worker* Find(WorkerId id) {
    const auto found = workers_.find(id);
    return found == workers_.end() ? nullptr : &found->second;
  }
  const Worker* Find(WorkerId id) const {
    const auto found = workers_.find(id);
    return found == workers_.end() ? nullptr : &found->second;
  }
  size_t count() const { return workers_.size(); }
  size_t ready_count() const {
    return static_cast<size_t>(std::count_if(workers_.begin(), workers_.end(),
                                             [](const auto& each) { return each.second.ready; }));
  }
  auto begin() { return workers_.begin(); }
  auto end() { return workers_.end(); }
  auto begin() const { return workers_.begin(); }
  auto end() const { return workers_.end(); }

 private:
  std::map<WorkerId, Worker> workers_;
};

}  // namespace weft::swarm
