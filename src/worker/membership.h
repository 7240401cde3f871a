// Membership: the worker's side of docs/protocol.md, from Init to the end of its connection, and
// over the connections to one swarm that follow each other. A state machine: an event in, actions
// out; no threads, sockets, clock, files or engine. It decides what is legal, what is fetched,
// read, loaded and computed in which order, and what is answered; others carry it out
// (native_worker.h on threads, sim/ on a virtual clock).
//
// Rules. Messages take effect in the order in which they came. What the engine has to do for them
// waits in one queue, with the answers that must not overtake it, and is done one piece at a time;
// so a step that arrived before a Retire is still computed before the layers go. What the
// orchestrator must never send ends the connection (Finish); work that cannot be done here is
// refused in its own answer (Failed, StepFailed).
//
// Steps are answered in the order in which they came, whichever of them waited for experts on other
// machines and ended after a later one (hub.h).
//
// A connection that breaks ends what was not finished: loads, and work that waits. The work under
// way is finished and not answered; what forgets or unloads is still done. Bindings and sessions
// stay for as long as keeping.h says, and the Connect of the next connection names them.
//
// The same rooms in TypeScript: web/packages/worker/src/membership.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "dispatch/sum_sender.h"
#include "worker/channel_limit.h"
#include "worker/expert_queue.h"
#include "worker/fetch_queue.h"
#include "worker/generations.h"
#include "worker/hub.h"
#include "worker/keeping.h"
#include "worker/membership_events.h"
#include "worker/stage_table.h"

namespace weft::worker {

class Membership {
 public:
  // Begins with a connection, whose Init comes next. Without `random` it agrees on no datagrams as
  // a hub.
  explicit Membership(Offer offer, const dispatch::Options& dispatch = {},
                      std::function<void(MutableByteSpan)> random = {})
      : offer_(std::move(offer)), hub_(dispatch, {offer_.datagram_addresses, std::move(random)}) {}

  // What to do now, in this order. `now` is when the event happened.
  std::vector<Action> Handle(Event event, Instant now);

  // Finish was asked for, or the worker left: events have no effect any more.
  bool ended() const { return ended_; }

 private:
  // Layers on their way into the engine, for a stage or to be measured. Its key is the ticket of
  // the fetch.
  struct Load {
    uint32_t epoch = 0;  // 0: to be measured
    std::vector<engine::LayerRange> ranges;
    uint32_t runs = 0;                                            // of the measurement
    bool standby = false;                                         // nobody waits for it
    bool shards = false;                                          // the ranges' hub form
    std::optional<std::vector<wire::LayerExperts>> experts = {};  // instead of ranges
    std::vector<engine::LayerRange> timed = {};  // of the measurement; others are for its probes
    std::vector<Probe> probes = {};
  };
  // What waits for the computing thread, in order.
  struct Install {
    uint32_t ticket = 0;
    std::unique_ptr<engine::LoadedLayers> layers;
  };
  using Waiting = std::variant<Work, Install, wire::pb::WorkerMessage, wire::Generate>;
  // What the computing thread does now.
  struct Running {
    std::optional<uint32_t> install;  // a ticket
    bool measures = false, keeps = false, takes_stock = false;
    bool unanswered = false;                               // its connection is gone
    std::optional<uint64_t> step;                          // a number of step_answers_
    std::optional<uint32_t> place;                         // of a hub's step
    std::optional<uint32_t> experts_for;                   // the hub
    std::vector<std::pair<uint32_t, uint32_t>> generates;  // sequences and epochs of a batch
  };
  // A step that was begun, and what it was answered with while older ones are not.
  struct StepAnswer {
    uint32_t sequence = 0, epoch = 0, stage = 0;
    std::optional<Action> answer = {};
    std::optional<wire::pb::WorkerMessage> before = {};  // is sent right before it
  };

  void On(MessageReceived& event);
  void On(ControlReceived& event) {
    if (connected_) OnControl(std::move(event.message));
  }
  void On(Joined& event);
  void On(FetchProgressed& event);
  void On(LayerFetched& event);
  void On(FetchEnded& event);
  void On(LayersRead& event);
  void On(WorkDone& event);
  void On(WholeWished& event);
  void On(LeaveAsked& event);
  void On(ConnectionLost& event);
  void On(ConnectedAgain& event);
  void On(KeptLongEnough& event);
  void On(TimerDue& event);
  void On(DatagramReceived& event);

  void OnControl(wire::pb::ServerMessage message);
  void OnInit(const wire::pb::Init& init);
  void OnRefused(const wire::pb::Refused& refused);
  void OnDownloadLayers(const wire::pb::DownloadLayers& message);
  void OnMeasureSpeed(const wire::pb::MeasureSpeed& message);
  void OnPrepareStage(const wire::pb::PrepareStage& message);
  void OnRetire(const wire::pb::Retire& message);
  void OnInvalidateSessions(const wire::pb::InvalidateSessions& message);
  void OnRelease();
  void OnHoldExperts(const wire::pb::HoldExperts& message);
  void OnExpertHolders(const wire::pb::ExpertHolders& message);
  void OnShards(const Slice& message);
  void OnShardFrames(uint32_t peer, std::span<const wire::ExpertFrame> frames);
  // Datagrams (membership_datagrams.cc).
  void OnChannel(uint32_t hub, const wire::ExpertFrame& frame);
  void CarrySenders();
  // Those that may be lost, where datagrams get to the hub; gives the others.
  std::vector<wire::ExpertFrame> SendSums(uint32_t hub, std::vector<wire::ExpertFrame> results);
  void SayLosses(uint64_t step, uint32_t place);
  void OnFrame(const Slice& message);
  void OnFork(ByteSpan message);
  void OnGeneration(ByteSpan message);
  void OnGenerate(wire::Generate generate);

