// A modelled device in a swarm: the real membership and stage host (worker/) on a hash model and a
// virtual clock. What goes wrong with it is put into its engine and into what it sends. Everything
// that the worker refuses, and that was not made to fail on purpose, is a violation: the core
// should never have asked for it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/random.h"
#include "sim/device.h"
#include "sim/hash_engine.h"
#include "sim/hash_experts.h"
#include "sim/scheduler.h"
#include "swarm/options.h"
#include "worker/membership.h"
#include "worker/stage_host.h"

namespace weft::sim {

using FromWorker = std::variant<wire::pb::WorkerMessage, Slice>;

// One fetch of membership, piece by piece: a layer, its hub form, or an expert.
struct ModelFetch {
  struct Piece {
    uint32_t layer = 0;
    LayerForm form = LayerForm::kWhole;  // of the layer
    std::optional<uint32_t> expert;      // or this one of its experts
  };
  std::deque<Piece> pieces;
  Instant began;        // of the first of them
  double bytes = 0;     // of it that were missing then
  uint64_t number = 0;  // of this fetch, so that what it left behind is not taken for another
};

// Datagrams find a device by this.
DatagramAddress AddressOf(const Device& device);

class ModelWorker : public std::enable_shared_from_this<ModelWorker> {
 public:
  struct Hooks {
    std::function<void(FromWorker)> send;
    // Something that must never happen, in words.
    std::function<void(const std::string&)> violation;
    std::function<void()> crash;
    // So many tokens were chosen without the core, in a batch of so many sessions.
    std::function<void(size_t count, size_t sessions)> generated = [](size_t, size_t) {};
    // The server has answered the rows of its hub, or has not.
    std::function<void(bool)> served = [](bool) {};
    // A download made way for a more urgent one, or was not wanted any more.
    std::function<void()> interrupted = [] {};
    // A step of this session was made to fail on purpose because its numbers were not finite.
    std::function<void(uint32_t session)> numbers_failed;
    std::function<void(std::vector<OutgoingDatagram>)> datagrams;
    // What it answers a step with is not so.
    std::function<void()> lied = [] {};
    // It holds nothing, and looks for what its disk has: at first, or after it has dropped all.
    std::function<void()> begins_anew = [] {};
    // It closes its connection by itself, and may come again with what it holds.
    std::function<void()> hangs_up = [] {};
    std::function<void(const std::vector<wire::pb::Init::Successor>&)> knows_successors =
        [](const auto&) {};
  };

  ModelWorker(const swarm::CoreOptions& options, const swarm::Costs& costs, const HashModel& model,
              Device& device, Scheduler& scheduler, uint64_t seed, Hooks hooks);

  void OnControl(wire::pb::ServerMessage message);
  void OnFrame(Slice message) {
    if (!frozen_ && !TakeGiven(message)) Feed(worker::MessageReceived{std::move(message)});
  }
  void OnDatagram(const DatagramAddress& from, std::vector<uint8_t> bytes) {
    Feed(worker::DatagramReceived{{from, std::move(bytes), scheduler_.now()}});
  }
  // Nothing is answered any more; a frozen worker still takes messages.
  void Freeze() { frozen_ = true; }
  // Work and loads are not answered any more; pings are, where they do not wait for them.
  void Stall() { stalled_ = true; }
  // Its user presses "Run it all here", or takes it back.
  void AskWhole(bool wanted) { Feed(worker::WholeWished{wanted}); }
  // Sends what nobody asked it for.
  void SayUnasked();
  void Leave(const std::string& reason) { Feed(worker::LeaveAsked{reason}); }
  bool refused() const { return refused_; }
  // It has closed its connection by itself, and may come again with what it holds.
  bool has_hung_up() const { return has_hung_up_; }
  // Its connection broke, and it has noticed; there is another one. What it holds stays meanwhile.
  void LoseConnection() {
    if (served_) RefuseServed("The connection broke.");
    Feed(worker::ConnectionLost{});
  }
  void ConnectAgain();
  bool can_connect_again() const { return !frozen_ && !stalled_ && !membership_.ended(); }

