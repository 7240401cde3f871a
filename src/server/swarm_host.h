// SwarmHost: runs the orchestrator's core on an event loop: gives it events with the time, carries
// out its actions, plans on a thread pool. Workers attach as a pair of functions, whatever carries
// their messages (a WebSocket, or a queue in this process); requests as callbacks. All on the loop.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/task_queue.h"
#include "base/time_buckets.h"
#include "net/loop.h"
#include "server/generator.h"
#include "server/shard_relay.h"
#include "swarm/core/core.h"

namespace weft::server {

// The address of the worker that the server itself runs.
inline constexpr const char* kInThisProcess = "in this process";

// How the host reaches one worker.
struct WorkerSink {
  std::function<void(std::vector<Slice> pieces)> send;
  std::function<void(std::string reason)> close;
  // No message longer than this is legal from now on (swarm::SetMessageLimit). May be empty.
  std::function<void(uint64_t bytes)> limit_messages = {};
  // False: nothing more is to be taken from the worker, who has to wait, until true. May be empty:
  // then it is never held back.
  std::function<void(bool reads)> set_reading = {};
  // Closes it so that the worker goes where this says (wire/elsewhere.h), with what it holds. May
  // be empty: then it is closed.
  std::function<void(std::string elsewhere)> send_elsewhere = {};
};

// Counters for /metrics and the overhead figures of docs/performance.md.
struct HostCounters {
  uint64_t events = 0;
  Duration core_time;  // wall time inside Core::Handle and carrying out its actions
  uint64_t frames_sent = 0;
  uint64_t frames_received = 0;
  uint64_t bytes_sent = 0;  // WebSocket payloads of data frames
  uint64_t bytes_received = 0;
};

// Of all requests, whatever asked for them.
struct HostTimes {
  TimeBuckets first_token;     // from Submit
  TimeBuckets between_tokens;  // of one answer
};

class SwarmHost : public Generator {
 public:
  SwarmHost(net::EventLoop& loop, TaskQueue& pool, swarm::CoreOptions options)
      : SwarmHost(loop, pool) {
    BeginLeading(std::move(options));
  }
  // It does not lead yet: it is down, takes no workers, and refuses requests.
  SwarmHost(net::EventLoop& loop, TaskQueue& pool);
  SwarmHost(const SwarmHost&) = delete;
  SwarmHost& operator=(const SwarmHost&) = delete;

  // Makes a core, which takes up what the options say. REQUIRES: it does not lead.
  void BeginLeading(swarm::CoreOptions options);
  // Ends the core. Its requests end with a sentence, and its workers go where `elsewhere`
  // (wire/elsewhere.h) says.
  void EndLeading(const std::string& elsewhere);
  bool leads() const { return core_ != nullptr; }
  // While it does not lead: the sentence that requests and pages are told, and whether the server
  // that leads is up, so that pages let people ask.
  void SetStandby(std::string sentence, bool leader_is_up);
  void ChangeLeadership(uint64_t incarnation, std::vector<swarm::Successor> successors) {
    Handle(swarm::LeadershipChanged{incarnation, std::move(successors)});
  }

  // `network`: by which joins are limited (NetworkOf); empty: they are not. `trusted`: of
  // swarm::WorkerConnected.
  swarm::WorkerId AttachWorker(WorkerSink sink, const std::string& address,
                               const std::string& network, bool trusted);
  // A message of the worker: control or data; malformed ones close it.
  void OnWorkerMessage(swarm::WorkerId worker, Slice message);
  void DetachWorker(swarm::WorkerId worker, const std::string& reason);
  // Closes all of them.
  void CloseAllWorkers(const std::string& reason);
  // Closes those whose join token, by its hash (HashSecret), has a reason to; nullopt: none.
  using FindReason = std::function<std::optional<std::string>(const std::string& token_hash)>;
  void CloseWorkers(const FindReason& find_reason);

  swarm::RequestId Submit(swarm::Request request, RequestCallbacks callbacks) override;
  void Cancel(swarm::RequestId request) override;
  // The owner's answer to a device that wants to compute the whole model.
  void Consent(swarm::WorkerId worker, bool allowed) {
    Handle(swarm::ConsentGiven{worker, allowed});
  }
  // The owner wants the worker to go (swarm::WorkerEvicted).
  void Evict(swarm::WorkerId worker, const std::string& sentence) {
    Handle(swarm::WorkerEvicted{worker, sentence});
  }
  // Requests that have not ended, by their client (swarm::Request::client).
  std::map<std::string, uint32_t> OpenRequests() const;
  void ForgetPrefix(const std::string& salt, const std::string& name) override;
  // Ends every request with `error`, those that come later too.
  void EndRequests(const Error& error);

