// What membership (membership.h) is told and what it asks for, as plain values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/sha256.h"
#include "engine/engine.h"
#include "wire/control.pb.h"
#include "wire/data_frame.h"
#include "wire/expert_frame.h"
#include "wire/expert_sets.h"
#include "wire/whole_frame.h"
#include "worker/offer.h"

namespace weft::worker {

// The session that speed measurements use, and below it one for each further range that they run in
// turn. No step may name it; the server counts sessions from 1.
inline constexpr uint32_t kMeasureSession = 0xffffffff;

// ---- work of the computing thread, and what came of it ----

// Layers that were read become part of the engine. Outcome: Installed.
struct InstallLayers {
  std::unique_ptr<engine::LoadedLayers> layers;
  std::vector<LayerRange> ranges;  // loaded afterwards
  LayerForm form = LayerForm::kWhole;
  uint32_t binding = 0;  // of their binding; 0: they are to be measured
};
// Experts that were read are held from now on, and no others. Outcome: ExpertsInstalled.
struct InstallExperts {
  std::unique_ptr<engine::LoadedLayers> experts;
};
// Times steps of one row over loaded ranges. Outcome: Timings.
// And computes rows that are made from a seed (wire/probe_rows.h).
struct Probe {
  LayerRange layers;
  uint64_t seed = 0;
  uint32_t rows = 1;
};
struct MeasureSpeed {
  std::vector<LayerRange> ranges;
  uint32_t runs = 1;
  std::vector<Probe> probes = {};
};
// Outcome: StepReply. Of layers in their hub form: that, or StepWaits.
struct RunStep {
  wire::Frame frame;
  LayerRange layers;
  Instant arrival;
  LayerForm form = LayerForm::kWhole;
  uint32_t place = 0;     // of a hub's step, among those under way
  bool predicts = false;  // norms of neuron groups are wanted where they can be predicted
};
// Goes on with a step that stopped. Outcome: as of RunStep.
struct ResumeStep {
  uint32_t place = 0;
  std::vector<float> slot_rows;
};
// Predicts how large the outputs of the next layer's groups will be, while rows of the step that
// stopped at this place are away. Outcome: Done.
struct PredictNext {
  uint32_t place = 0;
};
// Forgets the steps that stopped at these places, as if they had never begun. Outcome: Done.
struct AbandonSteps {
  std::vector<uint32_t> places;
};
// A hub's dispatches, as far as they fit one step for each layer. Outcome: ExpertResults.
struct RunExperts {
  std::vector<wire::ExpertFrame> dispatches;
};
// One batch of Generates: some tokens of each, the least `interval` of them at most.
// Outcome: MadeTokens.
struct MakeTokens {
  std::vector<wire::Generate> asked;  // what is still wanted
};
// A session begins as another one in these layers. Where that cannot be, its next step is refused.
// Outcome: Done.
struct ForkSession {
  LayerRange layers;
  engine::SessionFork fork;
  LayerForm form = LayerForm::kWhole;  // of the layers
};
// How a session samples. Outcome: Done.
struct TakeSampling {
  wire::pb::Sampling message;
};
struct ReleaseSessions {
  std::vector<uint32_t> sessions;
};
// Forgets all sessions and unloads everything. Outcome: Done.
struct ReleaseAll {};
// Unloads every layer outside of these ranges. Outcome: Done.
struct KeepLayers {
  std::vector<LayerRange> ranges;
  std::vector<LayerRange> hubs;  // of layers in their hub form
};
// Looks up what the layers of these bindings hold of these sessions. Outcome: Stock.
struct TakeStock {
  std::vector<wire::pb::HeldBinding> bindings;  // without sessions
  std::vector<LayerForm> forms;                 // of each binding's layers
  std::vector<uint32_t> sessions;
};
using Work = std::variant<InstallLayers, InstallExperts, MeasureSpeed, RunStep, ResumeStep,
                          PredictNext, AbandonSteps, RunExperts, MakeTokens, ForkSession,
                          TakeSampling, ReleaseSessions, ReleaseAll, KeepLayers, TakeStock>;

struct Done {};
struct Installed {
  double weight_factor = 1;  // bytes held for a byte of weights
  uint64_t used_bytes = 0;   // of the offer
};
struct ExpertsInstalled {
  uint64_t used_bytes = 0;  // of the offer, by experts
};
struct ExpertResults {
  std::vector<wire::ExpertFrame> results;  // of each dispatch
  Duration computed;
};
struct Timing {
  LayerRange layers;
  std::vector<Duration> runs;
};
struct ProbeAnswer {
  Sha256Digest digest{};  // of all rows, in the boundary's type
  std::vector<float> samples;
};
struct Timings {
  std::vector<Timing> of_ranges;
  std::vector<ProbeAnswer> answers;  // of the probes
};
struct StepReply {
  std::vector<Slice> message;  // the result frame, in pieces
};
// The step stopped where a layer's experts are elsewhere. It wants one row for every slot: slot
// (row, j) is number row * top_k + j. As sums it wants the sum of the slots of every row.
struct StepWaits {
  uint16_t layer = 0, columns = 0;
  uint32_t top_k = 0;
  std::vector<float> rows;        // [tokens, columns]
  std::vector<uint32_t> experts;  // [tokens, top_k]
  SlotKind kind = SlotKind::kExperts;
  float largest_slot = 0, slot_step = 0;  // engine::SlotRequest's
  // How large the outputs of neuron groups will be, by group, over all rows; empty: not known.
  std::vector<float> norms;
  uint16_t range_columns = 0;  // of slots in ranges: columns of a slot's row
  bool in_integers = false;    // whoever holds the experts multiplies the rows as whole numbers
};
// Of one Generate of a batch.
struct MadeOfOne {
  wire::Tokens tokens;
  wire::Generate rest;         // what is wanted after them; nothing where they are the last
  std::optional<Error> error;  // it has failed, and the others have not
};
struct MadeTokens {
  std::vector<MadeOfOne> of_each;
};
struct Stock {
  std::vector<wire::pb::HeldBinding> bindings;
};
using Outcome = std::variant<Done, Installed, ExpertsInstalled, Timings, StepReply, StepWaits,
                             ExpertResults, MadeTokens, Stock>;

// ---- events ----

struct MessageReceived {
  Slice message;  // one WebSocket message
};
// A control message that did not travel as bytes.
struct ControlReceived {
  wire::pb::ServerMessage message;
};
struct Joined {
  Result<JoinedPackage> package;
};
struct FetchProgressed {
  uint64_t done_bytes = 0, total_bytes = 0;
};
struct LayerFetched {
  uint32_t layer = 0;
  uint64_t byte_count = 0;  // that came over the link; 0: it was there
  Duration elapsed;
};
// kCancelled: it was interrupted, and what came stays.
struct FetchEnded {
  Status status = OkStatus();
};
struct LayersRead {
  Result<std::unique_ptr<engine::LoadedLayers>> layers;
};
struct WorkDone {
  Result<Outcome> outcome;
};
// The user wants the whole model here, or not any longer.
struct WholeWished {
  bool wanted = false;
  std::string api_key;  // shows that the user may; empty: there is none
};
// The user goes. Draining: steps are answered until the connection is lost.
struct LeaveAsked {
  std::string reason;
  bool draining = false;
};
// The connection broke. Nothing is sent from then on; what is held stays for a while.
struct ConnectionLost {};
// There is another connection: its Init comes next.
struct ConnectedAgain {};
// The time of KeepFor is over.
struct KeptLongEnough {};
// That of WakeAt has come.
struct TimerDue {};
// A datagram of a hub or a holder, or of anybody.
struct DatagramReceived {
  ReceivedDatagram datagram;
};
using Event =
    std::variant<MessageReceived, ControlReceived, Joined, FetchProgressed, LayerFetched,
                 FetchEnded, LayersRead, WorkDone, WholeWished, LeaveAsked, ConnectionLost,
                 ConnectedAgain, KeptLongEnough, TimerDue, DatagramReceived>;

// ---- actions ----

struct SendControl {
  wire::pb::WorkerMessage message;
};
struct SendFrame {
  std::vector<Slice> message;  // in pieces
};
// A shard message (wire/expert_frame.h).
struct SendShards {
  uint32_t peer = 0;
  std::vector<wire::ExpertFrame> frames;
};
struct SendDatagrams {
  std::vector<OutgoingDatagram> datagrams;
};
// Fetch the manifest and time the link; what was made for another package goes. Asked for while
// nothing is under way. Answered by Joined.
struct Join {
  Sha256Digest package_digest{};
  uint64_t probe_bytes = 0;
};
// Make these layers present and verified, in this order. Answered by LayerFetched for each, perhaps
// FetchProgressed, and FetchEnded. One at a time. Of layers in `experts` only what these experts
// take, in hub form only what that takes, both without LayerFetched.
struct Fetch {
  std::vector<uint32_t> layers;
  std::vector<wire::LayerExperts> experts;
  LayerForm form = LayerForm::kWhole;
};
struct InterruptFetch {};
// Read and repack these ranges, or these experts. Answered by LayersRead. One at a time.
struct ReadLayers {
  std::vector<LayerRange> ranges;
  std::optional<std::vector<wire::LayerExperts>> experts;  // for InstallExperts
  LayerForm form = LayerForm::kWhole;                      // of the ranges
};
// What is being read is not wanted any more; LayersRead comes nevertheless.
struct InterruptRead {};
// Answered by WorkDone. One at a time.
struct Compute {
  Work work;
};
// The connection is over, and this membership with it; nothing comes after it. kUnavailable: trying
// again could help.
struct Finish {
  Error error;
};
// This connection is over, and the next one may do better: close it, and come again with what is
// held. Nothing is sent after it. `later`: the server has asked for a pause.
struct HangUp {
  std::string reason;
  bool later = false;
};
// The servers that may lead this swarm after this one, in the order in which they are to be tried.
// They take the place of those that were told before.
struct KnowSuccessors {
  std::vector<wire::pb::Init::Successor> successors;
};
// Tell KeptLongEnough after this time.
struct KeepFor {
  Duration time;
};
// Tell TimerDue then, in place of what was asked before; nullopt: not any more. Too early does no
// harm.
struct WakeAt {
  std::optional<Instant> at;
};
// When nothing at all was heard of the server for this time, the connection is lost.
struct LimitSilence {
  Duration time;
};
using Action = std::variant<SendControl, SendFrame, SendShards, SendDatagrams, Join, Fetch,
                            InterruptFetch, ReadLayers, InterruptRead, Compute, Finish, HangUp,
                            KnowSuccessors, KeepFor, WakeAt, LimitSilence>;

}  // namespace weft::worker