 private:
  void Feed(worker::Event event);
  void Carry(worker::SendControl& action);
  void Carry(worker::SendFrame& action);
  void Carry(worker::SendShards& action);
  void Carry(worker::SendDatagrams& action) { hooks_.datagrams(std::move(action.datagrams)); }
  void Carry(worker::WakeAt& action);
  void Carry(worker::Join& action);
  void Carry(worker::Fetch& action);
  void Carry(worker::InterruptFetch& action);
  void Carry(worker::ReadLayers& action);
  void Carry(worker::InterruptRead&) {}
  void Carry(worker::Compute& action);
  void Carry(worker::Finish& action);
  void Carry(worker::HangUp&) {
    has_hung_up_ = true;
    hooks_.hangs_up();
  }
  void Carry(worker::KnowSuccessors& action) { hooks_.knows_successors(action.successors); }
  void Carry(worker::KeepFor& action);
  void Carry(worker::LimitSilence&) {}

  void FetchNext();
  double MissingBytes(const ModelFetch::Piece& piece) const;
  void NoteFetched(const ModelFetch::Piece& piece);
  void CheckIncarnation(const worker::Work& work);
  void CheckRows(const worker::RunStep& step);
  void DrawFault(const worker::Work& work);
  std::optional<Error> StepFault(std::span<const engine::Run> runs);
  std::optional<Error> ReadFault();
  void OnRefused(const engine::Run& run, const std::string& why);
  bool Claims() const {
    return device_.lies.claimed_us && device_.lies.HaveBegun(scheduler_.now());
  }
  void CheckFailed(const wire::pb::Failed& failed);
  void CheckStepFailed(const wire::pb::StepFailed& failed);
  void NoteFailed(uint32_t sequence);
  void SendData(std::vector<uint8_t> message);
  void Lie(std::vector<uint8_t>& result);
  void MaybeIllegal();
  // It is done now and known when it has taken its time; or it stops in its middle and goes on.
  void EndWork(uint32_t place, Result<worker::Outcome> outcome, std::set<uint32_t> excused);
  // Of a hub that the server serves (model_worker_served.cc).
  void SayToServer(const wire::ExpertFrame& frame);
  void AskServer(uint32_t place, const worker::StepWaits& waits);
  // Whether it is the server's answer, and goes no further.
  bool TakeGiven(const Slice& message);
  void RefuseServed(const std::string& why);
  // Feeds the event after this time, unless the worker is gone or hangs by then.
  void FeedAfter(Duration delay, std::function<worker::Event()> event);
  void Violation(const std::string& text) { hooks_.violation(device_.id + ": " + text); }

  const swarm::CoreOptions& options_;
  const swarm::Costs& costs_;
  const HashModel& model_;
  Device& device_;
  Scheduler& scheduler_;
  SeededRandom random_;
  Hooks hooks_;
  bool frozen_ = false, stalled_ = false, refused_ = false, has_hung_up_ = false;
  uint64_t heard_incarnation_ = 0;  // of the connection's Init
  uint64_t ran_incarnation_ = 0;    // the highest that it has run a frame of
  Machine machine_;
  std::unique_ptr<worker::StageHost> host_;
  worker::Membership membership_;
  uint32_t computing_ = 0;  // pieces of work under way
  // One of them that waits for the server.
  struct Served {
    uint32_t place = 0, sequence = 0;
  };
  std::optional<Served> served_;
  uint32_t served_sequence_ = 0;  // of the last one
  std::deque<wire::pb::ServerMessage> held_pings_;
  std::optional<ModelFetch> fetching_;
  uint64_t fetch_count_ = 0;
  uint32_t prepared_binding_ = 0;
  std::optional<Instant> wakes_at_;

  // Of the work under way: what is to go wrong, and whether its failure was meant to happen.
  std::optional<Error> fault_;
  bool excused_ = false;
  std::set<uint32_t> excused_sequences_;                   // of the StepFailed that may come
  std::map<uint32_t, std::vector<wire::Run>> last_steps_;  // by sequence
  bool batches_ = false;                                   // it is a batch of Generates
  // Sessions whose last step was failed on purpose, with its generation: what follows in it cannot
  // continue.
  std::set<std::pair<uint32_t, uint32_t>> failed_;  // (session, generation) of steps
};

}  // namespace weft::sim