  // What is refused has ended before Submit returns.
  bool has_accepted(swarm::RequestId /*request*/) const override { return true; }
  bool is_up() const override { return core_ && core_->is_up(); }
  bool is_loading() const override {
    return !is_up() && snapshot().state == swarm::SwarmState::kPreparing;
  }
  std::optional<uint32_t> loading_percent() const override { return snapshot().loading_percent; }
  std::string message() const override { return snapshot().message; }
  bool is_ending() const { return ended_with_.has_value(); }  // EndRequests was called
  // The core's, with the bytes of each line.
  swarm::Snapshot snapshot() const;
  std::optional<swarm::RequestProgress> progress(swarm::RequestId request) const override {
    return core_ ? core_->progress(request) : std::nullopt;
  }
  // Expires with the host: for whoever may outlive it.
  std::weak_ptr<const bool> life() const { return alive_; }
  const HostCounters& counters() const { return counters_; }
  const HostTimes& times() const { return times_; }
  // Replaces swarm::RunPlanning (called on the pool), for swarms that are cut by hand.
  using Planner = std::function<planner::PlanOutcome(const swarm::StartPlanning&)>;
  void SetPlanner(Planner planner) { planner_ = std::move(planner); }
  // What is wrong with the files of layers [first, end) of the package, in a sentence; nullopt:
  // nothing. Called on a thread of its own. Without it the server's files are taken for good.
  using LayerChecker = std::function<std::optional<std::string>(uint32_t first, uint32_t end)>;
  void SetLayerChecker(LayerChecker checker) { layer_checker_ = std::move(checker); }
  // Called on the loop when devices hold something else, or the plan is another one.
  void OnPlacementChanged(std::function<void(const swarm::Placement&)> callback) {
    on_placement_changed_ = std::move(callback);
  }
  // Called on the loop with the client of each request that was submitted from now on and has
  // ended, before whoever asked is told. Its `prompt_tokens` are those that were read for it: of
  // one that failed none, of one that was cancelled those until then.
  using OnFinished = std::function<void(const std::string& client, const swarm::FinishRequest&)>;
  void OnRequestFinished(OnFinished callback) { on_request_finished_ = std::move(callback); }
  // Called on the loop after the snapshot may have changed.
  void OnSwarmChanged(std::function<void()> callback) { on_swarm_changed_ = std::move(callback); }

 private:
  // One that waits for its answer: since when, and when its last token came.
  struct OpenRequest {
    RequestCallbacks callbacks;
    std::string client;
    Instant submitted;
    std::optional<Instant> last_token;
  };

  void EndAll(const Error& error);
  void TellToken(OpenRequest& request, const swarm::EmitToken& token);
  void CountFinished(const std::string& client, swarm::FinishRequest end);
  // An event may come while actions are carried out (a callback that cancels, say). It is handled
  // after them: the core's actions leave in their order.
  void Handle(swarm::Event event);
  void CarryOut(swarm::Action& action);
  void Send(swarm::SendData& send);
  void HoldBack(swarm::WorkerId worker, bool held);
  void Plan(const swarm::StartPlanning& job);
  void Check(const swarm::CheckLayers& layers);
  void ArmTimer();

  net::EventLoop& loop_;
  TaskQueue& pool_;
  std::unique_ptr<swarm::Core> core_;  // null while this server does not lead
  uint64_t term_ = 0;                  // counts cores: what an earlier one has asked is dropped
  std::string standby_ = "Another server is to lead this model: ask again in a second.";
  swarm::SwarmState standby_state_ = swarm::SwarmState::kDown;  // of the server that leads
  ShardRelay relay_;
  net::EventLoop::Timer timer_;
  std::optional<Instant> armed_for_;  // when timer_ fires
  std::unordered_map<swarm::WorkerId, WorkerSink> workers_;
  struct LineBytes {
    uint64_t sent = 0, received = 0;
  };
  std::unordered_map<swarm::WorkerId, LineBytes> line_bytes_;  // of data frames, by worker
  std::unordered_map<swarm::RequestId, OpenRequest> requests_;
  std::unordered_map<swarm::WorkerId, std::string> token_hashes_;  // that they showed in Connect
  swarm::WorkerId next_worker_ = 1;
  swarm::RequestId next_request_ = 1;
  std::optional<Error> ended_with_;  // what EndRequests was given
  bool handling_ = false;
  std::deque<swarm::Event> deferred_;
  HostCounters counters_;
  HostTimes times_;
  Planner planner_ = swarm::RunPlanning;
  LayerChecker layer_checker_;
  std::function<void()> on_swarm_changed_;
  OnFinished on_request_finished_;
  // Tokens of prompts that were read when their requests were cancelled.
  std::unordered_map<swarm::RequestId, uint32_t> read_at_cancel_;
  std::function<void(const swarm::Placement&)> on_placement_changed_;
  uint64_t placement_version_ = 0;                              // that was told last
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // planning may end after the host
  TaskQueue checking_thread_{1};  // reads whole layers, and holds up no planning
};

}  // namespace weft::server
