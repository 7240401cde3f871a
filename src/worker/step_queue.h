// What waits to be computed, in the order of the messages, and what is under way: steps and their
// refusals, forks, Generates, installing and unloading. A part of membership (membership.h). The
// same in TypeScript: web/packages/worker/src/membership/stepQueue.ts.
//
// One piece of work is under way at a time, but for steps of different sessions
// (Offer::steps_in_flight). The next one begins when the first has ended, and not when its answer
// was sent.
//
// Steps are answered in the order in which they came. One that waited for experts on other machines
// may have ended after a later one (hub.h).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "wire/fork_frame.h"
#include "worker/expert_work.h"
#include "worker/generate_queue.h"
#include "worker/offer.h"
#include "worker/outbox.h"
#include "worker/session_limits.h"
#include "worker/stage_table.h"

namespace weft::worker {

class StepQueue {
 public:
  // Layers that were read, to become part of the engine. `ticket` is Loads' own.
  struct Install {
    uint32_t ticket = 0;
    std::unique_ptr<engine::LoadedLayers> layers;
  };
  // What the computing thread does now, or will do next.
  struct Running {
    std::optional<uint32_t> install;  // a ticket
    bool measures = false, keeps = false, takes_stock = false;
    bool unanswered = false;                               // its connection is gone
    std::optional<uint64_t> step;                          // a number of answers_
    std::vector<uint32_t> sessions;                        // of a step
    std::optional<uint32_t> place;                         // of a hub's step
    std::optional<uint32_t> experts_for;                   // the hub
    std::vector<std::pair<uint32_t, uint32_t>> generates;  // sequences and bindings of a batch
  };

  StepQueue(Outbox& out, const StageTable& stages, ExpertWork& experts, const Offer& offer)
      : out_(out),
        stages_(stages),
        experts_(experts),
        sessions_(offer.needs_onnx),
        steps_in_flight_(offer.steps_in_flight) {}

  // From Connect on: the model, and how many sessions a batch of tokens takes.
  void Begin(uint32_t layer_count, uint32_t places);
  SessionLimits& sessions() { return sessions_; }

  // ---- what comes ----

  void OnFrame(const Slice& message);
  void OnFork(const wire::Fork& fork);
  void OnGenerate(wire::Generate generate, bool is_member);
  void Stop(uint32_t sequence) { generates_.Stop(sequence); }
  // Generates whose session is over, or whose binding is gone.
  void StopOver();
  void Invalidate(const wire::pb::InvalidateSessions& message);
  // All sessions are over.
  void ForgetSessions();
  void Push(Work work);
  void Push(Install install) { waiting_.push_back(std::move(install)); }
  // Before everything that waits.
  void PushFront(Work work);
  // Whether there were any.
  bool DropInstalls();

  // ---- what is computed ----

  // Gives the work of an install; nullopt: nobody wants it any more.
  using TakeInstall = std::function<std::optional<Work>(Install)>;
  // Begins what can be begun. Hubs' dispatches and all other work take turns.
  void ComputeNext(const TakeInstall& take_install);
  // What was begun first has ended. REQUIRES: something was under way.
  Running Ended();
  void OnStepDone(const Running& ran, Result<Outcome> outcome);
  void OnMadeTokens(const Running& ran, Result<Outcome> outcome);

  bool IsIdle() const;
  bool IsUnloading() const { return unloads_waiting_ > 0; }
  bool IsLoading() const {
    return !running_.empty() && (running_.front().install || running_.front().measures);
  }
  bool ComputesExperts() const { return !running_.empty() && running_.front().experts_for; }
  // Adds the layers that steps and Generates need until they are computed.
  void AddNeeded(KeepLayers* keep) const;

  // Nothing that waits can be answered; what forgets and unloads is still done.
  void OnConnectionLost();

 private:
  using Waiting = std::variant<Work, Install, wire::pb::WorkerMessage, wire::Generate>;
  // A step that was begun, and what it was answered with while older ones are not.
  struct Answer {
    uint32_t sequence = 0, binding = 0, stage = 0;
    std::optional<Action> answer = {};
    std::optional<wire::pb::WorkerMessage> before = {};  // is sent right before it
  };

  Result<StageTable::Binding> BindingFor(const wire::Frame& frame);
  void Begin(Waiting waiting, const TakeInstall& take_install);
  void BeginWork(Work work);
  void BeginBatch();
  bool BeginExperts();
  // Whether what waits first is a step that may begin before the steps under way have ended.
  bool MayBeginBehind() const;
  // A step that has what it waited for.
  bool BeginResume();
  // What a step can do while it waits, for when nobody else has anything to do.
  void BeginPrediction();
  // Whether it has to wait for steps that wait for experts.
  bool IsHeldUp(const Waiting& waiting) const;
  // Steps that nobody can help give way to what makes them pointless.
  bool AbandonStuckFor(const Waiting& waiting);
  void ForgetHub();
  // Sends it once every older step is answered.
  void AnswerStep(uint64_t number, Action answer);
  void FailStep(uint64_t number, const Error& error);
  void SayLosses(uint64_t number, uint32_t place);
  // Behind the work that waits.
  void SayInOrder(wire::pb::WorkerMessage message) { waiting_.push_back(std::move(message)); }

  Outbox& out_;
  const StageTable& stages_;
  ExpertWork& experts_;
  SessionLimits sessions_;
  const uint32_t steps_in_flight_;
  GenerateQueue generates_;
  uint32_t layer_count_ = 0;
  std::deque<Waiting> waiting_;
  uint32_t unloads_waiting_ = 0;  // of `waiting_` and running
  std::deque<Running> running_;   // in the order in which they end
  bool experts_turn_ = false;     // before what waits
  std::deque<Answer> answers_;
  uint64_t first_answer_ = 0;  // the number of the first of them
};

}  // namespace weft::worker