  // The rules for a run of rows that go beyond the engine's: limits of Init.
  Status TakeSession(uint32_t session, uint64_t end_position);
  Result<StageTable::Binding> BindingFor(const wire::Frame& frame);

  // From Init to Connect.
  void AnswerInit();
  void OnStock(Stock stock);
  void SayConnect(std::vector<wire::pb::HeldBinding> held);
  // What is neither loaded nor under way ends.
  void DropLoads();
  void DropUnanswerable();
  void ForgetHub();
  // Nothing that is held means anything any more.
  void KeepOrForget();
  void Forget();

  // What follows from the event: the next work, fetch and read.
  void Advance();
  bool IsIdle() const;
  void Begin(Waiting waiting);
  void BeginWork(Work work);
  void BeginBatch();
  void Add(Load load);
  void DropUnwantedLoads();
  void DropExpertLoads();
  void DropLoad(std::map<uint32_t, Load>::iterator load);
  // The next message's dispatches, if there are any.
  bool BeginExperts();
  // To every hub, how busy this worker is.
  void SayHeartbeats();
  // Whether it has to wait for steps that wait for experts.
  bool IsHeldUp(const Waiting& waiting) const;
  // Steps that nobody can help give way to what makes them pointless.
  bool AbandonStuckFor(const Waiting& waiting);
  // A step that has what it waited for.
  bool BeginResume();
  // What the hub wants sent, and when it wants to be woken.
  void CarryHub();
  // Of every binding, and what the last Retire named.
  KeepLayers WhatIsNeeded() const;
  void UnloadWhatIsNotNeeded();
  // Layers that are kept for more than their hub form.
  std::vector<engine::LayerRange> KeptWhole() const;
  void FailLoad(uint32_t ticket, const Error& error);
  void OnInstalled(uint32_t ticket, const Result<Outcome>& outcome);
  void OnExpertsInstalled(const Load& load, const Outcome& outcome);
  void OnExpertResults(uint32_t hub, Outcome outcome);
  void OnStepDone(const Running& ran, Result<Outcome> outcome);
  // Sends it once every older step is answered.
  void AnswerStep(uint64_t number, Action answer);
  void FailStep(uint64_t number, const Error& error);
  void OnMadeTokens(const Running& ran, Result<Outcome> outcome);
  void StopOver();
  void OnTimings(const Result<Outcome>& outcome);

  // nullopt, and the end, when the range is not one of this model.
  std::optional<engine::LayerRange> Checked(const wire::pb::LayerRange& range);
  void Say(wire::pb::WorkerMessage message);
  void SayFrame(std::vector<Slice> message);
  // Of shard messages. Those for this worker itself take no detour.
  void SayShards(uint32_t peer, std::vector<wire::ExpertFrame> frames);
  // Behind the work that waits.
  void SayInOrder(wire::pb::WorkerMessage message) { waiting_.push_back(std::move(message)); }
  void End(Error error);
  void Violation(std::string sentence) { End(Error(ErrorCode::kInvalidData, std::move(sentence))); }

  const Offer offer_;
  std::vector<Action> actions_;  // of the event that is being handled
  Instant now_;
  bool connected_ = true, leaving_ = false, ended_ = false;
  bool init_seen_ = false, joined_ = false;  // on this connection
  std::optional<wire::pb::Init> init_;       // until it is answered by Connect
  bool joining_ = false, joins_in_vain_ = false;
  bool taking_stock_ = false;
  std::optional<JoinedPackage> package_;  // what is held is of
  Keeping keeping_;
  uint32_t layer_count_ = 0, context_length_ = 0, session_count_ = 0;  // the last two: 0 is any

  StageTable stages_;
  Hub hub_;
  std::optional<Instant> wakes_at_;  // as was asked for
  std::deque<StepAnswer> step_answers_;
  uint64_t first_step_ = 0;  // the number of the first of them
  ExpertQueue experts_;
  std::map<uint32_t, dispatch::SumSender> senders_;  // by hub
  ChannelLimit channel_limit_;
  uint32_t experts_epoch_ = 0;            // of the newest HoldExperts of this connection
  uint64_t experts_bytes_ = 0;            // that they take
  Duration experts_time_;                 // that the last dispatches took
  bool experts_turn_ = false;             // before what waits
  std::vector<engine::LayerRange> kept_;  // what the last Retire named
  std::set<uint32_t> sessions_;           // that steps have named and that are not over
  Generations generations_;
  FetchQueue fetches_;
  std::map<uint32_t, Load> loads_;  // by ticket
  uint32_t next_ticket_ = 1;
  std::deque<uint32_t> fetched_;     // tickets of loads whose layers are to be read
  std::optional<uint32_t> reading_;  // from ReadLayers until its layers are installed
  bool read_interrupted_ = false;
  std::deque<Waiting> waiting_;
  uint32_t unloads_waiting_ = 0;  // of `waiting_` and running
  std::optional<Running> running_;
};

}  // namespace weft::worker
